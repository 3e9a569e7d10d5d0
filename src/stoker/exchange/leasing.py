"""Take a lease, wait for one, give it back: the only place where that is written.

`leases.acquire` returns at once: a lease, or a position in the queue. A waiter may be cancelled at the very moment when
its lease is granted; code that awaits the position directly would then never release that lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from stoker.domain.errors import CapacityError
from stoker.domain.lease import Lease, PendingLease
from stoker.domain.protocols import Leases
from stoker.domain.usage import ServeUsage


async def granted(pending: PendingLease) -> Lease:
    """The lease, once it is granted. Raises what the wait was ended with.

    On cancel: the position in the queue is given up; a lease that was granted at that moment is released.
    """
    try:
        return await pending
    except asyncio.CancelledError:
        if pending.done() and not pending.cancelled() and pending.exception() is None:
            pending.result().release()
        raise


@asynccontextmanager
async def leased(
    leases: Leases,
    serve: str,
    *,
    may_wait: bool = True,
    timeout: float | None = None,
    preemptible: bool = False,
    on_usage: Callable[[ServeUsage], None] | None = None,
) -> AsyncIterator[Lease]:
    """Hold a lease of `serve` for the block, and for `timeout` seconds at most, the wait included (None: no limit).

    `may_wait`: queue for a place if none is free. `preemptible`: give the lease up as soon as another request
    needs its place. `on_usage` gets what was used: the time on the slot, and the tokens if the block has put them into
    the lease's `usage`. Raises CapacityError `busy` if no place is free or the lease is taken away, TimeoutError when
    the time is over, and the error that ends the wait. On cancel: the lease, or the position in the queue, is given
    back.
    """
    is_cut = False

    def cut(reason: str) -> None:
        nonlocal is_cut
        is_cut = True
        with suppress(RuntimeError):  # the time ran out at the same moment
            limit.reschedule(0.0)

    try:
        async with asyncio.timeout(timeout) as limit:
            lease = await _acquire(leases, serve, may_wait)
            lease.on_cut = cut
            lease.usage = ServeUsage(serve)
            try:
                if preemptible:
                    leases.allow_preemption(lease)
                yield lease
            finally:
                lease.release()
                if on_usage is not None:
                    on_usage(lease.usage)
    except TimeoutError:
        if is_cut:
            raise busy(serve, "its lease was taken away") from None
        raise


async def _acquire(leases: Leases, serve: str, may_wait: bool) -> Lease:
    got = leases.acquire(serve)
    if isinstance(got, Lease):
        return got
    if not may_wait:
        got.cancel()
        raise busy(serve, "no place is free")
    return await granted(got)


def busy(serve: str, why: str) -> CapacityError:
    return CapacityError(f"serve '{serve}' is busy: {why}", code="busy")
