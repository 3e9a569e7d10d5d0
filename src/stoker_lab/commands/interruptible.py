"""Runs a measurement so that Ctrl-C and SIGTERM end it in order, and say how it goes on."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from stoker.cli.console.errors import Interrupted

T = TypeVar("T")


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end. Ctrl-C and SIGTERM cancel it, and both raise KeyboardInterrupt when it has cleaned up: a shell
    without job control has its background children ignore the first.
    """
    import asyncio  # `stoker --help` does without

    async def whole() -> T:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(whole())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@contextmanager
def say_how_to_go_on(kept: str, command: str) -> Iterator[None]:
    """`kept`: what is kept if the work inside is interrupted. Raises Interrupted instead of KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {kept}; to go on: {command}") from None


def as_typed(command: str, names: Sequence[str], options: Mapping[str, object]) -> str:
    """`stoker COMMAND NAME... --option value`, without the options that were not given."""
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    return shlex.join(["stoker", *command.split(), *names, *words])
