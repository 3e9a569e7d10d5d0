"""The runner: a class ends when it is decided, what is no sample is kept apart, and an earlier run is gone on with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
from tests.lab.suites.answering import text

from stoker.domain.answer import Answer, Tokens
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.tier import ProfileRow, Verdict
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.requests.timing import RequestTiming
from stoker_lab.statistics import stats
from stoker_lab.suites import check_kinds, grading
from stoker_lab.suites.checkers.code import CheckBroken
from stoker_lab.suites.checkers.plain_text import Grade
from stoker_lab.suites.fixture import Fixture, digest, spread
from stoker_lab.suites.grading import (
    TOO_LONG,
    GradedFixture,
    GradeOutcome,
    GradingProgress,
    fixture_asker,
    grade_fixtures,
    profile_rows,
    ungraded_fixtures,
)
from stoker_lab.suites.time_left import TimeLeft
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

PRINT = Fingerprint("identity", "execution")


def fixtures(count: int = 60, name: str = "chat") -> list[Fixture]:
    request = {"messages": [{"role": "user", "content": "hi"}]}
    return [Fixture(f"{name}-{at}", name, request, check_kinds.CopyCheck("yes")) for at in range(count)]


def heard(said: str, seconds: float = 1.0, failure: str = "") -> ModelReply:
    timed = RequestTiming(0.0, 10.0, 10.0 + seconds, failure=failure, tokens=Tokens(output=3))
    return ModelReply(timed, text(said), None, [])


class Model:
    """Answers by number; notes what it was asked."""

    def __init__(self, answer: Callable[[int], ModelReply]) -> None:
        self.asked: list[str] = []
        self._answer = answer

    async def __call__(self, fixture: Fixture) -> ModelReply:
        self.asked.append(fixture.id)
        return self._answer(int(fixture.id.rpartition("-")[2]))


def graded(model: Model, own: Sequence[Fixture], **more: object) -> list[GradedFixture]:
    return asyncio.run(grade_fixtures(own, model, **more))  # type: ignore[arg-type]


def profile(found: Sequence[GradedFixture], own: Sequence[Fixture]) -> list[ProfileRow]:
    return profile_rows(found, own, "fast", PRINT, at=5.0)


def test_a_class_ends_as_soon_as_it_is_decided() -> None:
    good = Model(lambda at: heard("yes"))
    found = graded(good, fixtures())
    assert len(good.asked) == len(found) == 27
    bad = Model(lambda at: heard("no"))
    assert len(graded(bad, fixtures())) == len(bad.asked) == 3


def test_a_result_of_the_test_is_a_verdict_of_the_profile() -> None:
    own = fixtures()
    for answer, verdict, n in (
        (lambda at: heard("yes"), Verdict.ALLOW, 27),
        (lambda at: heard("no"), Verdict.DENY, 3),
        (lambda at: heard("no" if at % 10 == 5 else "yes"), Verdict.VERIFY, 60),
    ):
        (row,) = profile(graded(Model(answer), own), own)
        assert (row.verdict, row.n) == (verdict, n)
        assert (row.tier, row.task_class, row.identity, row.execution) == ("fast", "chat", "identity", "execution")
        assert (row.source, row.dataset, row.at) == ("bootstrap", digest(own), 5.0)


def test_latency_is_the_median_to_the_end_of_an_answer() -> None:
    own = fixtures(3)
    found = graded(Model(lambda at: heard("yes", (5.0, 1.0, 2.0)[at])), own)
    assert [one.seconds for one in found] == [5.0, 1.0, 2.0]
    assert profile(found, own)[0].latency == 2.0
    assert found[0].tokens == 3


def test_classes_come_in_the_order_in_which_they_are_listed_and_have_rows_of_their_own() -> None:
    own = [*fixtures(2, "review"), *fixtures(2, "chat")]
    model = Model(lambda at: heard("yes"))
    found = graded(model, own)
    assert model.asked == ["chat-0", "chat-1", "review-0", "review-1"]
    first, second = profile(found, own)
    assert (first.task_class, second.task_class) == ("chat", "review")
    assert first.dataset != second.dataset


def test_no_answer_is_no_sample() -> None:
    own = fixtures(5)
    found = graded(Model(lambda at: heard("", failure="timeout") if at == 1 else heard("yes")), own)
    assert [(one.outcome, one.reason) for one in found[:2]] == [
        (GradeOutcome.PASSED, ""),
        (GradeOutcome.UNANSWERED, "timeout"),
    ]
    assert (profile(found, own)[0].n, profile(found, own)[0].passed) == (4, 4)


def test_several_in_a_row_that_are_no_sample_end_the_class_and_not_the_next_one() -> None:
    own = [*fixtures(9, "chat"), *fixtures(4, "review")]
    model = Model(lambda at: heard("", failure="http_500"))
    graded(model, own)
    assert model.asked == ["chat-0", "chat-1", "chat-2", "review-0", "review-1", "review-2"]
    assert profile(graded(model, own), own) == []
    odd = Model(lambda at: heard("yes") if at % 3 == 2 else heard("", failure="http_500"))
    assert len(graded(odd, fixtures(9))) == 9


@pytest.mark.parametrize("error", [CheckBroken("the sandbox did not start"), KeyError("type")])
def test_a_check_that_crashes_is_no_sample_and_no_word_about_the_model(error: Exception) -> None:
    def crash(check: check_kinds.FixtureCheck, answer: Answer) -> Grade:
        raise error

    own = fixtures(2)
    found = graded(Model(lambda at: heard("yes")), own, check=crash)
    assert [one.outcome for one in found] == [GradeOutcome.CHECKER, GradeOutcome.CHECKER]
    assert str(error.args[0]) in found[0].reason
    assert profile(found, own) == []


def test_a_check_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading, "PATIENCE", 0.05)
    over = threading.Event()

    def hang(check: check_kinds.FixtureCheck, answer: Answer) -> Grade:
        over.wait(30)
        return Grade(True)

    try:
        (found,) = graded(Model(lambda at: heard("yes")), fixtures(1), check=hang)
    finally:
        over.set()
    assert (found.outcome, found.reason) == (GradeOutcome.CHECKER, "the check took longer than 0.05 s")


def test_an_earlier_run_is_gone_on_with() -> None:
    own = fixtures()
    whole = graded(Model(lambda at: heard("yes")), own)
    model, seen = Model(lambda at: heard("yes")), []
    again = graded(model, own, done=whole[:20], on_progress=seen.append)
    assert again == whole
    assert model.asked == [f"chat-{at}" for at in range(20, 27)]
    assert [progress.is_new for progress in seen] == [False] * 20 + [True] * 7


def test_what_was_no_sample_and_what_changed_since_is_asked_anew() -> None:
    own = fixtures(3)
    earlier = graded(Model(lambda at: heard("", failure="timeout") if at == 0 else heard("yes")), own)
    changed = [own[0], own[1], Fixture(own[2].id, "chat", own[2].request, check_kinds.CopyCheck("no"))]
    model = Model(lambda at: heard("yes"))
    assert [one.outcome for one in graded(model, changed, done=earlier)] == ["passed", "passed", "failed"]
    assert model.asked == ["chat-0", "chat-2"]


def test_progress_tells_where_the_class_stands() -> None:
    seen: list[GradingProgress] = []
    graded(Model(lambda at: heard("no" if at == 0 else "yes")), fixtures(), on_progress=seen.append)
    assert (seen[0].n, seen[0].passed, seen[0].of, seen[0].result) == (1, 0, 60, stats.SprtResult.UNDECIDED)
    assert (seen[0].graded.outcome, seen[0].graded.reason) == (GradeOutcome.FAILED, "not an exact copy: 'no'")
    assert (seen[-1].n, seen[-1].passed, seen[-1].result) == (38, 37, stats.SprtResult.ALLOW)


def test_a_served_model_is_asked_with_the_settings_and_the_fixtures_own_come_first() -> None:
    async def run() -> list[GradedFixture]:
        async with ScriptedServer(Script(answers=[{"blocks": [{"type": "text", "text": "yes"}]}])) as server:
            client = ModelClient(Target("127.0.0.1", server.port, "", "m"))
            try:
                return await grade_fixtures(fixtures(3), fixture_asker(client, {"temperature": 0}))
            finally:
                client.close()

    found = asyncio.run(run())
    assert [one.outcome for one in found] == [GradeOutcome.PASSED] * 3
    assert all(one.seconds is not None and one.seconds > 0 for one in found)


def test_settings_give_way_to_the_fixture() -> None:
    sent: list[dict[str, object]] = []

    class Listening:
        async def ask(self, document: dict[str, object], timeout: float) -> ModelReply:
            sent.append(document)
            return heard("yes")

    own = Fixture("a", "chat", {"messages": [], "temperature": 1}, check_kinds.CopyCheck("yes"))
    asyncio.run(fixture_asker(Listening(), {"temperature": 0, "top_p": 0.5})(own))  # type: ignore[arg-type]
    assert sent == [{"temperature": 1, "top_p": 0.5, "stream": False, "messages": []}]


# -- what gave no sample ----------------------------------------------------------------------------------------------


def refused(status: int, body: object) -> ModelReply:
    return ModelReply(RequestTiming(0.0, 10.0, 11.0, status=status, failure=f"http_{status}"), Answer("", ""), body, [])


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "m"}}, TOO_LONG),
        (400, {"error": {"code": 400, "type": "exceed_context_size_error", "message": "m"}}, TOO_LONG),
        (400, {"error": {"code": 400, "message": "This model's maximum context length is 2048 tokens."}}, TOO_LONG),
        (400, {"error": {"code": "bad_request", "message": "m"}}, "http_400 bad_request"),
        (400, {"error": {"code": 400, "message": "my secret question"}}, "http_400"),
        (503, {"error": {"code": "queue_full"}}, "http_503 queue_full"),
        (503, {"error": {"code": "x", "message": "maximum context length"}}, "http_503 x"),
        (502, "<html>", "http_502"),
        (502, {"error": "no"}, "http_502"),
    ],
)
def test_a_refusal_is_told_by_the_servers_code_and_too_long_in_one_word(status: int, body: object, told: str) -> None:
    (one,) = graded(Model(lambda at: refused(status, body)), fixtures(1))
    assert (one.outcome, one.reason) == (GradeOutcome.UNANSWERED, told)


def test_a_gap_says_of_each_class_how_many_gave_no_sample_and_why_most_of_them() -> None:
    long = refused(400, {"error": {"code": "context_length_exceeded"}})
    own = [*fixtures(9, "review"), *fixtures(9, "chat"), *fixtures(9, "planning")]

    def answer(name: str, at: int) -> ModelReply:
        if name == "review":
            return long
        return heard("", failure="timeout") if name == "chat" and at == 1 else heard("yes")

    async def ask(fixture: Fixture) -> ModelReply:
        return answer(fixture.task_class, int(fixture.id.rpartition("-")[2]))

    found = asyncio.run(grade_fixtures(own, ask))
    assert ungraded_fixtures(found) == [
        ("chat", 8, 1, "timeout", "chat-1"),
        ("review", 0, 3, TOO_LONG, "review-0"),
    ]


# -- how much is left -------------------------------------------------------------------------------------------------


def told(
    left: TimeLeft,
    name: str,
    seconds: float,
    result: stats.SprtResult = stats.SprtResult.UNDECIDED,
    new: bool = True,
) -> None:
    one = GradedFixture("id", "digest", name, GradeOutcome.PASSED)
    left.on_graded(GradingProgress(one, new, 1, 1, 10, result), seconds)


def test_at_most_is_the_median_of_the_class_times_its_rest_and_that_of_all_times_the_others() -> None:
    left = TimeLeft({"chat": 10, "review": 20})
    assert (left.seconds, left.share) == (None, 0.0)
    told(left, "chat", 1.0)
    assert left.seconds == 1.0 * 9 + 1.0 * 20
    told(left, "chat", 2.0)
    told(left, "chat", 600.0)
    assert left.seconds == 2.0 * 7 + 2.0 * 20, "one slow answer says little of the next"
    told(left, "chat", 2.0, stats.SprtResult.ALLOW)
    assert left.seconds == 2.0 * 20, "a class that is decided has no rest"
    assert left.share == pytest.approx(10 / 30)
    told(left, "review", 10.0)
    assert left.seconds == 10.0 * 19, "the others' pace is not this one's"


def test_a_class_that_was_given_up_has_no_rest_once_the_next_one_is_asked() -> None:
    left = TimeLeft({"chat": 60, "review": 20})
    for _ in range(3):
        told(left, "chat", 1.0)
    told(left, "review", 1.0)
    assert left.seconds == 19.0


def test_what_an_earlier_run_asked_is_done_and_says_nothing_of_the_pace() -> None:
    left = TimeLeft({"chat": 10})
    for _ in range(4):
        told(left, "chat", 0.0, new=False)
    assert (left.seconds, left.share) == (None, pytest.approx(0.4))
    told(left, "chat", 3.0)
    assert left.seconds == 15.0


def test_at_the_end_nothing_is_left() -> None:
    left = TimeLeft({"chat": 2})
    told(left, "chat", 1.0)
    told(left, "chat", 1.0)
    assert (left.seconds, left.share) == (0.0, 1.0)


def test_a_class_that_was_sampled_ahead_has_its_own_pace() -> None:
    left = TimeLeft({"chat": 10, "planning": 10})
    left.on_sampled("chat", 1.0)
    left.on_sampled("planning", 30.0)
    assert (left.seconds, left.whole_seconds) == (310.0, 310.0)
    told(left, "chat", 0.0, new=False)
    told(left, "chat", 1.0)
    assert (left.seconds, left.whole_seconds) == (308.0, 310.0)


def test_a_few_of_each_class_are_spread_over_it_and_always_the_same() -> None:
    own = [*fixtures(60, "chat"), *fixtures(3, "review")]
    assert [one.id for one in spread(own, 4)] == [
        "chat-0", "chat-15", "chat-30", "chat-45", "review-0", "review-1", "review-2",
    ]  # fmt: skip
