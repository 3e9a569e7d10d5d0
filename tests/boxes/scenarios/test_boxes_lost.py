"""Two Stokers, one of which is killed again and again: each request is answered or refused, and none hangs."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter

import pytest
from tests.scenarios.caller import Talk, errors, is_complete, story
from tests.scenarios.plane import Plane, llama, running, serve, until

from stoker_lab.testing.client import FramingError

REQUESTS = 1000
CALLERS = 12
WITHIN = 45.0
"""Seconds within which each request has to end, in whatever way."""


async def one(plane: Plane, number: int, model: str) -> str:
    """How it ended: `answered`, `refused 503`, `cut: CODE` (an error event), `lost` (its Stoker was killed)."""
    stream = bool(number % 2)
    try:
        async with asyncio.timeout(WITHIN):
            async with Talk(plane, model, f"{number} script: tokens=8 gap=0.02", stream=stream, max_tokens=4) as talk:
                head = await talk.opened()
                if head.status != 200:
                    return f"refused {head.status}"
                if not stream:
                    await talk.body(head)
                    return "answered"
                events = await talk.rest()
                if failed := errors(events, "chat"):
                    return f"cut: {failed[0]['code']}"
                return "answered" if is_complete(events, "chat") else "lost"
    except TimeoutError:
        return "hung"
    except (OSError, EOFError, FramingError):
        await asyncio.sleep(0.2)
        return "lost"


async def killer(victims: list[Plane], killed: list[str], done: asyncio.Event) -> None:
    """SIGKILL, a moment, and a new start; one after the other."""
    for number in itertools.count():
        await asyncio.sleep(0.6)
        if done.is_set():
            return
        victim = victims[number % len(victims)]
        victim.signal(signal.SIGKILL)
        await asyncio.to_thread(victim.exit_code)
        killed.append(str(victim.port))
        await asyncio.sleep(0.4)
        await asyncio.to_thread(victim.start)


async def ended(here: Plane, there: Plane, count: int) -> tuple[Counter[str], int]:
    """How so many requests ended, and how often a Stoker was killed meanwhile."""
    numbers, ends, killed, done = iter(range(count)), Counter[str](), list[str](), asyncio.Event()

    async def caller() -> None:
        for number in numbers:
            ends[await one(here, number, ("far", "both")[number // 2 % 2])] += 1

    killing = asyncio.create_task(killer([there, here], killed, done))
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    done.set()
    await killing
    return ends, len(killed)


def check(ends: Counter[str], kills: int, count: int) -> None:
    print(f"{kills} kills: {dict(ends)}")
    assert sum(ends.values()) == count
    assert not ends["hung"], ends
    assert ends["answered"] > count / 10, ends
    assert {end for end in ends if end.startswith("refused")} <= {"refused 502", "refused 503", "refused 504"}, ends


@pytest.mark.heavy
@story
async def test_a_thousand_requests_while_either_is_killed() -> None:
    with running(serve("far"), serve("both", slot="gpu1"), slots="[slots.gpu0]\n[slots.gpu1]") as there:
        far = '[[serve]]\nname = "far"\nslot = "box2:gpu0"\nparallel = 8'
        both = serve("both", slot=None, slots=["gpu0", "box2:gpu1"], replicas=2)
        box = f'[boxes.box2]\nurl = "http://127.0.0.1:{there.port}"'
        with running(box, far, both) as here:
            check(*await ended(here, there, REQUESTS), REQUESTS)
            await until(lambda: here.is_settled() and there.is_settled(), "nothing is under way")


@pytest.mark.heavy
@story
async def test_real_models_while_either_is_killed() -> None:
    with running(llama("far"), llama("both", slot="gpu1"), slots="[slots.gpu0]\n[slots.gpu1]") as there:
        far = '[[serve]]\nname = "far"\nslot = "box2:gpu0"\nparallel = 2'
        both = llama("both", slot=None, slots=["gpu0", "box2:gpu1"], replicas=2)
        box = f'[boxes.box2]\nurl = "http://127.0.0.1:{there.port}"'
        with running(box, far, both) as here:
            check(*await ended(here, there, 300), 300)
            await until(lambda: here.is_settled() and there.is_settled(), "nothing is under way")
