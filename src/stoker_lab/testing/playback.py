"""Sends one reply over a connection: at its pace, with its faults."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from stoker_lab.testing.reply_plan import ReplyPlan
from stoker_lab.testing.script.framing import split
from stoker_lab.testing.script.script import Script


class Sink(Protocol):
    """What a reply needs of the connection."""

    is_paused: bool

    def write(self, data: bytes) -> None: ...

    def reply_ended(self, how: str, *, close: bool) -> None:
        """The reply is over: `how` is `finished` or `broken`; `close` closes the connection."""

    def reset(self) -> None:
        """Breaks the connection with a TCP reset."""


class Playback:
    """One timer at a time, no task: a thousand of these are cheap.

    The order is: wait `first_event_after`, opening, then the steps. Before each step the faults are checked, in this
    order: die, stall, error event. After the last step the frame is ended and `reply_ended` called. `stop` may be
    called at any time; nothing is written after it.
    """

    def __init__(self, sink: Sink, plan: ReplyPlan, script: Script) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._plan = plan
        self._script = script
        self._die_at = plan.fault(script.die_after)
        self._stall_at = plan.fault(script.stall_after)
        self._error_at = script.error_event_after if plan.is_stream else None
        if self._error_at is not None:
            self._error_at = max(self._error_at, 0)
        self._stops = sorted(at for at in (self._die_at, self._stall_at, self._error_at) if at is not None)
        self._pending = plan.head
        """Bytes for the next write."""
        self._done = 0
        self._due = 0.0
        self._cut: deque[bytes] = deque()
        self._timer: asyncio.Handle | None = None
        self._is_held = False

    def start(self) -> None:
        script = self._script
        self._due = self._loop.time() + script.first_event_after
        if -1 in (self._die_at, self._stall_at):
            self._at(self._due, self._before_the_head)
        elif script.role_first:
            self._open(lambda: self._at(self._due, self._step))
        elif script.early_head:
            self._flush(lambda: self._at(self._due, lambda: self._open(self._soon)))
        elif script.first_event_after:
            self._at(self._due, lambda: self._open(self._soon))
        else:
            self._open(self._soon)

    def stop(self) -> None:
        self._done = -1
        if self._timer is not None:
            self._timer.cancel()

    def resume(self) -> None:
        """Called when the client reads again."""
        if self._is_held:
            self._is_held = False
            self._step()

    # -- in order ------------------------------------------------------------------------------------------------

    def _before_the_head(self) -> None:
        if self._die_at == -1:
            self._pending = b""
            self._die()

    def _open(self, then: Callable[[], None]) -> None:
        opening = self._plan.opening
        if opening:
            self._send(self._plan.wrapper.wrap(opening), then)
        elif self._script.role_first:
            self._flush(then)
        else:
            then()

    def _soon(self) -> None:
        self._timer = self._loop.call_soon(self._step)

    def _step(self) -> None:
        if self._sink.is_paused:
            self._is_held = True
            return
        at, plan = self._done, self._plan
        if at == self._die_at:
            self._flush(self._die)
        elif at == self._stall_at:
            self._flush(_nothing_more)
        elif at == self._error_at:
            self._send(plan.wrapper.wrap(plan.error), self._finish)
        elif at >= plan.steps:
            self._finish()
        else:
            self._done = at + self._batch(at)
            body = plan.unit(at) if self._done == at + 1 else b"".join(map(plan.unit, range(at, self._done)))
            self._send(plan.wrapper.wrap(body), self._next)

    def _batch(self, at: int) -> int:
        """How many steps are written together: never past a fault, never closing events."""
        size = self._script.events_per_write
        if size == 1 or at >= self._plan.tokens:
            return 1
        return min(size, self._plan.tokens - at, *(stop - at for stop in self._stops if stop > at))

    def _next(self) -> None:
        if self._script.gap and self._done < self._plan.tokens:
            self._due += self._script.gap
            self._at(self._due, self._step)
        else:
            self._soon()

    def _finish(self) -> None:
        self._send(self._plan.wrapper.end(), self._finished)

    def _finished(self) -> None:
        self._sink.reply_ended("finished", close=self._plan.close)

    def _die(self) -> None:
        if self._script.die_how == "reset":
            self._sink.reset()
        elif self._script.die_how == "end":
            self._send(self._plan.wrapper.end(), self._ended_early)
        else:
            self._sink.reply_ended("broken", close=True)

    def _ended_early(self) -> None:
        # without chunks the reply is shorter than its head says (or has no length): only a close can end it
        self._sink.reply_ended("broken", close=self._plan.close or not self._plan.is_chunked)

    # -- writing -------------------------------------------------------------------------------------------------

    def _at(self, when: float, call: Callable[[], None]) -> None:
        self._timer = self._loop.call_at(when, call) if when > self._loop.time() else self._loop.call_soon(call)

    def _flush(self, then: Callable[[], None]) -> None:
        self._send(b"", then)

    def _send(self, wire: bytes, then: Callable[[], None]) -> None:
        if self._pending:
            self._pending, wire = b"", self._pending + wire
        if not wire:
            then()
        elif self._script.split:
            self._cut.extend(split(wire, self._script.split))
            self._drip(then)
        else:
            self._sink.write(wire)
            then()

    def _drip(self, then: Callable[[], None]) -> None:
        if self._done < 0:
            return
        self._sink.write(self._cut.popleft())
        if self._cut:
            self._timer = self._loop.call_later(self._script.split_gap, self._drip, then)
        else:
            then()


def _nothing_more() -> None:
    """A stall: no timer is left, the client's leaving ends it."""
