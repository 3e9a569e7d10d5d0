"""Names, errors, logs and events of somebody else are shown, and command no terminal."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.fake_stoker import FakeStoker, error, serve_status

from stoker.cli.console import terminal
from stoker.cli.main import run
from stoker.domain.decision import Attempt, Candidate, Decision, Routed

EVIL = "a\x1b[31m\x1b]0;t\x07\x9b2J\u202e\u2066\x7f[red]x[/red]\rforged\nFORGED  2026 served"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
HOSTILE = Decision(
    id="r" + EVIL, at=1.0, endpoint="/" + EVIL, model=EVIL, key=EVIL, serve=EVIL, candidates=[Candidate(EVIL, EVIL)],
    outcome=EVIL, reason=EVIL, translation=EVIL, attempts=1,
    routed=Routed(EVIL, EVIL, [EVIL], EVIL, EVIL, EVIL, [EVIL], [Attempt(EVIL, EVIL, findings=[EVIL])]),
)  # fmt: skip
COMMANDS = [
    ["decisions"], ["decisions", "--json"], ["decisions", "--routes"], ["decisions", "--routes", "--json"],
    ["explain", "r"], ["explain", "r", "--json"], ["serves", "status"], ["serves", "status", "--json"],
    ["slot", "status"],
    ["top", "--once"], ["top", "--json"], ["watchdog", "--once"], ["serves", "up", "fast"], ["explain", "none"],
    ["promote", "coder", "fast", "--force", "--reason", "x"],
]  # fmt: skip


@pytest.fixture
def hostile(stoker: FakeStoker) -> FakeStoker:
    document = msgspec.to_builtins(HOSTILE)
    for limit in (20, 10_000):
        stoker.answer(f"GET /admin/decisions?limit={limit}", {"decisions": [document]})
    stoker.answer("GET /admin/decisions/r", {"decision": document})
    stoker.answer("GET /admin/decisions/none", error(EVIL, "odd"), 409)
    for verb in ("switch", "promote"):
        stoker.answer(f"POST /admin/{verb}", error(EVIL, EVIL), 409)
    sick: dict[str, Any] = {"health": EVIL, "verified_at": 1.0, "findings": [EVIL], "restarts": 0}
    serve = serve_status("fast", "ready", last_error=EVIL, model=EVIL, engine=EVIL, parked=EVIL, expected=EVIL,
                         temperature=EVIL, facts={EVIL: EVIL}, watchdog=sick)  # fmt: skip
    stoker.status(serve, version=EVIL, events=[{"at": 1.0, "kind": EVIL, "serve": EVIL, "text": EVIL}])
    return stoker


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_passes_on_what_a_terminal_would_obey(
    hostile: FakeStoker, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    run(command)
    out, err = capsys.readouterr()
    assert out + err
    assert not OBEYED.search(out + err), repr(OBEYED.findall(out + err))


@pytest.mark.parametrize("command", [["decisions"], ["explain", "r"], ["top", "--once"]], ids=" ".join)
def test_a_name_cannot_write_a_line_of_its_own(
    hostile: FakeStoker, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    run(command)
    assert not [line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith("FORGED")]


def test_json_says_the_same_as_ever(hostile: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == msgspec.to_builtins(HOSTILE)


def test_markup_is_shown_as_it_is(hostile: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    run(["explain", "r"])
    assert "[red]x[/red]" in capsys.readouterr().out


def test_a_log_is_shown_without_its_colours_and_its_commands(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config.parent / "state" / "logs" / "fast.log"
    path.parent.mkdir()
    path.write_text("\x1b[1;32mINFO\x1b[0m ready\n 10%\r 20%\n\x1b[2Jgone\x1b]0;t\x07\n")
    assert run(["serves", "logs", "fast"]) == 0
    assert capsys.readouterr().out == "INFO ready\n 10%\n 20%\n\\u001b[2Jgone\\u001b]0;t\\u0007\n"


def test_what_is_drawn_is_escaped_and_what_rich_says_itself_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The colours of a console are its own; those in a text are the text's."""
    monkeypatch.setattr(terminal, "is_live", lambda stderr=False: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = terminal.console()
    out.file = io.StringIO()
    out.print(terminal.styled("served"), "a\x1b[2Jb [red]x[/red] :bomb:")
    drawn = out.file.getvalue()
    assert "\x1b[32mserved\x1b[0m" in drawn
    assert "a\\u001b[2Jb [red]x[/red] :bomb:" in drawn
