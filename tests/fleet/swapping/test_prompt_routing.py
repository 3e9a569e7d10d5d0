"""A conversation goes on with the replica that has it in its cache, unless that one has too much to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.domain.lease import Lease
from stoker.domain.prompt_chain import PromptChain
from stoker.domain.replica_wish import ReplicaWish
from stoker.domain.serve import Serve, Slot, SwapPolicy, replicas_of
from stoker.domain.usage import ServeUsage
from stoker.fleet.swapping.conductor import Conductor
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.fleet import FakeFleet

FAST = Serve("fast", slot="gpu0", slots=("gpu0", "gpu1"), replicas=2, max_active=4)
POLICY = SwapPolicy(min_residency=0.0, linger=0.0)


def prompt(*blocks: str) -> PromptChain:
    hashes = tuple(hash(blocks[: n + 1]) for n in range(len(blocks)))
    return PromptChain(hashes, tuple(10_000 * (n + 1) for n in range(len(blocks))))


async def both_ready() -> Conductor:
    conductor = Conductor(
        [Slot("gpu0", swap=POLICY), Slot("gpu1", swap=POLICY)], replicas_of(FAST), FakeFleet(), FakeClock()
    )
    await conductor.switch("fast@gpu0")
    await conductor.switch("fast@gpu1")
    assert conductor.has_choice("fast")
    return conductor


async def asked(conductor: Conductor, chain: PromptChain | None) -> Lease:
    got = conductor.acquire("fast", wish=ReplicaWish(chain))
    return got if isinstance(got, Lease) else await got


async def answered(conductor: Conductor, chain: PromptChain, cached: int | None = None) -> str:
    """Which replica answered. `cached`: of 100 tokens, how many its engine says were in its cache."""
    lease = await asked(conductor, chain)
    lease.usage = ServeUsage(lease.serve, 100, 1, cached)
    lease.release()
    return lease.serve


def story(tell: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(tell())

    run.__name__, run.__doc__ = tell.__name__, tell.__doc__
    return run


@story
async def test_conversations_stay_where_they_are() -> None:
    conductor = await both_ready()
    first = await asked(conductor, prompt("system", "a"))
    second = await asked(conductor, prompt("system", "b"))
    assert {first.serve, second.serve} == {"fast@gpu0", "fast@gpu1"}
    first.release()
    second.release()
    for turn in range(5):
        assert await answered(conductor, prompt("system", "b", *"xyzuv"[:turn])) == second.serve
        assert await answered(conductor, prompt("system", "a", *"xyzuv"[:turn])) == first.serve


@story
async def test_a_new_conversation_goes_where_less_is_under_way() -> None:
    conductor = await both_ready()
    first = await asked(conductor, prompt("system", "a"))
    assert await answered(conductor, prompt("other")) != first.serve


@story
async def test_a_replica_that_was_started_again_has_an_empty_cache() -> None:
    conductor = await both_ready()
    home = await answered(conductor, prompt("a", "b"))
    other = ({"fast@gpu0", "fast@gpu1"} - {home}).pop()
    assert await answered(conductor, prompt("a", "b", "c")) == home
    await conductor.unload(home)
    assert await answered(conductor, prompt("a", "b", "c", "d")) == other
    await conductor.switch(home)
    assert await answered(conductor, prompt("a", "b", "c", "d", "e")) == other


@story
async def test_an_engine_that_says_it_had_nothing_in_its_cache_is_believed() -> None:
    conductor = await both_ready()
    home = await answered(conductor, prompt("a"))
    busy = await asked(conductor, None)
    assert busy.serve == home == "fast@gpu0"
    assert await answered(conductor, prompt("c"), cached=0) == "fast@gpu1"
    assert await answered(conductor, prompt("b"), cached=0) == "fast@gpu1"
    busy.release()
    assert await answered(conductor, prompt("b", "more"), cached=0) == "fast@gpu1"
    assert await answered(conductor, prompt("c", "more"), cached=90) == "fast@gpu0", (
        "what was sent before was lost, too"
    )


@story
async def test_nothing_is_left_of_a_request_that_leaves_or_is_cut() -> None:
    conductor = await both_ready()
    leases = [await asked(conductor, prompt(str(number))) for number in range(8)]
    waiting = conductor.acquire("fast", wish=ReplicaWish(prompt("waits")))
    assert isinstance(waiting, asyncio.Future)
    waiting.cancel()
    await asyncio.sleep(0)
    leases[0].release()
    await conductor.switch("fast@gpu0")
    await conductor.unload("fast@gpu0", 0.0)
    for lease in leases:
        lease.release()
    assert conductor.statistics() == {"waiting": 0, "leases": 0, "swaps": 0}
    assert not conductor.has_choice("fast")
