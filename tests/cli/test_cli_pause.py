"""`stoker pause` waits until the devices are free, and every view of slots says what is paused, and why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.fake_stoker import Answer, FakeStoker, paused, serve_status

from stoker.cli.commands.watchdog import problem_of
from stoker.cli.console.answers import ServeStatus
from stoker.cli.main import run

Captured = pytest.CaptureFixture[str]
REASON = "comfyui (process 12) needs its devices"


def test_pause_waits_for_what_runs_there_and_says_how_to_end_it(
    stoker: FakeStoker, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = serve_status("far", "ready", driver="external", slot=None)
    stoker.status(serve_status("fast", "draining"), far)
    looks: list[float] = []

    def later(seconds: float) -> None:
        looks.append(seconds)
        stoker.status(serve_status("fast", "paused", paused="rendering"), far)

    monkeypatch.setattr("stoker.cli.commands.pause.time.sleep", later)
    stoker.routes["POST /admin/pause"] = lambda body: (200, {"slot": None, "paused": ["gpu0", "~far", "~small"]})
    assert run(["pause", "--reason", "rendering"]) == 0
    captured = capsys.readouterr()
    assert "waiting for fast to end" in captured.err
    assert captured.out == "paused: gpu0, far (without a slot), small (without a slot); `stoker resume` ends that\n"
    assert len(looks) == 1
    assert stoker.posts() == [("POST /admin/pause", {"slot": None, "reason": "rendering"})]


def test_without_waiting_it_says_what_still_runs(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "draining"))
    stoker.routes["POST /admin/pause"] = lambda body: (200, {"slot": "gpu0", "paused": ["gpu0"]})
    assert run(["pause", "gpu0", "--no-wait", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"paused": ["gpu0"], "running": ["fast"]}


def test_a_slot_that_is_not_there_is_refused_in_stokers_words(stoker: FakeStoker, capsys: Captured) -> None:
    def refused(body: Any) -> Answer:
        return 404, {"error": {"message": "there is no slot 'gpu7'; the slots are gpu0", "code": "no_slot"}}

    stoker.routes["POST /admin/pause"] = refused
    assert run(["pause", "gpu7"]) == 1
    assert "the slots are gpu0" in capsys.readouterr().err


def test_resume_says_what_stays_paused_for_a_program(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "paused"), **paused(REASON, "program"))
    stoker.routes["POST /admin/resume"] = lambda body: (200, {"slot": "gpu0", "resumed": ["gpu0"]})
    assert run(["resume", "gpu0"]) == 0
    assert capsys.readouterr().out == f"resumed: gpu0\nslot gpu0 stays paused: {REASON}\n"


@pytest.mark.parametrize("command", [["slot", "list"], ["slot", "status"], ["serves", "status"], ["top", "--once"]])
def test_every_view_says_why_a_slot_is_paused(stoker: FakeStoker, capsys: Captured, command: list[str]) -> None:
    stoker.status(serve_status("fast", "paused", paused=REASON), **paused(REASON, "program"))
    assert run(command) == 0
    out = capsys.readouterr().out
    assert REASON in out
    assert "stoker resume" not in out, "only an operator's pause is ended by it"


def test_an_operators_pause_is_shown_with_the_command_that_ends_it(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "paused"), **paused("rendering", "operator"))
    assert run(["slot", "list"]) == 0
    out = capsys.readouterr().out
    assert "`stoker resume gpu0` ends that" in out
    assert run(["slot", "status", "--state", str(stoker.path.parent)]) == 0
    assert f"`stoker resume gpu0 --state {stoker.path.parent}` ends that" in capsys.readouterr().out
    assert "comfyui, more than 2.0 GiB" in out


def test_a_model_that_is_away_for_a_pause_is_no_problem_of_the_watchdog() -> None:
    assert not problem_of(ServeStatus("fast", "paused", keep_loaded=True, paused=REASON))
    assert problem_of(ServeStatus("fast", "stopped", keep_loaded=True))
