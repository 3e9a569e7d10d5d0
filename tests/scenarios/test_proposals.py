"""What a message proposes is typed where it was proposed, as it stands, and works."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.proposals import in_text
from tests.scenarios import preloaded
from tests.scenarios.plane import MODELS, Plane, llama, poll, running, serve

FILLED = {"NAME": "fast", "SERVE": "fast", "PROMPT": "hello", "SOURCE": "fast", "FILE": "stoker.toml", "DIR": "second",
          "TEXT": "because"}  # fmt: skip
"""What a person puts where a proposal leaves a place open."""
TABLES = """
[[tier]]
name = "small"
serve = "fast"

[[tier]]
name = "large"
serve = "slow"

[alias.main]
serve = "fast"
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Stoker runs; `fast` is loaded, `slow` is not."""
    with running(serve("fast", preload=True), serve("slow", slot=None), TABLES) as plane:
        poll(lambda: plane.serve("fast")["state"] == "ready", "fast is ready")
        yield plane


@pytest.fixture
def stopped() -> Iterator[Plane]:
    """It does not run; the folder has its configuration."""
    with running(serve("fast"), started=False) as plane:
        yield plane


def typed(plane: Plane, line: str) -> tuple[int, str]:
    """The exit code and what it said. In the folder of the configuration; `up` is ended once it listens."""
    words = [FILLED.get(word, word) for word in shlex.split(line)[1:]]
    command = preloaded.Command(tuple(words), plane.directory, plane.environment)
    if words[0] == "up" or words == ["docs"]:
        poll(lambda: re.search("listening on|Ctrl-C", command.printed()) or command.poll() is not None, "it serves")
        if command.poll() is None:
            command.send_signal(signal.SIGINT)
    out, err = command.communicate(60)
    code = command.wait()
    return 0 if code == 128 + signal.SIGINT else code, out + err


def proposals(said: str) -> list[str]:
    """But for the demo, whose port may be in use on this machine, and for what changes the shell of whoever tests."""
    left_out = ("stoker up --demo", "stoker --install-completion")
    found = (one.text for one in in_text(said) if one.is_whole)
    return [one for one in dict.fromkeys(found) if not one.startswith(left_out)]


def works(plane: Plane, line: str, expected: str) -> None:
    """The line proposes `expected`, and each of its proposals works when it is typed."""
    _, said = typed(plane, line)
    found = proposals(said)
    assert any(one.startswith(expected) for one in found), said
    for one in found:
        code, answer = typed(plane, one)
        assert code == 0, f"{line} proposed {one}, which said: {answer}"


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("stoker serves status", "stoker up --config"),
        ("stoker slot list", "stoker up --config"),
        ("stoker keys list", "stoker up --config"),
        ("stoker reload", "stoker up --config"),
        ("stoker explain req_1", "stoker decisions"),
        ("stoker doctor", "stoker up"),
        ("stoker config check", "stoker up"),
    ],
)
def test_where_none_runs(stopped: Plane, line: str, proposed: str) -> None:
    works(stopped, line, proposed)


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("stoker config check", "stoker reload"),
        ("stoker serves drain fast", "stoker serves undrain fast"),
        ("stoker serves drain", "stoker serves undrain"),
        ("stoker eval preflight slow", "stoker serves up slow"),
        ("stoker results show nothing", "stoker results list"),
        ("stoker explain req_nothing", "stoker decisions"),
        ("stoker profile show", "stoker eval bootstrap"),
        ("stoker docs xyzzy", "stoker docs"),
        ("stoker orchestrator show nothing", "stoker orchestrator list"),
        ("stoker run hello", "stoker client curl"),
        ("stoker ps", "stoker serves status"),
        ("stoker models", "stoker serves status"),
        ("stoker logs", "stoker serves logs NAME"),
        ("stoker load", "stoker serves up NAME"),
        ("stoker swap", "stoker slot switch NAME"),
        ("stoker check", "stoker config check"),
        ("stoker ask", "stoker client curl"),
        ("stoker serves load", "stoker serves up NAME"),
        ("stoker eval canary fast", "stoker eval canary fast"),
        ("stoker results list --serve nothing", "stoker results list"),
        ("stoker cluster status", "stoker cluster up-example"),
        ("stoker fit fast", "stoker serves status"),
        ("stoker promote main slow", "stoker promote main slow --force"),
        ("stoker serves log", "stoker serves logs NAME"),
        ("stoker serves show", "stoker serves status"),
        ("stoker config effective", "stoker config show"),
        ("stoker config validate", "stoker config check"),
        ("stoker keys usage", "stoker usage --key NAME"),
    ],
)
def test_where_one_runs(plane: Plane, line: str, proposed: str) -> None:
    works(plane, line, proposed)


@pytest.mark.parametrize("line", ["stoker up", "stoker up --state state"])
def test_where_one_runs_on_the_same_state_each_way_out_works(line: str) -> None:
    with running(serve("fast")) as plane:
        _, said = typed(plane, line)
        (beside,) = (one for one in proposals(said) if "--port" in one)
        assert typed(plane, beside)[0] == 0, said
        assert plane.status()["serves"], "the first one goes on"
        (replacing,) = (one for one in proposals(said) if "--replace" in one)
        code, said = typed(plane, replacing)
        assert (code, plane.exit_code()) == (0, 0), said


def test_a_serve_that_cannot_load_is_tried_again_as_proposed(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    with running(llama("cut", model=str(model.with_suffix("")))) as plane:
        assert typed(plane, "stoker serves up cut")[0] == 1
        for line in ("stoker serves status", "stoker watchdog --once"):
            assert "stoker serves up cut" in proposals(typed(plane, line)[1])
        model.write_bytes((MODELS / "spark.gguf").read_bytes())
        works(plane, "stoker serves status", "stoker serves up cut")


def test_keys_and_what_undoes_a_change() -> None:
    with running(serve("fast"), front_door='auth = "keys"') as plane:
        works(plane, "stoker keys list", "stoker keys create NAME")
        works(plane, "stoker keys set fast --context 32", "stoker keys reset fast")
        works(plane, "stoker keys disable fast", "stoker keys enable fast")
        works(plane, "stoker keys limit fast", "stoker keys set NAME --requests-per-minute 60")
        works(plane, "stoker keys rm fast", "stoker keys delete NAME")


def test_the_web_pages_proposals_are_taken_by_a_stoker_that_runs(plane: Plane) -> None:
    assert typed(plane, "stoker serves undrain")[0] == 0
