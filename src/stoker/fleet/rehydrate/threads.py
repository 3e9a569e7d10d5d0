"""Runs blocking work in a thread that stops when its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from stoker.blocking import in_own_thread

T = TypeVar("T")
STOPS_WITHIN = 5.0
"""Seconds until a thread that does not stop is left behind: it waits for a file system that does not answer."""


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work(stop)` in a thread; what it raises is raised here.

    On cancel `stop` is set, and CancelledError leaves this call when the thread has ended, or after STOPS_WITHIN:
    `work` has to check `stop`.
    """
    stop, loop = threading.Event(), asyncio.get_running_loop()
    running = loop.create_task(in_own_thread(partial(work, stop)), name="file-thread")
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        until = loop.time() + STOPS_WITHIN
        while not running.done() and (left := until - loop.time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running], timeout=left)
        if not running.done():
            running.cancel()
        elif not running.cancelled():
            running.exception()  # the caller was cancelled: nobody reads it
        raise
