"""`decisions --follow`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.fake_stoker import FakeStoker

from stoker.cli.commands import decisions_follow
from stoker.cli.console.control import ServerEvent
from stoker.cli.console.errors import NotRunning
from stoker.cli.main import run
from stoker.domain.decision import Attempt, Decision, Routed


def made(number: int, *attempts: Attempt, task: str = "chat", **more: Any) -> Decision:
    answered = [one.tier for one in attempts if one.outcome == "served"]
    routed = Routed(task, "rules", tier=answered[0] if answered else "", attempts=list(attempts))
    return Decision(
        f"req-{number}", float(number), "/v1/chat/completions", "auto", serve="fast", status=200, outcome="served",
        routed=routed if attempts or "reason" in more else None,
        input_tokens=attempts[-1].input_tokens if attempts else None,
        output_tokens=attempts[-1].output_tokens if attempts else None, **more,
    )  # fmt: skip


class FakeControl:
    """A Stoker whose log grows by `steps`; an error in their place is its answer then. Each new stream of events begins
    with a snapshot of the newest `SHOWN`, unless it can go on after `last_id`; each pause is one step.
    """

    SHOWN = 50

    def __init__(self, *steps: list[Decision] | Exception) -> None:
        self.steps = list(steps)
        self.log: list[Decision] = []
        self.now: Exception | None = None
        self.asked: list[int] = []
        self.pause(0.0)

    def pause(self, seconds: float) -> None:
        if not self.steps:
            raise KeyboardInterrupt
        step = self.steps.pop(0)
        self.now = step if isinstance(step, Exception) else None
        self.log += step if isinstance(step, list) else []

    def decisions(self, limit: int) -> list[Decision]:
        self.asked.append(limit)
        if self.now is not None:
            raise self.now
        return self.log[::-1][:limit]

    def events(self, topics: str, after: str = "") -> Iterator[ServerEvent]:
        assert topics == "decisions"
        if self.now is not None:
            raise self.now
        new = self.log[int(after) :] if after else []
        if after and len(new) <= self.SHOWN:
            for number, decision in enumerate(new, int(after) + 1):
                yield ServerEvent("decision", msgspec.to_builtins(decision), str(number))
        else:
            shown = msgspec.to_builtins(self.log[::-1][: self.SHOWN])
            yield ServerEvent("snapshot", {"topic": "decisions", "decisions": shown}, str(len(self.log)))


def followed(control: FakeControl, limit: int = 20) -> tuple[list[str], list[str]]:
    """Ids as they were given out, and what was waited for."""
    waited: list[str] = []
    told: list[str] = []
    seen: Iterator[Decision] = decisions_follow.follow(control, limit, waited.append, control.pause)  # type: ignore[arg-type]
    with suppress(KeyboardInterrupt):
        for decision in seen:
            told.append(decision.id)
    return told, waited


def test_the_newest_come_first_in_their_order_and_then_each_one_once() -> None:
    one, two, three, four = (made(n) for n in range(1, 5))
    assert followed(FakeControl([one, two], [], [three], [], [four]), limit=1)[0] == ["req-2", "req-3", "req-4"]


def test_where_nothing_was_recorded_the_first_one_is_told() -> None:
    assert followed(FakeControl([], [made(1)], [made(2)]))[0] == ["req-1", "req-2"]


def test_an_id_that_was_used_before_is_told_again() -> None:
    again = made(1)
    again.at = 9.0
    assert followed(FakeControl([made(1)], [again]))[0] == ["req-1", "req-1"]


def test_more_than_a_snapshot_holds_are_asked_for() -> None:
    many = [made(n) for n in range(2, FakeControl.SHOWN + 50)]
    control = FakeControl([made(1)], [], many)
    assert followed(control)[0] == [f"req-{n}" for n in range(1, FakeControl.SHOWN + 50)]
    assert control.asked == [20, decisions_follow.WIDEST]


def test_a_stoker_that_is_restarted_is_waited_for_and_said_once() -> None:
    gone = NotRunning("nothing listens")
    control = FakeControl([made(1)], gone, gone, [made(2)], gone, [made(3)])
    assert followed(control) == (["req-1", "req-2", "req-3"], ["nothing listens", "nothing listens"])


def test_a_stoker_that_does_not_run_at_all_is_an_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decisions", "--follow"]) == 1
    assert "start it: stoker up" in capsys.readouterr().err


def test_ctrl_c_ends_it_with_0_and_json_is_one_document_a_line(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(decisions_follow, "follow", partial(decisions_follow.follow, pause=stop))
    records = [msgspec.to_builtins(made(n, Attempt("cheap", "served"))) for n in (2, 1)]
    stoker.answer("GET /admin/decisions?limit=2", {"decisions": records})
    snapshot = json.dumps({"topic": "decisions", "decisions": records})
    stoker.answer("GET /events?topics=decisions", f"event: snapshot\ndata: {snapshot}\nid: 7\n\n".encode())
    assert run(["decisions", "-f", "-n", "2", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == records[::-1]
    assert run(["decisions", "-f", "-n", "2"]) == 0
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["req-1", "req-2"]


def test_a_line_tells_the_class_and_each_tier_that_was_tried() -> None:
    told = decisions_follow.line(
        made(1, Attempt("cheap", "failed_verification"), Attempt("dear", "served"), latency=0.25)
    )
    assert "auto > fast" in told
    assert "250 ms" in told
    assert told.endswith("chat: cheap (failed_verification), dear")
    refused = made(2, task="planning", reason="no_tier")
    assert decisions_follow.line(refused).endswith("planning: no tier")
    assert "(no_tier)" in decisions_follow.line(refused)
    assert decisions_follow.line(made(3)).endswith("- in, - out"), "who names a model has no route"


def test_only_one_kind_of_listing_at_a_time(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    for other in ("--routes", "--trace"):
        assert run(["decisions", "--follow", other]) == 2
        assert "exclude each other" in capsys.readouterr().err
    assert stoker.asked == []
