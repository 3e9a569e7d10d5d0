"""Questions of Stoker's own to a running serve, one after the other, with a progress line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from stoker.cli.console.errors import RequestRefused
from stoker.cli.console.progress import ProgressLine
from stoker_lab.commands.interruptible import run_interruptible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stoker.exchange.internal_client import InternalClient
    from stoker_lab.commands.running_serve import RunningServe

Q = TypeVar("Q")
R = TypeVar("R")
PATIENCE = 60.0
"""Seconds for one answer."""
GIVE_UP = 5
"""Questions in a row to which no answer came at all."""


def ask_each(
    known: RunningServe,
    questions: Sequence[Q],
    ask: Callable[[InternalClient, Q], Awaitable[R]],
    keep: Callable[[Q, R | None, float], None],
    label: str,
    timeout: float,
) -> None:
    """`keep(question, answer, seconds)` gets each answer as it comes; None: none came in time, or the serve refused
    this question. One that failed otherwise is left out. Raises RequestRefused if the serve does not answer, and
    KeyboardInterrupt on Ctrl-C.
    """
    with ProgressLine() as line:

        def show(done: int, spent: float) -> None:
            line.show(f"{known.serve.name}: {label}", done / len(questions), spent / done * (len(questions) - done))

        run_interruptible(_ask_each(known, questions, ask, keep, show, timeout))


async def _ask_each(
    known: RunningServe,
    questions: Sequence[Q],
    ask: Callable[[InternalClient, Q], Awaitable[R]],
    keep: Callable[[Q, R | None, float], None],
    show: Callable[[int, float], None],
    timeout: float,
) -> None:
    """Through the front door, as the running Stoker asks."""
    import secrets

    from stoker.domain.errors import ClientError, StokerError
    from stoker.exchange.formatter import Formatter
    from stoker.exchange.internal_client import InternalClient
    from stoker.request.relay.pool import ConnectionPool
    from stoker.request.translate.neutral.thinking import ThinkingSigner

    pool, began, misses = ConnectionPool(), time.perf_counter(), 0
    refused: list[tuple[Q, float]] = []
    """Since the last answer: where every question is refused, it is not the questions."""

    def keep_refused() -> None:
        for question, seconds in refused:
            keep(question, None, seconds)
        refused.clear()

    client = InternalClient(pool, Formatter(ThinkingSigner((secrets.token_bytes(32),)), time.time))
    try:
        for done, question in enumerate(questions, 1):
            start, answer = time.perf_counter(), None
            try:
                answer = await ask(client, question)
                misses = 0
            except (StokerError, TimeoutError) as error:
                misses += 1
                reason = error.message if isinstance(error, StokerError) else f"no answer within {timeout:g} s"
                if misses == GIVE_UP:
                    raise RequestRefused(f"serve '{known.serve.name}' does not answer: {reason}") from error
                if isinstance(error, ClientError):
                    refused.append((question, round(time.perf_counter() - start, 6)))
                if isinstance(error, StokerError):
                    continue
            now = time.perf_counter()
            keep_refused()
            keep(question, answer, round(now - start, 6))
            show(done, now - began)
        keep_refused()
    finally:
        pool.close()
