"""Work that may block for ever, in a thread of its own.

Opening a file on a mount whose server is gone cannot be interrupted. In a thread pool it would take one of a few
threads, which the whole program shares and waits for at its end. A thread of its own is left behind instead: nothing
waits for it, and it ends when the mount is back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

T = TypeVar("T")
AT_ONCE: Final = 0.1
_left_behind: set[str] = set()
_lock = threading.Lock()


class StillBlocked(TimeoutError):
    """Such work was begun before, and has not ended since."""


async def in_own_thread(work: Callable[[], T], subject: str = "") -> T:
    """What `work` returns or raises. On cancel, and on a time limit, the thread is left behind.

    `subject`: what is read. Raises StillBlocked at once while a thread with the same subject is left behind: however
    often a file is asked for that cannot be opened, it costs one thread. Empty: such work has no subject.
    """
    if subject and subject in _left_behind:
        raise StillBlocked(f"{subject} could not be read before, and still blocks")
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    is_over = False

    def succeed(value: T) -> None:
        if not outcome.done():
            outcome.set_result(value)

    def fail(error: BaseException) -> None:
        if not outcome.done():
            outcome.set_exception(error)

    def run() -> None:
        nonlocal is_over
        with suppress(RuntimeError):  # the loop is closed
            try:
                value = work()
            except Exception as error:
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(succeed, value)
        with _lock:
            is_over = True
            _left_behind.discard(subject)

    threading.Thread(target=run, name="stoker-blocking", daemon=True).start()
    try:
        return await outcome
    except asyncio.CancelledError:
        with _lock:
            if subject and not is_over:
                _left_behind.add(subject)
        raise


def at_once(work: Callable[[], T], subject: str) -> T:
    """As `in_own_thread`, for callers on the event loop that cannot await: it stands still for AT_ONCE seconds at most.
    Raises StillBlocked then, and at once from then on until that thread ends.
    """
    return waited_for(work, subject, AT_ONCE)


def waited_for(work: Callable[[], T], subject: str, seconds: float) -> T:
    """As `at_once`, for callers beside the event loop."""
    [outcome] = each_waited_for([(subject, work)], seconds)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def each_waited_for(works: Sequence[tuple[str, Callable[[], T]]], seconds: float) -> list[T | Exception]:
    """What each piece of work returns or raises, in order, with the subject of each. One thread does them all; what
    takes longer than `seconds` is StillBlocked, and another thread goes on behind it. Raises nothing.
    """
    found: list[T | Exception] = []
    while len(found) < len(works):
        subject = works[len(found)][0]
        if subject in _left_behind:
            found.append(StillBlocked(f"{subject} could not be read before, and still blocks"))
        else:
            found += _until_one_blocks(works[len(found) :], seconds)
    return found


def _until_one_blocks(works: Sequence[tuple[str, Callable[[], T]]], seconds: float) -> list[T | Exception]:
    """Those that were done, in order, and StillBlocked for the first that blocks, or ends before one that is known to
    block. At least one.
    """
    done: list[T | Exception] = []
    is_over = threading.Event()
    is_left_behind = False

    def run() -> None:
        for subject, work in works:
            if done and subject in _left_behind:
                break
            try:
                outcome: T | Exception = work()
            except Exception as error:
                outcome = error
            with _lock:
                if is_left_behind:
                    _left_behind.discard(subject)
                    return
                done.append(outcome)
        is_over.set()

    threading.Thread(target=run, name="stoker-blocking", daemon=True).start()
    before = 0
    while not is_over.wait(seconds):
        with _lock:
            if before < len(done):  # it goes on
                before = len(done)
            elif before < len(works):
                is_left_behind = True
                subject = works[before][0]
                _left_behind.add(subject)
                return [*done, StillBlocked(f"{subject} could not be read within {seconds:g} s")]
    return done
