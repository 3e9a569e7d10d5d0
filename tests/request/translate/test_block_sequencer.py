"""Whatever order blocks come in, they go out one at a time, whole, numbered from 0."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from stoker.request.translate.neutral.block_sequencer import BlockSequencer


def told(*events: Event) -> list[str]:
    """A transcript: `+0` opens, `0:text` grows, `0!sig` signs, `-0` closes."""
    sequence = BlockSequencer()
    return [line(found) for event in events for found in sequence.feed(event)]


def line(event: Event) -> str:
    match event:
        case Opened(at=at):
            return f"+{at}"
        case Grew(at=at, text=text):
            return f"{at}:{text}"
        case Signed(at=at, signature=signature):
            return f"{at}!{signature}"
        case Closed(at=at):
            return f"-{at}"
    return type(event).__name__


def opened(at: int) -> Opened:
    return Opened(at, BlockKind.CALL, f"c{at}", "f")


def test_one_block_after_the_other_goes_straight_through() -> None:
    events = (opened(0), Grew(0, "a"), Signed(0, "s"), Closed(0), opened(7), Grew(7, "b"), Closed(7))
    assert told(*events) == ["+0", "0:a", "0!s", "-0", "+1", "1:b", "-1"]


def test_the_open_block_goes_on_live_and_others_wait() -> None:
    events = (opened(0), opened(1), Grew(1, "b"), Grew(0, "a"))
    assert told(*events) == ["+0", "0:a"]


def test_who_waited_follows_in_order_and_the_first_unclosed_one_goes_on_live() -> None:
    events = (
        opened(0), opened(1), Grew(1, "b"), Closed(1), opened(2), Grew(2, "c"), Signed(2, "s"), opened(3), Grew(3, "d"),
        Closed(0), Grew(2, "C"), Grew(3, "D"),
    )  # fmt: skip
    assert told(*events) == ["+0", "-0", "+1", "1:b", "-1", "+2", "2:c", "2!s", "2:C"]


def test_the_end_closes_what_is_open_and_gives_out_who_waits() -> None:
    events = (opened(0), opened(1), Grew(1, "b"), opened(2), Closed(2), Finished(StopReason.LENGTH), Ended())
    assert told(*events) == ["+0", "-0", "+1", "1:b", "-1", "+2", "-2", "Finished", "Ended"]


@pytest.mark.parametrize("end", [Failed(UpstreamError("x")), Ended()])
def test_a_failure_too_closes_what_is_open(end: Event) -> None:
    assert told(opened(4), Grew(4, "a"), end) == ["+0", "0:a", "-0", type(end).__name__]


def test_what_was_never_opened_or_is_closed_is_dropped() -> None:
    events = (Grew(3, "x"), Signed(3, "x"), Closed(3), opened(0), Closed(0), Grew(0, "late"), Closed(0))
    assert told(*events) == ["+0", "-0"]


def test_a_block_opens_once() -> None:
    events = (opened(0), opened(0), opened(1), opened(1), Grew(1, "b"), Closed(1), Grew(1, "late"), Closed(0))
    assert told(*events) == ["+0", "-0", "+1", "1:b", "-1"]


def test_what_is_no_block_goes_through() -> None:
    assert told(Began("a", "m"), opened(0), Counted(Tokens()), Closed(0)) == ["Began", "+0", "Counted", "-0"]


def test_headroom_2890_no_delta_comes_after_the_stop_of_its_block() -> None:
    events = (opened(0), opened(1), Grew(0, "a"), Grew(1, "b"), Closed(0), Grew(0, "late"), Grew(1, "B"), Closed(1))
    assert told(*events) == ["+0", "0:a", "-0", "+1", "1:b", "1:B", "-1"]


@given(st.data())
def test_any_order_gives_one_grammar_and_loses_nothing(data: st.DataObject) -> None:
    """Random interleavings of whole blocks: `(+n n:x* -n)*` with n = 0, 1, 2 and every text of every block."""
    count = data.draw(st.integers(1, 5))
    left = {
        at: [opened(at), *(Grew(at, f"{at}.{n};") for n in range(data.draw(st.integers(0, 4))))] for at in range(count)
    }
    for at in left:
        if data.draw(st.booleans()):
            left[at].append(Closed(at))
    want = {at: "".join(event.text for event in events if isinstance(event, Grew)) for at, events in left.items()}
    sequence = BlockSequencer()
    out: list[Event] = []
    while left:
        at = data.draw(st.sampled_from(sorted(left)))
        out += sequence.feed(left[at].pop(0))
        if not left[at]:
            del left[at]
    out += sequence.feed(Finished(StopReason.END))
    texts: dict[int, str] = {}
    names: dict[int, str] = {}
    live: int | None = None
    for event in out[:-1]:
        if isinstance(event, Opened):
            assert live is None
            assert event.at == len(names)
            live, names[event.at], texts[event.at] = event.at, event.id, ""
        elif isinstance(event, Grew):
            assert event.at == live
            texts[event.at] += event.text
        else:
            assert event == Closed(live if live is not None else -1)
            live = None
    assert live is None
    assert {int(name[1:]): texts[at] for at, name in names.items()} == want


def test_waiting_costs_the_same_for_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one who waited longest is taken from the front: nobody looks through those that are gone."""
    taken: list[bool] = []

    class Watched(OrderedDict[Any, Any]):
        def popitem(self, last: bool = True) -> tuple[Any, Any]:
            taken.append(last)
            return super().popitem(last)

        def __iter__(self) -> Any:
            raise AssertionError("looked through")

    monkeypatch.setattr("stoker.request.translate.neutral.block_sequencer.OrderedDict", Watched)
    count = 2000
    out = told(*(opened(at) for at in range(count)), Finished(StopReason.END))
    assert out[-2] == f"-{count - 1}"
    assert taken == [False] * (count - 1)
