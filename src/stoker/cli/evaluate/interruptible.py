"""Runs a measurement so that Ctrl-C and SIGTERM end it in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end. Ctrl-C and SIGTERM cancel it, and both raise KeyboardInterrupt when it has cleaned up: a shell
    without job control has its background children ignore the first."""

    async def whole() -> T:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(whole())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
