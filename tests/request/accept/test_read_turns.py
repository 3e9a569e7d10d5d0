"""However many connections upload, a turn of the event loop reads a bounded part: others wait for that only."""

from __future__ import annotations

from collections.abc import Callable

from stoker.request.accept.bodies import LARGE_READ, MAX_BURST, ReadTurns


class Loop:
    """Keeps what is to be called in its next turn."""

    def __init__(self) -> None:
        self.next: list[Callable[[], None]] = []

    def call_soon(self, work: Callable[[], None]) -> None:
        self.next.append(work)

    def turn(self) -> None:
        now, self.next = self.next, []
        for work in now:
            work()


class Uploads:
    """Connections that always have more to read, 256 KiB at a time, as uvloop reads them."""

    SIZE = 256 * 1024

    def __init__(self, count: int) -> None:
        self.loop = Loop()
        self.turns = ReadTurns(self.loop)  # type: ignore[arg-type]
        self.reading = list(range(count))
        self.read = [0] * count

    def turn(self) -> int:
        """Bytes that were read in one turn."""
        self.loop.turn()
        before = sum(self.read)
        now, self.reading = self.reading, []
        for each in now:
            self._read(each)
        return sum(self.read) - before

    def _read(self, each: int) -> None:
        self.read[each] += self.SIZE
        while not self.turns.must_wait(self.SIZE):
            self.read[each] += self.SIZE
        self.turns.wait(lambda: self.reading.append(each))


def test_a_turn_reads_no_more_of_sixteen_uploads_than_of_one() -> None:
    alone, many = Uploads(1), Uploads(16)
    assert alone.turn() == MAX_BURST
    many.turn()  # nobody knows yet that all have much to send
    assert [alone.turn() for _ in range(50)] == [many.turn() for _ in range(50)] == [MAX_BURST] * 50


def test_uploads_take_turns() -> None:
    uploads = Uploads(16)
    for _ in range(1 + 3 * 16):
        uploads.turn()
    later = [size - Uploads.SIZE for size in uploads.read[1:]]
    assert set(later) == {3 * MAX_BURST}


def test_nothing_is_called_when_nobody_uploads() -> None:
    uploads = Uploads(2)
    uploads.turn()
    uploads.reading.clear()
    for _ in range(4):
        uploads.loop.turn()
    assert not uploads.loop.next


def test_one_that_reads_less_than_a_burst_never_waits() -> None:
    loop = Loop()
    turns = ReadTurns(loop)  # type: ignore[arg-type]
    for _ in range(20):
        assert not turns.must_wait(MAX_BURST - LARGE_READ)
        loop.turn()
