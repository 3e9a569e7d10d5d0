"""Trace context: what is believed of a client's headers, and what its serves get."""

from __future__ import annotations

import pytest

from stoker.domain.trace import Parent, RequestTrace, Try, read_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def parent(value: str, state: str = "") -> Parent | None:
    return read_parent({b"traceparent": value.encode(), b"tracestate": state.encode()})


def test_a_parent_is_read_with_its_decision_and_its_state() -> None:
    assert parent(f"00-{TRACE}-{SPAN}-01", "a=1") == Parent(int(TRACE, 16), int(SPAN, 16), True, b"a=1")
    assert parent(f"00-{TRACE}-{SPAN}-00") == Parent(int(TRACE, 16), int(SPAN, 16), False)
    assert parent(f"cc-{TRACE}-{SPAN}-03-more") is not None, "a later version may have more"
    assert read_parent({}) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "garbage",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01" * 1000,
    ],
)
def test_what_is_no_parent_begins_a_trace_of_its_own(value: str) -> None:
    assert parent(value) is None


def test_a_state_that_is_too_long_is_dropped_as_a_whole() -> None:
    found = parent(f"00-{TRACE}-{SPAN}-01", "a=" + "x" * 511)
    assert found is not None
    assert found.state == b""


def test_each_call_of_a_serve_gets_a_parent_of_its_own_in_place_of_the_clients() -> None:
    given = [(b"accept", b"*/*"), (b"traceparent", b"old"), (b"tracestate", b"a=1"), (b"traceparent", b"older")]
    caller = parent(f"00-{TRACE}-{SPAN}-01", "a=1")
    trace = RequestTrace(int(TRACE, 16), 0x10, True, 0.0, "POST", "http", caller)
    assert trace.sent_headers(given) == [
        (b"accept", b"*/*"),
        (b"traceparent", f"00-{TRACE}-{0x11:016x}-01".encode()),
        (b"tracestate", b"a=1"),
    ]
    trace.tries.append(Try("a", "127.0.0.1", 1, "a", 0.0, False))
    assert trace.sent_headers([])[0][1] == f"00-{TRACE}-{0x12:016x}-01".encode()


def test_a_state_without_a_parent_is_not_passed_on() -> None:
    trace = RequestTrace(1, 2**64 - 1, False, 0.0, "POST", "http")
    assert trace.sent_headers([(b"tracestate", b"a=1")]) == [
        (b"traceparent", b"00-%032x-%016x-00" % (1, 2**64 - 1)),
    ], "and no span has the id 0"
