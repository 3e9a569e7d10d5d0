"""A message goes out at once; under load messages go out together, in order, soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.request.outbox import FEW, MAX_BATCH, Outbox


class Loop:
    """An event loop whose time stands still until the next turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], None]] = []
        self.complaints: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(context["exception"])

    def turn(self) -> None:
        self.now += 0.001
        soon, self.soon = self.soon, []
        for call in soon:
            call()


class Box:
    def __init__(self) -> None:
        self.loop = Loop()
        self.box = Outbox(self.loop)  # type: ignore[arg-type]
        self.sent: list[bytes] = []

    def put(self, *messages: bytes) -> None:
        for message in messages:
            self.box.put(self.sent.append, message)

    def be_busy(self) -> None:
        self.put(*[b"x"] * FEW)
        self.sent.clear()


def test_a_few_messages_go_out_at_once_and_so_do_many_over_time() -> None:
    box = Box()
    for turn in range(3):
        box.put(*[b"x"] * FEW)
        assert len(box.sent) == (turn + 1) * FEW
        box.loop.turn()
    assert box.loop.soon == []


def test_under_load_messages_go_out_in_order_with_the_loops_next_turn() -> None:
    box = Box()
    box.be_busy()
    box.put(b"1", b"2")
    assert box.sent == []
    box.loop.now += 0.001
    box.put(b"3")
    assert box.sent == [], "nothing goes out before what waits"
    box.loop.turn()
    assert box.sent == [b"1", b"2", b"3"]
    box.put(b"4")
    assert box.sent[-1] == b"4"


def test_many_do_not_wait_for_more() -> None:
    box = Box()
    box.be_busy()
    box.put(*[b"x"] * (MAX_BATCH - 1))
    assert box.sent == []
    box.put(b"last")
    assert (len(box.sent), box.sent[-1]) == (MAX_BATCH, b"last")
    box.put(b"next")
    assert len(box.sent) == MAX_BATCH
    box.loop.turn()
    assert box.sent[-1] == b"next"


def test_one_that_cannot_be_sent_does_not_hold_up_the_others() -> None:
    box, error = Box(), OSError()
    box.be_busy()

    def broken(message: bytes) -> None:
        raise error

    box.box.put(broken, b"1")
    box.put(b"2")
    box.loop.turn()
    assert (box.sent, box.loop.complaints) == ([b"2"], [error])
