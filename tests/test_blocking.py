"""Work that blocks for ever holds up nobody."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest
import uvloop

from stoker.blocking import StillBlocked, in_own_thread


def test_what_the_work_returns_and_raises_is_returned_and_raised() -> None:
    async def tell() -> None:
        assert await in_own_thread(lambda: 7, "seven") == 7
        with pytest.raises(ZeroDivisionError):
            await in_own_thread(lambda: 1 // 0, "zero")

    uvloop.run(tell())


def test_the_loop_goes_on_and_a_limit_counts() -> None:
    async def tell() -> None:
        gate = threading.Event()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await in_own_thread(lambda: gate.wait(10), "a file")
        gate.set()

    uvloop.run(tell())


def test_what_is_left_behind_costs_one_thread_until_it_ends() -> None:
    async def tell() -> None:
        gate = threading.Event()
        task = asyncio.get_running_loop().create_task(in_own_thread(lambda: gate.wait(10), "that file"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(StillBlocked, match="that file"):
            await in_own_thread(lambda: True, "that file")
        assert await in_own_thread(lambda: True, "another file")
        gate.set()
        until = time.monotonic() + 3
        while True:
            try:
                assert await in_own_thread(lambda: True, "that file")
                return
            except StillBlocked:
                assert time.monotonic() < until
                await asyncio.sleep(0.01)

    uvloop.run(tell())


def test_the_program_ends_although_the_work_does_not() -> None:
    code = """
import asyncio, threading
from stoker.blocking import in_own_thread
async def main():
    try:
        async with asyncio.timeout(0.05):
            await in_own_thread(threading.Event().wait, "for ever")
    except TimeoutError:
        print("left")
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=10)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
