"""A relay's outcome: known at once to who waits, once, whoever says it first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from stoker.request.accept.connection import InlineTask
from stoker.request.relay.relay import RelayCompletion

Told = list[str]


async def wait(outcome: RelayCompletion, told: Told) -> None:
    try:
        await outcome
        told.append("well")
    except ValueError as error:
        told.append(f"error {error}")
    except asyncio.CancelledError:
        told.append("cancelled")


def story(tell: Callable[[RelayCompletion, Told], Awaitable[None]]) -> Callable[[], None]:
    async def played() -> None:
        outcome = RelayCompletion(asyncio.get_running_loop())
        await tell(outcome, [])

    def run() -> None:
        asyncio.run(played())

    run.__name__, run.__doc__ = tell.__name__, tell.__doc__
    return run


def begin(work: Coroutine[Any, Any, None]) -> InlineTask:
    return InlineTask(work, asyncio.get_running_loop(), set())


@story
async def test_success_is_told_within_the_call(outcome: RelayCompletion, told: Told) -> None:
    begin(wait(outcome, told))
    outcome.succeed()
    assert told == ["well"]


@story
async def test_a_failure_is_told_with_the_loops_next_turn(outcome: RelayCompletion, told: Told) -> None:
    """Anybody may call `fail`, also in the middle of something that the end of the request would disturb."""
    begin(wait(outcome, told))
    outcome.fail(ValueError(1))
    assert (outcome.is_known, told) == (True, [])
    await asyncio.sleep(0)
    assert told == ["error 1"]


@story
async def test_only_the_first_word_counts(outcome: RelayCompletion, told: Told) -> None:
    begin(wait(outcome, told))
    outcome.fail(ValueError(1))
    outcome.fail(ValueError(2))
    outcome.succeed()
    assert not outcome.cancel()
    await asyncio.sleep(0)
    assert told == ["error 1"]


@pytest.mark.parametrize("how", ["succeed", "fail"])
def test_what_is_known_before_anybody_waits_is_not_waited_for(how: str) -> None:
    @story
    async def tell(outcome: RelayCompletion, told: Told) -> None:
        if how == "succeed":
            outcome.succeed()
        else:
            outcome.fail(ValueError(1))
        begin(wait(outcome, told))
        assert told == ["well" if how == "succeed" else "error 1"]
        await asyncio.sleep(0)
        assert len(told) == 1

    tell()


@story
async def test_a_turn_that_is_cancelled_hears_it_there(outcome: RelayCompletion, told: Told) -> None:
    turn = begin(wait(outcome, told))
    turn.cancel()
    assert told == []
    await asyncio.sleep(0)
    assert told == ["cancelled"]


@story
async def test_once_closed_nobody_is_told_anything(outcome: RelayCompletion, told: Told) -> None:
    begin(wait(outcome, told))
    outcome.fail(ValueError(1))
    outcome.close()
    outcome.succeed()
    await asyncio.sleep(0)
    assert told == []


@pytest.mark.parametrize("how", ["succeed", "fail", "cancel", "task"])
def test_a_task_can_wait_for_it_too(how: str) -> None:
    @story
    async def tell(outcome: RelayCompletion, told: Told) -> None:
        task = asyncio.get_running_loop().create_task(wait(outcome, told))
        await asyncio.sleep(0)
        match how:
            case "succeed":
                outcome.succeed()
            case "fail":
                outcome.fail(ValueError(1))
            case "cancel":
                outcome.cancel()
            case "task":
                task.cancel()
        assert told == [], "a task is not woken within another"
        async with asyncio.timeout(3):
            await task
        assert told == [{"succeed": "well", "fail": "error 1"}.get(how, "cancelled")]

    tell()
