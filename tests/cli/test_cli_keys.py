"""`stoker keys` and `stoker usage`: what they print, and what they say when something is wrong."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker
from tests.scenarios.plane import Plane, running, serve
from tests.scenarios.test_sharing import ask

from stoker.cli.main import run
from stoker_lab.testing.script.script import Script


class Terminal(io.StringIO):
    """Where a person types."""

    def isatty(self) -> bool:
        return True


CONFIG = 'auth = "keys"\n[app.agents]\ntokens_per_day = 5000\n'
TABLES = """[[tier]]
name = "small"
serve = "fast"
[alias]
planner = "auto:planning"
[alias.main]
serve = "fast"
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    fast = serve("fast", Script(tokens=10, prompt_tokens=7), slot=None, aliases=["quick", "gpt-*"])
    with running(fast, TABLES, front_door=CONFIG) as plane:
        yield plane


@pytest.mark.parametrize(
    "models", ["fast", "quick", "gpt-*", "small", "planner", "main", "auto", "auto:planning", "*", "fast,auto"]
)
def test_a_key_may_list_every_name_that_clients_may_ask_for(plane: Plane, models: str) -> None:
    made = plane.run("keys", "create", "listed", "--models", models)
    assert (made.returncode, made.stderr.count("works now")) == (0, 1)
    assert plane.run("keys", "delete", "listed").returncode == 0


def test_a_key_from_its_making_to_its_end(plane: Plane) -> None:
    made = plane.run("keys", "create", "alice", "--app", "agents", "--requests-per-minute", "1000", "--expires", "90d")
    value = made.stdout.strip()
    assert (made.returncode, value.startswith("sk-stoker-"), value in made.stderr) == (0, True, False)
    assert asyncio.run(ask(plane, value, max_tokens=20)).status == 200
    shown = plane.run("keys", "show", "alice").stdout
    assert all(text in shown for text in ("agents", "requests_per_minute", "tokens_per_day", "4,983"))
    changed = plane.run("keys", "set", "alice", "--context", "64", "--set", "max_output=8", "--reason", "night")
    assert (changed.returncode, "undo it: stoker keys reset alice" in changed.stderr) == (0, True)
    config = plane.run("config", "show").stdout
    assert "# key 'alice': context = 64, max_output = 8" in config
    assert "(night)" in config
    assert json.loads(plane.run("config", "show", "--json").stdout)["overrides"][0]["name"] == "alice"
    assert "context=64*" in plane.run("keys", "list").stdout
    assert plane.run("keys", "set", "alice", "--models", "fast", "--set", "cloud=false").returncode == 0
    assert "models=fast*, " in plane.run("keys", "list").stdout, "lists as the option takes them"
    assert "cloud = false" in plane.run("keys", "show", "alice").stdout
    assert plane.run("keys", "set", "alice", "--reset").returncode == 0
    assert "overrides" not in json.loads(plane.run("config", "show", "--json").stdout)
    new = plane.run("keys", "rotate", "alice", "--grace", "0s").stdout.strip()
    assert [asyncio.run(ask(plane, one)).status for one in (value, new)] == [401, 200]
    assert plane.run("keys", "disable", "alice", "--cut").returncode == 0
    assert asyncio.run(ask(plane, new)).status == 401
    assert plane.run("keys", "enable", "alice").returncode == 0
    assert plane.run("keys", "delete", "alice").returncode == 0
    assert asyncio.run(ask(plane, new)).status == 401


def test_an_application_is_changed_for_all_its_keys(plane: Plane) -> None:
    value = plane.run("keys", "create", "bob", "--app", "agents").stdout.strip()
    assert plane.run("keys", "set", "--app", "agents", "--set", "models=[]").returncode == 0
    assert asyncio.run(ask(plane, value)).status == 404
    assert plane.run("keys", "reset", "--app", "agents").returncode == 0
    assert asyncio.run(ask(plane, value)).status == 200


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("keys", "create", "a b"), "is not a valid name"),
        (("keys", "create", "x", "--app", "agent"), "there is no application 'agent'"),
        (("keys", "create", "x", "--expires", "soon"), "for days write 90d"),
        (("keys", "create", "x", "--set", "nonsense"), "write SETTING=VALUE"),
        (("keys", "show", "nobody"), "`stoker keys list` shows all"),
        (("keys", "set", "nobody", "--context", "5"), "there is no key 'nobody'"),
        (("keys", "set", "nobody"), "nothing to change"),
        (("keys", "set", "--context", "5"), "give the name of a key, or an application"),
        (("keys", "create", "x", "--models", "fats"), "no model has the name 'fats'; did you mean 'fast'?"),
        (("keys", "create", "x", "--models", "fast,far"), "no model has the name 'far'"),
        (("keys", "create", "x", "--models", "gpt-4"), "the list takes the pattern itself"),
        (("keys", "create", "x", "--set", "default_model=fats"), "did you mean 'fast'?"),
        (("keys", "set", "--app", "agents", "--models", "fats"), "did you mean 'fast'?"),
        (("usage", "--by", "colour"), "choose among key, app, model"),
        (("usage", "--since", "ever"), "for days write 7d"),
        (("usage", "--csv", "--json"), "exclude each other"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(plane: Plane, words: tuple[str, ...], says: str) -> None:
    found = plane.run(*words)
    assert found.returncode != 0
    assert says in found.stderr


def test_usage_is_shown_as_a_table_as_csv_and_as_json_and_without_a_running_stoker() -> None:
    with running(serve("fast", Script(tokens=10, prompt_tokens=7), slot=None), front_door=CONFIG) as plane:
        value = plane.run("keys", "create", "eve").stdout.strip()
        assert asyncio.run(ask(plane, value)).status == 200
        assert "nothing" not in plane.run("usage").stdout
        [row] = csv.DictReader(io.StringIO(plane.run("usage", "--by", "key,model", "--csv").stdout))
        assert (row["key"], row["model"], row["input_tokens"], row["output_tokens"]) == ("eve", "fast", "7", "10")
        plane.signal(signal.SIGTERM)
        assert plane.exit_code() == 0
        answer = json.loads(plane.run("usage", "--json").stdout)
        assert answer["total"]["output_tokens"] == 10
        assert plane.run("keys", "list").returncode != 0
        assert "start it: stoker up" in plane.run("keys", "list").stderr


QUESTION = "from then on every request needs a key"


def test_before_the_first_key_closes_the_door_that_is_said_and_a_person_is_asked(
    config: Path, stoker: FakeStoker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.answer("POST /admin/keys", {"name": "eve", "key": "sk-stoker-x"})
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert run(["keys", "create", "eve"]) == 1
    said = capsys.readouterr()
    assert QUESTION in said.err
    assert "no key was made" in said.err
    assert stoker.posts() == []
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert run(["keys", "create", "eve"]) == 0
    said = capsys.readouterr()
    assert (QUESTION in said.err, said.out) == (True, "sk-stoker-x\n")


def test_a_first_key_that_is_refused_changes_nothing_and_that_is_said(
    config: Path, stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.answer("POST /admin/keys", {"error": {"message": "no model has the name 'nope'", "code": "bad_key"}}, 400)
    assert run(["keys", "create", "eve", "--models", "nope", "--yes"]) == 1
    said = capsys.readouterr().err
    assert said.index(QUESTION) < said.index("no key was made, so requests need none yet")
    assert "no model has the name 'nope'" in said


@pytest.mark.parametrize("words", [["--yes"], ["--json", "--yes"], ["--json"]])
def test_a_script_is_not_asked(
    config: Path, stoker: FakeStoker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:  # fmt: skip
    stoker.answer("POST /admin/keys", {"name": "eve", "key": "sk-stoker-x"})
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert run(["keys", "create", "eve", *words]) == 0
    assert QUESTION in capsys.readouterr().err


def test_without_a_terminal_it_is_said_before_the_key_is_made(
    config: Path, stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    """As scripts have it: nothing to type, exit 0."""
    said: list[str] = []

    def make(body: Any) -> tuple[int, Any]:
        said.append(capsys.readouterr().err)
        return 200, {"name": "eve", "key": "sk-stoker-x"}

    stoker.routes["POST /admin/keys"] = make
    assert run(["keys", "create", "eve"]) == 0
    assert QUESTION in said[0]


def test_where_keys_are_asked_for_already_nothing_is_said(
    config: Path, stoker: FakeStoker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.status(frontdoor={"port": 8000, "auth": "keys"})
    stoker.answer("POST /admin/keys", {"name": "eve", "key": "sk-stoker-x"})
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert run(["keys", "create", "eve"]) == 0
    assert QUESTION not in capsys.readouterr().err


def test_the_first_key_closes_an_open_door_and_deleting_the_last_one_opens_it_again_and_both_are_said() -> None:
    with running(serve("fast", Script(tokens=1), slot=None)) as plane:
        assert "not needed" in plane.run("client", "curl").stdout
        made = plane.run("keys", "create", "eve")
        assert QUESTION in made.stdout + made.stderr
        assert "not needed" not in plane.run("client", "curl").stdout
        more = plane.run("keys", "create", "ann")
        assert QUESTION not in more.stdout + more.stderr
        assert "need no key" not in plane.run("keys", "delete", "ann").stdout
        last = plane.run("keys", "delete", "eve")
        assert "requests need no key now" in last.stdout + last.stderr
        assert "not needed" in plane.run("client", "curl").stdout
