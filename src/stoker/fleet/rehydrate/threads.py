"""Runs blocking work in a thread that stops when its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work(stop)` in a thread; what it raises is raised here.

    On cancel `stop` is set, and CancelledError leaves this call when the thread has ended: `work` has to check `stop`.
    """
    stop = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # the caller was cancelled: nobody reads it
        raise
