"""The preflight of a running serve whose answers became worse, beside its other requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from stoker.domain.lease import Target
from stoker.domain.run import Finding, Outcome, Subject
from stoker.domain.serve import Serve
from stoker.request.decide.demotion import failures

log = logging.getLogger("stoker.routing")
REST = 900.0
"""Seconds until an alarm of the same tier and class has a preflight run again: a suspect goes on to fail."""
LEFT_OUT = ("cancel", "determinism", "over-context", "even-times")
"""Gates that want a serve which nobody else uses, and the one that fills its context."""
SHORT = 4096
"""Tokens of the longest needle, where the context is long: others wait meanwhile."""
Key = tuple[str, str]
"""Tier and class."""
Rounds = Sequence[Sequence[Finding]]
Prove = Callable[[Serve, Target], Awaitable[Rounds]]
Mark = tuple[str, str]
"""Identity and execution of a fingerprint."""


class There(NamedTuple):
    """A serve that can be asked."""

    serve: Serve
    target: Target
    mark: Mark


@dataclass(slots=True)
class Wanted:
    """Of one serve."""

    keys: set[Key] = field(default_factory=set)
    tries: int = 0
    """How often it was begun."""


class Rechecks:
    """One preflight at a time. Owns its task: `stop` ends that of one serve, `close` for good.

    `find(serve)`: None: not now, it is looked for again with the next `wake`.
    `over(there, wanted, rounds)`: a preflight came to its end, be it broken off; it returns whether to begin again.
    """

    def __init__(
        self,
        find: Callable[[str], There | None],
        prove: Prove,
        over: Callable[[There, Wanted, Rounds], Awaitable[bool]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._prove = prove
        self._over = over
        self._now = now
        self._wanted: dict[str, Wanted] = {}
        self._rested: dict[tuple[str, Key], float] = {}
        """Until when an alarm of it begins nothing."""
        self._task: asyncio.Task[None] | None = None
        self._at = ""
        self._is_closed = False

    def want(self, serve: str, key: Key) -> None:
        """An alarm: as soon as the serve is there, and nobody else is asked."""
        if self._now() >= self._rested.get((serve, key), 0.0):
            self._wanted.setdefault(serve, Wanted()).keys.add(key)
            self.wake()

    def wake(self) -> None:
        """A serve may be there now."""
        if self._task is not None or self._is_closed:
            return
        for name, wanted in self._wanted.items():
            if (there := self._find(name)) is not None:
                del self._wanted[name]
                self._at = name
                self._rest(name, wanted)
                work = self._check(there, wanted)
                self._task = task = asyncio.get_running_loop().create_task(work, name=f"preflight-{name}")
                task.add_done_callback(partial(self._never_began, name, wanted))
                return

    def _never_began(self, name: str, wanted: Wanted, task: asyncio.Task[None]) -> None:
        """Cancelled before its first step, a task says nothing of what becomes of its work."""
        if self._task is not task:
            return
        self._task, self._at = None, ""
        if task.cancelled():
            self._wanted.setdefault(name, Wanted()).keys |= wanted.keys
        self.wake()

    def stop(self, serve: str) -> None:
        """It is about to go, or gone: a preflight of it goes on when it is back."""
        if self._task is not None and self._at == serve:
            self._task.cancel()

    def keep(self, is_meant: Callable[[str, Key], bool]) -> None:
        """Forget what is not meant any more; what is under way finds out by itself."""
        for name, wanted in list(self._wanted.items()):
            wanted.keys = {key for key in wanted.keys if is_meant(name, key)}
            if not wanted.keys:
                del self._wanted[name]
        self._rested = {one: until for one, until in self._rested.items() if is_meant(*one)}

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _rest(self, name: str, wanted: Wanted) -> None:
        self._rested |= dict.fromkeys(((name, key) for key in wanted.keys), self._now() + REST)

    async def _check(self, there: There, wanted: Wanted) -> None:
        name = there.serve.name
        wanted.tries += 1
        rounds: Rounds = [[Finding("preflight", Outcome.INTERRUPTED)]]
        try:
            try:
                rounds = await self._prove(there.serve, there.target)
            except asyncio.CancelledError:
                if self._is_closed:
                    raise
                _taken_back()
            except Exception:  # it may fail in ways that nobody thought of; the next alarm must find a way all the same
                log.exception("the preflight of %s broke", name)
            self._at = ""  # what is decided now is not broken off
            is_again = await self._over(there, wanted, rounds)
            self._rest(name, wanted)
            if is_again:
                later = self._wanted.setdefault(name, Wanted())
                later.keys |= wanted.keys
                later.tries = wanted.tries
        finally:
            self._task, self._at = None, ""
            self.wake()


def _taken_back() -> None:
    """The serve stopped, and not this task: it has to say what becomes of it."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


async def prove(serve: Serve, target: Target) -> Rounds:
    """Every gate that can be asked of a serve in use; those that fail, once more with other words.

    A cancel breaks it off, as the end of the serve does: `interrupted` findings say so.
    """
    await asyncio.to_thread(_load)
    from stoker.measure.preflight.run import PreflightOptions, run_preflight
    from stoker.measure.preflight.table import NAMES

    context = serve.context
    needle = SHORT if context is not None and context > 2 * SHORT else None
    asked = [name for name in NAMES if name not in LEFT_OUT]
    options = PreflightOptions(asked, needle, context, _wording(serve, target), at_once=1)
    where = f"http{'s' if target.tls else ''}://{target.host}:{target.port}{target.base_path}"
    subject = Subject(serve.name, target.served_name, where, route="direct")
    first = (await run_preflight(subject, target, options)).findings
    failed = failures(first)
    if not failed or any(one.outcome is Outcome.INTERRUPTED for one in first):
        return [first]
    return [first, (await run_preflight(subject, target, options._replace(only=failed, seed=2))).findings]


def _wording(serve: Serve, target: Target) -> str:
    """Whatever it is called here: models that know a fixed set of questions are known by their file, too."""
    from stoker.measure.preflight.wordings import ASSISTANT, wording_for

    found = (wording_for(name) for name in (target.served_name, serve.name, serve.model))
    return next((one for one in found if one is not ASSISTANT), ASSISTANT).name


def _load() -> None:
    """The gates are only read where one is asked: `stoker up` does without."""
    import stoker.measure.preflight.run  # noqa: F401
