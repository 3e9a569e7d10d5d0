"""What flows, and when, in the four modes."""

from __future__ import annotations

import pytest
from tests.content.verify.expected import READ, answer, expected

from stoker.domain.answer import (
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.errors import UpstreamError
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall
from stoker.domain.tier import Verify
from stoker_content.verify import verifier as module
from stoker_content.verify.finding import CHECKS, AnswerState, noted, proved
from stoker_content.verify.verifier import MAX_ARGUMENTS, Verifier, check_whole_answer, events_of

BEGAN = Began("i", "m")
TEXT = [Opened(0, BlockKind.TEXT), Grew(0, "Let me "), Grew(0, "look."), Closed(0)]
COUNTED = Counted(Tokens(1))
END = [Finished(StopReason.CALLS), COUNTED, Ended()]
HOLDING = (Verify.HOLD_TOOLS, Verify.HOLD_ALL)


def call(at: int = 1, arguments: str = '{"path":"a"}', name: str = "read") -> list[Event]:
    return [Opened(at, BlockKind.CALL, f"c{at}", name), Grew(at, arguments[:5]), Grew(at, arguments[5:]), Closed(at)]


def joined(at: int = 1, arguments: str = '{"path":"a"}') -> list[Event]:
    opened, *_, closed = call(at)
    return [opened, Grew(at, arguments), closed]


def verifier(mode: Verify) -> Verifier:
    return Verifier(expected(tools=[READ]), mode)


def test_off_looks_at_nothing() -> None:
    one = verifier(Verify.OFF)
    events = [BEGAN, *call(name="x"), Finished(StopReason.END)]
    assert [one.feed(event) for event in events] == [[event] for event in events]
    assert (one.findings, one.state(), one.is_failed) == ([], AnswerState.PASSED, False)


def test_observe_lets_everything_flow_and_tells() -> None:
    one = verifier(Verify.OBSERVE)
    events = [BEGAN, *call(name="x"), Finished(StopReason.CALLS)]
    assert [one.feed(event) for event in events] == [[event] for event in events]
    assert (one.findings, one.state(), one.is_failed) == ([proved("unknown_tool")], AnswerState.FAILED, False)


def test_text_flows_while_a_call_waits_until_it_is_proved_valid() -> None:
    one = verifier(Verify.HOLD_TOOLS)
    assert [one.feed(event) for event in (BEGAN, *TEXT)] == [[event] for event in (BEGAN, *TEXT)]
    assert [one.feed(event) for event in call()[:-1]] == [[], [], []]
    assert one.feed(call()[-1]) == joined()
    assert one.state() is AnswerState.OPEN
    assert [one.feed(event) for event in END] == [[event] for event in END]
    assert (one.state(), one.findings) == (AnswerState.PASSED, [])


def test_text_that_comes_while_a_call_is_open_flows() -> None:
    one = verifier(Verify.HOLD_TOOLS)
    opened, *rest = call()
    assert [one.feed(event) for event in (opened, *TEXT)] == [[], *([event] for event in TEXT)]
    assert [each for event in rest for each in one.feed(event)] == joined()


def test_of_an_invalid_call_nothing_is_sent_and_nothing_follows() -> None:
    one = verifier(Verify.HOLD_TOOLS)
    events = [BEGAN, *TEXT, *call(arguments='{"path":7}'), *call(2), *END]
    assert [each for event in events for each in one.feed(event)] == [BEGAN, *TEXT]
    assert (one.is_failed, one.state()) == (True, AnswerState.FAILED)


def test_a_tool_that_was_not_offered_is_known_before_its_arguments_come() -> None:
    one = verifier(Verify.HOLD_TOOLS)
    assert one.feed(call(name="x")[0]) == []
    assert one.is_failed


def test_the_first_valid_call_is_sent_even_if_the_second_one_is_not() -> None:
    one = verifier(Verify.HOLD_TOOLS)
    assert [each for event in (*call(), *call(2, "[]"), *END) for each in one.feed(event)] == joined()


def test_hold_all_lets_go_at_the_end_and_all_at_once() -> None:
    one = verifier(Verify.HOLD_ALL)
    assert [one.feed(event) for event in (BEGAN, *TEXT, *call())] == [[]] * 9
    text = [TEXT[0], Grew(0, "Let me look."), TEXT[-1]]
    assert one.feed(END[0]) == [BEGAN, *text, *joined(), END[0]]
    assert [one.feed(event) for event in END[1:]] == [[COUNTED], [END[2]]]


def test_hold_all_sends_nothing_of_what_failed() -> None:
    one = verifier(Verify.HOLD_ALL)
    events = [BEGAN, Opened(0, BlockKind.TEXT), Grew(0, "caf\ufffd\n"), Closed(0), *END]
    assert [each for event in events for each in one.feed(event)] == []
    assert one.is_failed


@pytest.mark.parametrize("mode", HOLDING)
def test_a_failure_of_the_upstream_is_told_in_any_case(mode: Verify) -> None:
    failed = Failed(UpstreamError("gone", code="gone"))
    one = verifier(mode)
    assert one.feed(failed) == [failed]
    one.feed(call(name="x")[0])
    assert one.is_failed
    assert one.feed(failed) == [failed]


@pytest.mark.parametrize("mode", HOLDING)
def test_an_answer_that_just_stops_is_unfinished(mode: Verify) -> None:
    one = verifier(mode)
    assert [one.feed(event) for event in (*TEXT, Ended())][-1] == []
    assert one.findings == [proved("unfinished")]


def test_a_call_that_never_closes_is_checked_at_the_end() -> None:
    one = verifier(Verify.HOLD_TOOLS)
    assert [each for event in (*call()[:-1], END[0]) for each in one.feed(event)] == [*joined()[:2], END[0]]
    other = verifier(Verify.HOLD_TOOLS)
    assert [each for event in (*call(arguments="[7,7,7]")[:-1], END[0]) for each in other.feed(event)] == []


def test_an_answer_is_finished_once() -> None:
    one = verifier(Verify.OBSERVE)
    for event in (END[0], END[0], Ended()):
        one.feed(event)
    assert one.findings == [proved("empty")]


def test_signatures_and_what_was_never_opened_pass() -> None:
    one = verifier(Verify.HOLD_TOOLS)
    events: list[Event] = [Opened(0, BlockKind.THINKING), Signed(0, "s"), Closed(0), Grew(9, "x"), Closed(9)]
    assert [one.feed(event) for event in events] == [[event] for event in events]
    held: list[Event] = [call()[0], Signed(1, "s"), Grew(1, '{"path":"a"}'), Closed(1)]
    assert [each for event in held for each in one.feed(event)] == held


@pytest.mark.parametrize("mode", [Verify.OBSERVE, *HOLDING])
def test_arguments_that_are_too_long_are_refused_and_forgotten(mode: Verify) -> None:
    one = verifier(mode)
    for event in (call()[0], *[Grew(1, "y" * 100_000)] * (MAX_ARGUMENTS // 100_000 + 2), Closed(1)):
        one.feed(event)
    assert one.findings == [proved("too_large")]
    assert one.is_failed is (mode is not Verify.OBSERVE)


def test_hold_all_holds_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 10)
    one = verifier(Verify.HOLD_ALL)
    assert [one.feed(event) for event in (*TEXT, *END)] == [[]] * 7
    assert (one.findings[0], one.is_failed) == (proved("too_large"), True)


def test_a_whole_answer_is_the_same_as_its_events() -> None:
    said = answer(
        Thinking("t"),
        Redacted("r"),
        Refusal("n"),
        Text(""),
        "a",
        ToolCall("c", "read", "{}", True),
        stop=StopReason.CALLS,
    )
    assert events_of(said) == [
        *(Opened(0, BlockKind.THINKING), Grew(0, "t"), Closed(0)),
        *(Opened(1, BlockKind.REDACTED), Grew(1, "r"), Closed(1)),
        *(Opened(2, BlockKind.REFUSAL), Grew(2, "n"), Closed(2)),
        *(Opened(3, BlockKind.TEXT), Closed(3)),
        *(Opened(4, BlockKind.TEXT), Grew(4, "a"), Closed(4)),
        *(Opened(5, BlockKind.CALL, "c", "read", True), Grew(5, "{}"), Closed(5)),
        Finished(StopReason.CALLS),
    ]
    assert check_whole_answer(expected(), said) == [proved("unknown_tool")]


def test_findings_are_told_once_and_in_words() -> None:
    one = verifier(Verify.OBSERVE)
    for event in (Opened(0, BlockKind.TEXT), Grew(0, "a\ufffd\nb\ufffd\n"), Closed(0), Finished(StopReason.END)):
        one.feed(event)
    assert one.findings == [proved("replacement")]
    assert all(noted(check).text for check in CHECKS)
