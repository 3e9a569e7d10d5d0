"""A coroutine run by callbacks does what a task does, only sooner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.request.accept.connection import InlineTask

Log = list[Any]


def run(
    work: Callable[[Log], Coroutine[Any, Any, None]], meanwhile: Callable[[InlineTask, Log], Coroutine[Any, Any, None]]
) -> Log:
    """Runs `work` as a turn and `meanwhile` beside it; nothing may be left."""
    log: Log = []

    async def played() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: log.append(context["exception"]))
        running: set[InlineTask] = set()
        turn = InlineTask(work(log), loop, running)
        async with asyncio.timeout(3):
            await meanwhile(turn, log)
            while running:
                await asyncio.sleep(0)

    asyncio.run(played())
    return log


async def nothing(turn: InlineTask, log: Log) -> None:
    log.append("meanwhile")


def test_it_begins_at_once_and_ends_at_once_if_nothing_has_to_be_waited_for() -> None:
    async def work(log: Log) -> None:
        log.append("work")

    assert run(work, nothing) == ["work", "meanwhile"]


def test_it_goes_on_when_what_it_waits_for_is_done_with_its_result_or_its_error() -> None:
    async def work(log: Log) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_soon(done.set_result, 7)
        log.append(await done)
        await asyncio.sleep(0)
        failed = loop.create_future()
        loop.call_soon(failed.set_exception, KeyError("x"))
        try:
            await failed
        except KeyError:
            log.append("error")
        log.append(await loop.create_task(asyncio.sleep(0.001, "slept")))

    assert run(work, nothing) == ["meanwhile", 7, "error", "slept"]


def test_a_cancel_ends_the_wait_and_what_was_waited_for() -> None:
    async def work(log: Log) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(asyncio.sleep(60))
        try:
            await task
        except asyncio.CancelledError:
            log.append(("cancelled", task.cancelled()))
            raise

    async def cancel(turn: InlineTask, log: Log) -> None:
        turn.cancel(msg="shutting down")
        log.append("meanwhile")

    assert run(work, cancel) == ["meanwhile", ("cancelled", True)]


def test_a_cancel_in_the_moment_of_the_result_is_not_lost() -> None:
    done: asyncio.Future[str]

    async def work(log: Log) -> None:
        nonlocal done
        done = asyncio.get_running_loop().create_future()
        try:
            log.append(await done)
        except asyncio.CancelledError:
            log.append(("cancelled", done.result()))

    async def cancel(turn: InlineTask, log: Log) -> None:
        done.set_result("granted")
        turn.cancel()

    assert run(work, cancel) == [("cancelled", "granted")]


def test_who_goes_on_after_a_cancel_can_wait_again() -> None:
    async def work(log: Log) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            log.append("cleaned up")

    async def cancel(turn: InlineTask, log: Log) -> None:
        turn.cancel()

    assert run(work, cancel) == ["cleaned up"]


def test_an_error_that_nobody_caught_goes_to_the_loop() -> None:
    async def work(log: Log) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    (error,) = (entry for entry in run(work, nothing) if entry != "meanwhile")
    assert isinstance(error, ZeroDivisionError)
