"""A lease is given back on every path: above all if the wait is cancelled in the moment of its grant."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stoker.domain.errors import CapacityError
from stoker.domain.lease import Lease
from stoker.domain.serve import Serve
from stoker.exchange.leasing import granted, leased
from stoker.fleet.swapping.conductor import Conductor
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.fleet import FakeFleet

ONE = Serve("one", parallel=1, max_active=1, queue_timeout=60.0)


def told(story: Callable[[Conductor], Awaitable[None]]) -> Callable[[], None]:
    """Runs a story on a conductor whose serve `one` is up, and holds that nothing is left of it."""

    def run() -> None:
        async def played() -> None:
            conductor = Conductor([], [ONE], FakeFleet({"one": 1}), FakeClock())
            async with leased(conductor, "one"):
                pass
            async with asyncio.timeout(5):
                await story(conductor)
            await asyncio.sleep(0)
            assert conductor.statistics()["leases"] == conductor.statistics()["waiting"] == 0

        asyncio.run(played())

    run.__doc__ = story.__doc__
    return run


async def held(conductor: Conductor) -> Lease:
    got = conductor.acquire("one")
    assert isinstance(got, Lease)
    return got


@told
async def test_a_wait_cancelled_in_the_moment_of_its_grant_keeps_no_lease(conductor: Conductor) -> None:
    first = await held(conductor)
    pending = conductor.acquire("one")
    assert not isinstance(pending, Lease)
    waiter = asyncio.get_running_loop().create_task(granted(pending))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    first.release()
    assert pending.done()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter


@told
async def test_a_block_cancelled_in_the_moment_of_its_grant_keeps_no_lease(conductor: Conductor) -> None:
    first = await held(conductor)

    async def asking() -> None:
        async with leased(conductor, "one"):
            pytest.fail("it was cancelled before")

    asker = asyncio.get_running_loop().create_task(asking())
    await asyncio.sleep(0)
    first.release()
    asker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asker


@told
async def test_a_wait_that_is_cancelled_gives_its_place_in_the_queue_back(conductor: Conductor) -> None:
    first = await held(conductor)
    with pytest.raises(TimeoutError):
        async with leased(conductor, "one", timeout=0.01):
            pytest.fail("there was no place")
    assert conductor.statistics()["waiting"] == 0
    first.release()


@told
async def test_who_may_not_wait_is_told_that_no_place_is_free(conductor: Conductor) -> None:
    first = await held(conductor)
    with pytest.raises(CapacityError, match="serve 'one' is busy: no place is free"):
        async with leased(conductor, "one", may_wait=False):
            pytest.fail("there was no place")
    first.release()


@told
async def test_a_block_that_raises_gives_its_lease_back(conductor: Conductor) -> None:
    with pytest.raises(KeyError):
        async with leased(conductor, "one"):
            raise KeyError


@told
async def test_a_lease_that_yields_ends_as_soon_as_somebody_waits(conductor: Conductor) -> None:
    inside = asyncio.Event()

    async def asking() -> None:
        async with leased(conductor, "one", preemptible=True):
            inside.set()
            await asyncio.sleep(60)

    asker = asyncio.get_running_loop().create_task(asking())
    await inside.wait()
    async with leased(conductor, "one"):
        with pytest.raises(CapacityError, match="taken away"):
            await asker


@told
async def test_a_lease_that_is_cut_twice_in_one_moment_breaks_nothing_outside(conductor: Conductor) -> None:
    loop = asyncio.get_running_loop()

    async def cut_twice() -> None:
        async with leased(conductor, "one", timeout=60.0) as lease:
            cut = lease.on_cut
            assert cut is not None
            cut("drain")
            loop.call_soon(cut, "and again, now that its time is over")
            await asyncio.sleep(60)

    with broken_callbacks(loop) as broken:
        with pytest.raises(CapacityError, match="taken away"):
            await cut_twice()
        await asyncio.sleep(0)
    assert not broken


@contextmanager
def broken_callbacks(loop: asyncio.AbstractEventLoop) -> Iterator[list[dict[str, Any]]]:
    broken: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: broken.append(context))
    yield broken
    loop.set_exception_handler(None)
