"""The holder: step by step in the test's own process, and as the program that it is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from stoker.fleet.warm import holder as program
from stoker.fleet.warm import pages
from stoker.fleet.warm.holder import (
    REFRESH,
    SHORT_OF_MEMORY,
    WINDOW,
    Holder,
    HoldProgress,
    HoldRequest,
    LineReader,
    has_room,
)

MIB = 2**20
Write = Callable[..., str]
SIZE = 2 * WINDOW + 5000
PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14


class Desk:
    """A holder, what it told, and whether there is room."""

    def __init__(self) -> None:
        self.told: list[HoldProgress] = []
        self.has_room = True
        self.holder = Holder(self.told.append, lambda length: self.has_room)

    def work(self) -> float:
        """Until it wants to wait."""
        for _ in range(100):
            if (seconds := self.holder.step()) > 0:
                return seconds
        raise AssertionError("it does not come to an end")


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.holder.on_wanted(HoldRequest())  # lets everything go


def test_what_is_wanted_is_read_in_and_told(desk: Desk, write: Write) -> None:
    path = write("weights", SIZE)
    desk.holder.on_wanted(HoldRequest((path,)))
    assert desk.work() == REFRESH
    assert pages.cached_share(path) == 1.0
    assert (desk.told[-1].path, desk.told[-1].size, desk.told[-1].done) == (path, SIZE, SIZE)


def test_the_most_urgent_file_is_read_first_even_if_it_comes_later(desk: Desk, write: Write) -> None:
    slow, urgent = write("slow", SIZE), write("urgent", SIZE)
    desk.holder.on_wanted(HoldRequest((slow,)))
    desk.holder.step()
    desk.holder.on_wanted(HoldRequest((urgent, slow)))
    desk.work()
    assert [one.path for one in desk.told] == [urgent, slow]


def test_nothing_is_read_while_paused_and_it_goes_on_where_it_was(desk: Desk, write: Write) -> None:
    path = write("weights", SIZE)
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.holder.step()
    before = pages.count(path)
    desk.holder.on_wanted(HoldRequest((path,), pause=True))
    assert desk.work() == REFRESH
    assert pages.count(path) == before
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.work()
    assert pages.cached_share(path) == 1.0


def test_nothing_is_read_while_memory_is_short(desk: Desk, write: Write) -> None:
    path = write("weights", SIZE)
    desk.has_room = False
    desk.holder.on_wanted(HoldRequest((path,)))
    assert desk.work() == SHORT_OF_MEMORY
    assert pages.cached_share(path) == 0.0
    desk.has_room = True
    assert desk.work() == REFRESH
    assert pages.cached_share(path) == 1.0


def test_what_is_dropped_can_be_evicted_again(desk: Desk, write: Write) -> None:
    path = write("weights", SIZE)
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.work()
    desk.holder.on_wanted(HoldRequest())
    pages.evict(path)
    assert pages.cached_share(path) == 0.0


ORIGINAL_MAPPING = pages.Mapping


def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: pages.Mapping, offset: int, length: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(pages.Mapping, "lock", refuse)


def _recorded_mappings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[pages.Mapping, tuple[int, int, int]]]:
    """Every mapping that is made from now on, with what it was made of."""
    made: list[tuple[pages.Mapping, tuple[int, int, int]]] = []

    class Recorded(pages.Mapping):
        def __init__(self, file: int, offset: int, length: int) -> None:
            super().__init__(file, offset, length)
            made.append((self, (file, offset, length)))

    monkeypatch.setattr(pages, "Mapping", Recorded)
    return made


def test_what_may_not_be_locked_is_brought_back_at_the_next_refresh(
    desk: Desk, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_locks(monkeypatch)
    mappings = _recorded_mappings(monkeypatch)
    path = write("weights", SIZE)
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.work()
    assert desk.told[-1].locked == 0
    os.truncate(path, SIZE)  # the same length: only to show that the file is the same one
    [(mapping, given)] = mappings
    mapping.close()  # a mapped page is not evicted by advice, as it is under memory pressure
    pages.evict(path)
    ORIGINAL_MAPPING.__init__(mapping, *given)
    assert pages.cached_share(path) == 0.0
    desk.holder.refresh()
    assert desk.work() == REFRESH
    assert pages.cached_share(path) == 1.0
    assert len(desk.told) == 1, "no news"


def test_the_limit_of_locked_memory_is_used_up_and_no_error(
    desk: Desk, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = pages.Mapping.lock

    def up_to_one_window(self: pages.Mapping, offset: int, length: int) -> None:
        if offset >= WINDOW:
            raise OSError(12, "Cannot allocate memory")
        lock(self, offset, length)

    monkeypatch.setattr(pages.Mapping, "lock", up_to_one_window)
    path = write("weights", SIZE)
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.work()
    assert (desk.told[-1].done, desk.told[-1].locked, desk.told[-1].problem) == (SIZE, WINDOW, "")


def test_an_old_kernel_gets_plain_reads(desk: Desk, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(self: pages.Mapping, offset: int, length: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(pages.Mapping, "read_in", unknown)
    path = write("weights", SIZE)
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.work()
    assert pages.cached_share(path) == 1.0


def test_a_file_that_cannot_be_held_is_told_and_the_next_one_is_held(desk: Desk, write: Write, tmp_path: Path) -> None:
    path, missing, empty = write("weights", MIB), str(tmp_path / "none"), tmp_path / "empty"
    empty.touch()
    desk.holder.on_wanted(HoldRequest((missing, str(empty), path)))
    assert desk.work() == REFRESH
    assert [(one.path, bool(one.problem)) for one in desk.told] == [(missing, True), (str(empty), True), (path, False)]


def test_a_file_that_became_shorter_is_given_up_with_a_reason(desk: Desk, write: Write) -> None:
    path = write("weights", SIZE)
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.holder.step()
    os.truncate(path, 4096)
    desk.work()
    assert desk.told[-1].problem


def test_a_file_that_was_replaced_is_read_anew(desk: Desk, write: Write) -> None:
    path = write("weights", MIB)
    desk.holder.on_wanted(HoldRequest((path,)))
    desk.work()
    os.replace(write("fresh", 2 * MIB), path)
    desk.holder.refresh()
    desk.work()
    assert pages.cached_share(path) == 1.0
    assert desk.told[-1].size == 2 * MIB


def test_room_is_what_is_available_beyond_a_twentieth(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 150 kB\n")
    assert has_room(100 * 1024, tmp_path)
    assert not has_room(101 * 1024, tmp_path)
    meminfo.write_text("MemFree: 1 kB\n")
    assert has_room(101 * 1024, tmp_path), "unknown is no shortage"


# -- the program -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(before: Callable[[], None] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "stoker.fleet.warm.holder"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=before)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def say(child: subprocess.Popen[bytes], wanted: HoldRequest) -> None:
    assert child.stdin is not None
    child.stdin.write(msgspec.json.encode(wanted) + b"\n")
    child.stdin.flush()


def hear(child: subprocess.Popen[bytes]) -> HoldProgress:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], 30)
    assert ready, "it says nothing"
    return msgspec.json.decode(child.stdout.readline(), type=HoldProgress)


def test_the_program_holds_in_everybodys_way_of_nobody_and_ends_with_its_input(write: Write) -> None:
    path = write("weights", SIZE)
    with running() as child:
        say(child, HoldRequest((path,)))
        assert hear(child).done == SIZE
        process = psutil.Process(child.pid)
        assert pages.cached_share(path) == 1.0
        assert os.sched_getscheduler(child.pid) == os.SCHED_IDLE
        assert process.ionice().ioclass == psutil.IOPRIO_CLASS_IDLE
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "1000"
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(10) == 0


def test_lines_that_come_in_pieces_or_together_are_understood() -> None:
    source, sink = os.pipe()
    try:
        lines = LineReader(source)
        assert lines.read(0) is None
        os.write(sink, b'{"hold": ["/o')
        assert lines.read(0) is None
        os.write(sink, b'ld"]}\n{"hold": ["/new"], "pause": true}\n{"ho')
        assert lines.read(0) == HoldRequest(("/new",), pause=True), "each line is the whole: the newest counts"
        os.write(sink, b'ld": []}\n')
        assert lines.read(0) == HoldRequest()
        os.close(sink)
        with pytest.raises(EOFError):
            lines.read(0)
    finally:
        os.close(source)


def test_the_limit_of_locked_memory_binds_without_privilege(write: Write) -> None:
    def limit() -> None:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)  # root may lock what it likes
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (WINDOW, WINDOW))

    path = write("weights", SIZE)
    with running(limit) as child:
        say(child, HoldRequest((path,)))
        found = hear(child)
        assert (found.done, found.problem) == (SIZE, "")
        assert found.locked <= WINDOW
        assert pages.cached_share(path) == 1.0


def test_arguments_are_refused_with_a_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["x"]) == 2
    assert "usage" in capsys.readouterr().err


def test_killing_the_owner_ends_the_holder(tmp_path: Path) -> None:
    """Whatever ends the owner closes the pipe."""
    script = tmp_path / "owner.py"
    script.write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'stoker.fleet.warm.holder'], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        holder = psutil.Process(pid)
        os.kill(owner.pid, signal.SIGKILL)
        holder.wait(20)  # raises if it outlives its owner
