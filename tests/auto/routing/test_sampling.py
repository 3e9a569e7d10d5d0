"""An answer that is read on its way: kept as the client gets it, up to a bound, and never changed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Finished,
    Grew,
    Opened,
    StopReason,
    Tokens,
)
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt, Refusal, Text, Thinking, ToolCall
from stoker_auto.routing.answer_recorder import AnswerRecorder
from stoker_content.verify.verifier import events_of

PROMPT = Prompt(Dialect.CHAT, "auto", [])


class Holding:
    """A check that lets nothing of calls through, and finds what it is told to."""

    def __init__(self, is_failed: bool = False) -> None:
        self.is_failed = is_failed
        self.judged: list[Answer] = []

    def feed(self, event: Event) -> Iterable[Event]:
        return [] if isinstance(event, Opened) and event.kind is BlockKind.CALL else [event]

    def judge(self, answer: Answer) -> None:
        self.judged.append(answer)

    def failed_checks(self) -> tuple[str, ...]:
        return ("schema",)


def sample(most: int = 100) -> AnswerRecorder:
    return AnswerRecorder(most).wrap(None, PROMPT, continues=False)


def an_answer(*blocks: Text | Thinking | Refusal | ToolCall, stop: StopReason = StopReason.END) -> Answer:
    return Answer("id", "m", list(blocks), stop)


def test_text_refusals_and_calls_are_kept_and_thinking_is_not() -> None:
    answer = an_answer(Thinking("hm"), Text("let me look"), ToolCall("1", "look", '{"at":1}'), Refusal("no"))
    streamed, whole = sample(), sample()
    for event in events_of(answer):
        assert streamed.feed(event) == (event,)
    whole.judge(answer)
    for one in (streamed, whole):
        assert one.problem == ""
        assert one.answer == [("", "let me look"), ("look", '{"at":1}'), ("", "no")]


@given(st.lists(st.text(max_size=20), max_size=10), st.integers(0, 60))
def test_of_a_longer_answer_nothing_is_kept(pieces: list[str], most: int) -> None:
    one, size = sample(most), sum(map(len, pieces))
    one.feed(Opened(0, BlockKind.TEXT))
    for piece in filter(None, pieces):
        one.feed(Grew(0, piece))
    one.feed(Finished(StopReason.END))
    whole = sample(most)
    whole.judge(an_answer(Text("".join(pieces))))
    for kept in (one, whole):
        assert kept.problem == ("too_long" if size > most else "")
        said = "".join(text for _, text in kept.answer)
        assert said == ("" if size > most else "".join(pieces))


@pytest.mark.parametrize(
    ("stop", "problem"),
    [(StopReason.END, ""), (StopReason.CALLS, ""), (StopReason.SEQUENCE, ""), (StopReason.FILTERED, ""),
     (StopReason.LENGTH, "cut_short"), (StopReason.CONTEXT, "cut_short"), (StopReason.PAUSED, "cut_short")],
)  # fmt: skip
def test_an_answer_that_was_cut_off_says_so(stop: StopReason, problem: str) -> None:
    one = sample()
    one.judge(an_answer(Text("hello"), stop=stop))
    assert one.problem == problem


def test_an_answer_of_which_no_end_was_seen_is_unread() -> None:
    one = sample()
    for event in (Began("", ""), Opened(0, BlockKind.TEXT), Grew(0, "hi"), Closed(0), Counted(Tokens()), Ended()):
        one.feed(event)
    assert one.problem == "unread"


def test_the_check_behind_it_decides_what_flows_and_what_is_wrong() -> None:
    check = Holding(is_failed=True)
    one = AnswerRecorder(100).wrap(check, PROMPT, continues=False)
    assert tuple(one.feed(Opened(0, BlockKind.CALL, "1", "look"))) == ()
    assert tuple(one.feed(Grew(0, "{}"))) == (Grew(0, "{}"),)
    assert (one.is_failed, one.failed_checks(), one.answer) == (True, ("schema",), [])
    one.judge(an_answer(Text("x")))
    assert len(check.judged) == 1
    assert (sample().is_failed, sample().failed_checks()) == (False, ())


def test_a_second_attempt_begins_anew_but_where_the_first_goes_on() -> None:
    one = sample()
    one.feed(Opened(0, BlockKind.TEXT))
    one.feed(Grew(0, "first"))
    one.wrap(None, PROMPT, continues=True)
    one.feed(Opened(1, BlockKind.TEXT))
    one.feed(Grew(1, "second"))
    assert one.answer == [("", "first"), ("", "second")]
    one.wrap(None, PROMPT, continues=False)
    assert one.answer == []
