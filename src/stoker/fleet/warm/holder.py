"""Keeps files in the page cache: `python -m stoker.fleet.warm.holder`, its own process.

It reads JSON lines, each the complete list of wanted files: `{"hold": ["/a.gguf", ...], "pause": false}`, the most
urgent first. A file that the newest line does not name is released. It writes a JSON line about a file as that
progresses (`HoldProgress`). It ends when its input does, so it never outlives its owner.

A file is read window by window, at the lowest priority for the CPU and (if the disk's scheduler has priorities) for the
disk; nothing is read during a pause, or while memory is short. What was read is locked as far as RLIMIT_MEMLOCK allows;
the rest is marked as used every half minute, and pages that the kernel evicted are read again. If memory still
runs out, the kernel kills this process first, and only warm models are lost. It takes about 10 MB, and page tables of
up to 0.2 % of what it holds.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from stoker.fleet.warm import pages
from stoker.system.memory import PROC, main_memory, step_aside

WINDOW = 4 * 2**20
"""Bytes read between two checks of the input. They determine how quickly a pause takes effect."""
REFRESH = 30.0
"""Seconds between two rounds over the held files."""
SPARE = 0.05
"""Share of the machine's memory that must stay available after a read."""
SHORT_OF_MEMORY = 1.0
"""Seconds between two checks whether memory is still short."""
STRIDE = 16 * WINDOW
"""Progress is reported, and free memory checked, after this many bytes."""
_PIECE = 2**20


class HoldRequest(msgspec.Struct, frozen=True):
    """A line of the holder's input."""

    hold: tuple[str, ...] = ()
    pause: bool = False


class HoldProgress(msgspec.Struct, frozen=True):
    """A line of the holder's output. Sizes in bytes."""

    path: str
    size: int
    done: int
    """Bytes read so far."""
    locked: int
    problem: str = ""
    """Why it is not held; empty if it is, or will be."""


class HeldFile:
    """One file. Raises OSError if it cannot be opened or mapped, or is empty."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.done = 0
        self.locked = 0
        self._at = 0
        """Position of this round; `done` is the furthest position of any round."""
        self._may_lock = True
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._found = os.fstat(self._file)
            self.size = self._found.st_size
            self._map = pages.Mapping(self._file, 0, self.size)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def is_in(self) -> bool:
        return self._at >= self.size

    @property
    def needs_room(self) -> bool:
        """Whether it is time to check that there is memory for the next `STRIDE` bytes."""
        return self._at % STRIDE == 0

    def step(self) -> bool:
        """Reads the next window. Returns whether there is progress to report. Raises OSError."""
        length = min(WINDOW, self.size - self._at)
        self._read_in(length)
        if self._may_lock:
            try:
                self._map.lock(self._at, length)
                self.locked = self._at + length
            except OSError:  # RLIMIT_MEMLOCK is reached: the rest is refreshed instead
                self._may_lock = False
        self._at += length
        if self._at <= self.done:
            return False
        self.done = self._at
        return self.is_in or self.done % STRIDE == 0

    def _read_in(self, length: int) -> None:
        try:
            self._map.read_in(self._at, length)
        except OSError:  # an old kernel, or the file became shorter
            if not os.preadv(self._file, [bytearray(length)], self._at):
                raise

    def refresh(self) -> None:
        """Begins another round over the pages that are not locked."""
        self._at = self.locked
        self._may_lock = True

    def is_replaced(self) -> bool:
        """Whether another file has this name now. Raises OSError if none has."""
        return not os.path.samestat(os.stat(self.path), self._found)

    def close(self) -> None:
        self._map.close()
        os.close(self._file)


class Holder:
    """Reads and holds files, one `step` at a time. `tell` gets every HoldProgress."""

    def __init__(self, tell: Callable[[HoldProgress], None], has_room: Callable[[int], bool]) -> None:
        self._tell = tell
        self._has_room = has_room
        self._wanted = HoldRequest()
        self._held: dict[str, HeldFile] = {}
        self._failed: set[str] = set()

    def on_wanted(self, wanted: HoldRequest) -> None:
        """Releases files that are not wanted any more. Files that failed before are tried again."""
        self._wanted = wanted
        self._failed.clear()
        for path in self._held.keys() - set(wanted.hold):
            self._held.pop(path).close()

    def step(self) -> float:
        """Does a little work. Returns the seconds until there is more to do; 0: at once."""
        if self._wanted.pause:
            return REFRESH
        for path in self._wanted.hold:
            if path in self._failed:
                continue
            try:
                held = self._held.get(path) or self._open(path)
                if held.is_in:
                    continue
                if held.needs_room and not self._has_room(STRIDE):
                    return SHORT_OF_MEMORY
                has_news = held.step()
            except OSError as error:
                self._fail(path, error.strerror or str(error))
                continue
            if has_news:
                self._tell(HoldProgress(path, held.size, held.done, held.locked))
            return 0.0
        return REFRESH

    def refresh(self) -> None:
        """Begins another round over the held files; a file that was replaced is opened again."""
        for path, held in list(self._held.items()):
            try:
                if held.is_replaced():
                    self._held.pop(path).close()
                else:
                    held.refresh()
            except OSError as error:
                self._fail(path, error.strerror or str(error))

    def _open(self, path: str) -> HeldFile:
        held = self._held[path] = HeldFile(path)
        return held

    def _fail(self, path: str, problem: str) -> None:
        self._failed.add(path)
        held = self._held.pop(path, None)
        if held is not None:
            held.close()
        self._tell(HoldProgress(path, 0, 0, 0, problem))


class LineReader:
    """JSON lines from a non-blocking descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def read(self, seconds: float) -> HoldRequest | None:
        """The newest whole line within this time, if any came. Raises EOFError at the end of the input."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return None
        piece = os.read(self._descriptor, _PIECE)
        if not piece:
            raise EOFError
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return msgspec.json.decode(lines[-1], type=HoldRequest) if lines else None


def has_room(length: int, proc: Path = PROC) -> bool:
    """Whether the machine can spare that many bytes. True if that is unknown."""
    found = main_memory(proc)
    if found.total is None or found.available is None:
        return True
    return found.available - length >= found.total * SPARE


def run(source: int, tell: Callable[[HoldProgress], None]) -> None:
    """Runs until the input ends."""
    lines, holder = LineReader(source), Holder(tell, has_room)
    refresh_at = time.monotonic() + REFRESH
    seconds = 0.0
    while True:
        wanted = lines.read(min(seconds, max(0.0, refresh_at - time.monotonic())))
        if wanted is not None:
            holder.on_wanted(wanted)
        if time.monotonic() >= refresh_at:
            refresh_at = time.monotonic() + REFRESH
            holder.refresh()
        seconds = holder.step()


def main(words: Sequence[str]) -> int:
    """The exit code: 0 when the input ends."""
    if words:
        sys.stderr.write("usage: python -m stoker.fleet.warm.holder <LINES; see its docstring\n")
        return 2
    step_aside()

    def tell(progress: HoldProgress) -> None:
        os.write(1, msgspec.json.encode(progress) + b"\n")

    with contextlib.suppress(EOFError, BrokenPipeError):
        run(0, tell)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
