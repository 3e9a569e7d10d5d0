"""A tool argument of 200 KB in 1,000 fragments costs linear work: counted in calls and bytes, not in seconds.

What no count of calls shows (a copy that grows) is timed by `python -m bench.translation_scaling`, with a megabyte.
"""

from __future__ import annotations

import json
import sys
import tracemalloc
from types import FrameType
from typing import Any, NamedTuple

import pytest
from bench.translation_scaling import SIZE, frames
from tests.request.translate.properties.going_through import CLIENTS, through, translator
from tests.request.translate.properties.stream_grammars import GRAMMARS
from tests.request.translate.properties.translation_worlds import UPSTREAMS

from stoker.domain.dialect import Dialect

PIECES = 1000
"""Fragments of 200 bytes each."""
PAIRS = [(upstream, client) for upstream in UPSTREAMS for client in CLIENTS]


class Cost(NamedTuple):
    calls: int
    written: int
    out: bytes


def cost(upstream: Dialect, client: Dialect, pieces: int) -> Cost:
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    given = frames(upstream, pieces)
    one = translator(upstream, client)
    sys.setprofile(count)
    try:
        out = through(client, one, given)
    finally:
        sys.setprofile(None)
    return Cost(calls, len(out), out)


@pytest.mark.parametrize(("upstream", "client"), PAIRS)
def test_five_times_the_fragments_are_five_times_the_work(upstream: Dialect, client: Dialect) -> None:
    some, full = cost(upstream, client, PIECES // 5), cost(upstream, client, PIECES)
    assert full.calls < 5.1 * some.calls
    assert full.calls < 130 * PIECES, "a bounded number of calls for each fragment"
    assert full.written <= 5.1 * some.written
    sent = sum(map(len, frames(upstream, PIECES)))
    assert full.written < 4 * sent
    told = GRAMMARS[client](full.out)
    assert told.end == "end"
    if told.calls:
        assert len(json.loads(told.calls[0])["x"]) == PIECES * SIZE


@pytest.mark.parametrize("client", [Dialect.MESSAGES, Dialect.RESPONSES, Dialect.OLLAMA_CHAT])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_long_argument_is_held_once_or_a_few_times(upstream: Dialect, client: Dialect) -> None:
    """Each piece of output is let go as it is made: what is held is what a dialect has to tell again at the end."""
    given = frames(upstream, PIECES)
    one = translator(upstream, client)
    tracemalloc.start()
    try:
        for frame in given:
            one.feed(frame)
        one.has_ended()
        one.take_rest()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = PIECES * SIZE
    assert held < 3 * size
    assert peak < 12 * size


def test_a_frame_that_never_ends_is_searched_once() -> None:
    """No blank line ever comes: each byte is looked at a bounded number of times, and the buffer has a limit."""
    one = translator(Dialect.CHAT, Dialect.MESSAGES)
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        for _ in range(PIECES):
            one.feed(b"data: " + b"x" * SIZE)
    finally:
        sys.setprofile(None)
    assert calls < 40 * PIECES
    assert one.take_rest() == b""


def test_interleaved_calls_are_looked_at_once() -> None:
    """Each fragment goes to the other of two calls: nothing is searched again for it."""
    head = [
        {"index": at, "id": f"c{at}", "type": "function", "function": {"name": "f", "arguments": '{"x":"'}}
        for at in (0, 1)
    ]

    def given(pieces: int) -> list[bytes]:
        deltas = [*head, *({"index": n % 2, "function": {"arguments": "y" * SIZE}} for n in range(pieces))]
        return [
            b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}).encode()
            for delta in deltas
        ]

    def work(pieces: int) -> int:
        calls = 0

        def count(frame: FrameType, event: str, arg: Any) -> None:
            nonlocal calls
            calls += 1

        sent = given(pieces)
        one = translator(Dialect.CHAT, Dialect.MESSAGES)
        sys.setprofile(count)
        try:
            for frame in sent:
                one.feed(frame)
        finally:
            sys.setprofile(None)
        return calls

    assert work(PIECES) < 2.05 * work(PIECES // 2)
