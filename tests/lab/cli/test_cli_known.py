"""One rule says which serve is meant and by which key it is asked, whatever is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status, status

from stoker.cli.console.answers import FrontDoorStatus, StatusAnswer
from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import Installation
from stoker.cli.main import run
from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret, Serve
from stoker_lab.commands import running_serve
from stoker_lab.commands.front_door_key import front_door_key

FAST = Serve("fast", served_name="fast-8b", aliases=("gpt-x",))
GUARDED = FrontDoorStatus(auth="keys")


def key(name: str, scope: Scope = Scope.OBSERVE, **more: Any) -> Key:
    return Key(name, Secret(f"value-of-{name}", f"env:{name}"), scope, **more)


def place(*keys: Key) -> Installation:
    settings = Settings(ListenSettings(keys=keys), Paths("/s", "/l", "/v"), (), (FAST,), "/etc/stoker.toml")
    return Installation(Path("/s"), Path("/l"), "stoker up", settings)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_KEY", raising=False)


@pytest.mark.parametrize(
    ("keys", "taken"),
    [
        pytest.param([key("ask", Scope.INFERENCE), key("eye")], "eye", id="one that may also look"),
        pytest.param([key("other", models=("slow",)), key("mine", models=("gpt-x",))], "mine", id="by any name"),
        pytest.param([key("few", max_active=1), key("more", max_active=8)], "more", id="the most at once"),
        pytest.param([key("more", max_active=8), key("eye"), key("boss", Scope.ADMIN)], "eye", id="without a limit"),
    ],
)
def test_without_a_variable_a_key_of_the_configuration_is_taken_that_may_do_it(keys: list[Key], taken: str) -> None:
    found = front_door_key(place(*keys), GUARDED, FAST, None)
    assert (found.value, found.source) == (f"value-of-{taken}", f"the key '{taken}' of the configuration")
    assert "value-of" not in repr(found)


@pytest.mark.parametrize("keys", [(), (key("ask", Scope.INFERENCE),), (key("other", models=("slow",)),)])
def test_where_no_key_may_do_it_the_variable_is_named(keys: tuple[Key, ...]) -> None:
    with pytest.raises(UsageError, match=r"scope `observe` into the variable STOKER_KEY.*make one: export STOKER_KEY="):
        front_door_key(place(*keys), GUARDED, FAST, None)


def test_the_variable_goes_first_and_one_that_is_named_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_KEY", "mine")
    assert front_door_key(place(key("eye")), GUARDED, FAST, None).value == "mine"
    with pytest.raises(UsageError, match="the variable OTHER"):
        front_door_key(place(key("eye")), GUARDED, FAST, "OTHER")
    monkeypatch.setenv("OTHER", "theirs")
    assert front_door_key(place(key("eye")), GUARDED, FAST, "OTHER").value == "theirs"


def test_an_open_front_door_gets_no_key_of_the_configuration() -> None:
    assert front_door_key(place(key("eye")), FrontDoorStatus(auth="none"), FAST, None).value is None


@pytest.mark.parametrize(
    ("serves", "meant"),
    [
        ([serve_status("fast", "ready"), serve_status("slow")], "fast"),
        ([serve_status("fast", "held"), serve_status("words", "ready", dialects=["embeddings"])], "fast"),
        ([serve_status("fast"), serve_status("words", "ready", dialects=["embeddings"])], "fast"),
    ],
)
def test_the_one_that_is_meant_without_a_name_runs_and_chats_or_is_the_only_one_that_could(
    serves: list[dict[str, Any]], meant: str
) -> None:
    assert running_serve.choose_serve(None, msgspec.convert(status(*serves), StatusAnswer)).name == meant


@pytest.mark.parametrize("command", ["canary", "soak", "preflight", "benchmark"])
def test_every_measurement_is_told_alike_which_serve_it_could_mean(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    stoker.status(serve_status("fast", "ready"), serve_status("slow", "ready"))
    assert run(["eval", command]) == 2
    assert "which serve? name one of them: fast, slow" in capsys.readouterr().err
    stoker.status(serve_status("words", "ready", dialects=["embeddings"]))
    assert run(["eval", command]) == 2
    assert "none speaks a chat dialect" in capsys.readouterr().err
