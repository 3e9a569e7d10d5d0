"""Work that blocks for ever holds up nobody."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest
import uvloop

from stoker.blocking import StillBlocked, each_waited_for, in_own_thread


def test_many_pieces_of_work_share_a_thread_and_one_that_blocks_holds_up_only_itself() -> None:
    gate = threading.Event()
    threads: list[int] = []

    def quick() -> bool:
        threads.append(threading.get_ident())
        return True

    works = [("a", quick), ("b", quick), ("dead", lambda: gate.wait(10)), ("c", quick), ("dead", quick), ("d", quick)]
    a, b, dead, c, again, d = each_waited_for(works, 1.0)
    assert (a, b, c, d) == (True, True, True, True)
    assert isinstance(dead, StillBlocked)
    assert isinstance(again, StillBlocked), "it is known to block"
    assert threads[0] == threads[1], "one thread until one blocks"
    gate.set()
    until = time.monotonic() + 3
    while isinstance(each_waited_for([("dead", quick)], 0.05)[0], StillBlocked):
        assert time.monotonic() < until, "known to block only until it ends"
        time.sleep(0.01)


def test_what_one_piece_of_work_raises_is_its_outcome() -> None:
    failed, worked = each_waited_for([("a", lambda: 1 // 0), ("b", lambda: 7)], 5)
    assert isinstance(failed, ZeroDivisionError)
    assert worked == 7


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
