"""Memory of large blocks goes back to the system, in whatever order they are freed."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

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
