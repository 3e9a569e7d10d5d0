"""Freed memory goes back to the system: of large blocks at once, of many small ones soon."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from stoker.app.allocator import SLACK, FreedMemory

PROGRAM = """
import sys
from stoker.app.allocator import give_back_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

if sys.argv[1] == "given back":
    give_back_large_blocks()
before = resident()
first = bytearray(8 * 2**20)
del first  # glibc would keep blocks of this size from now on
kept = []
for _ in range(4):
    block = bytearray(8 * 2**20)
    kept.append(bytearray(4096))  # above it in the heap
    del block
print(resident() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="of glibc")
def test_large_blocks_go_back_to_the_system() -> None:
    left = {}
    for how in ("given back", "kept"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=30
        )
        left[how] = int(done.stdout)
    assert left["given back"] < 2**20
    assert left["kept"] > 6 * 2**20, "what it is for"


class PaperHeap:
    """`code` bytes that are no heap, `used` ones, and `free` ones that are kept."""

    def __init__(self) -> None:
        self.code, self.in_use, self.free, self.trims = 40_000_000, 8_000_000, 0, 0

    def resident(self) -> int:
        return self.code + self.in_use + self.free

    def used(self) -> int:
        return self.in_use

    def trim(self) -> None:
        self.free, self.trims = 0, self.trims + 1

    def take(self, size: int) -> None:
        self.in_use += size
        self.free = max(0, self.free - size)

    def give_back(self, size: int) -> None:
        self.in_use -= size
        self.free += size


def looked_at(memory: FreedMemory) -> bool:
    is_looked = memory.is_worth_a_look()
    if is_looked:
        memory.give_back()
    return is_looked


def test_what_small_blocks_leave_is_given_back_each_time() -> None:
    heap = PaperHeap()
    memory = FreedMemory(heap)
    assert not looked_at(memory)
    for round_ in range(1, 4):
        heap.take(900_000_000)
        looked_at(memory)
        before = heap.trims
        assert [looked_at(memory) for _ in range(3)] == [True] * 3
        assert heap.trims == before, "nothing is free while it is in use"
        heap.give_back(900_000_000)
        assert looked_at(memory)
        assert (heap.trims, heap.free) == (before + 1, 0), round_
        assert not looked_at(memory)


def test_what_requests_need_again_and_again_stays() -> None:
    heap = PaperHeap()
    memory = FreedMemory(heap)
    for _ in range(10):
        heap.take(SLACK // 2)
        heap.give_back(SLACK // 2)
        looked_at(memory)
    assert (heap.trims, heap.free) == (0, SLACK // 2)


SMALL_BLOCKS = """
from stoker.app.allocator import FreedMemory, give_back_large_blocks, glibc_heap

give_back_large_blocks()
heap = glibc_heap()
if heap is None:
    raise SystemExit(3)
memory = FreedMemory(heap)
before = heap.resident()
blocks = [bytes(60_000).replace(b"\\0", b"x") for _ in range(2_000)]
above = blocks[-1]
del blocks
kept = heap.resident() - before
if memory.is_worth_a_look():
    memory.give_back()
print(kept, heap.resident() - before)
"""


def test_small_blocks_below_one_that_is_in_use_go_back_to_the_system() -> None:
    command = [sys.executable, "-c", SMALL_BLOCKS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode == 3:
        pytest.skip("of glibc, 2.33 or newer")
    assert done.returncode == 0, done.stderr
    kept, left = map(int, done.stdout.split())
    assert kept > 100_000_000, "what it is for"
    assert left < SLACK
