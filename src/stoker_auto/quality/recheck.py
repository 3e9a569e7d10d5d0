"""Runs the preflight of a serve whose answers became worse, beside its other requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from stoker.domain.host_port import host_port
from stoker.domain.lease import Target
from stoker.domain.run import Finding, Outcome, Subject
from stoker.domain.serve import Serve, ServeIdentity
from stoker_auto.decide.demotion import failures

log = logging.getLogger("stoker.routing")
RECHECK_COOLDOWN = 900.0
"""Seconds until an alarm about the same tier and class may start a preflight again: a suspect keeps failing."""
LEFT_OUT = (
    "cancel", "determinism", "over-context", "even-times", "tool-descriptions", "logprobs", "ids", "embeddings",
)  # fmt: skip
"""Gates that need a serve without other requests, the one that fills its context, and those that say nothing of how
good its answers are."""
MAX_NEEDLE = 4096
"""Tokens of the longest needle in a long context: other requests wait meanwhile."""
Key = tuple[str, str]
"""Tier and class."""
Rounds = Sequence[Sequence[Finding]]
Prove = Callable[[Serve, Target], Awaitable[Rounds]]
FingerprintKey = tuple[str, str]
"""Identity and execution of a fingerprint."""


class VerifiedServe(NamedTuple):
    serve: Serve
    target: Target
    fingerprint: FingerprintKey


@dataclass(slots=True)
class PendingRecheck:
    """The preflight that one serve waits for."""

    keys: set[Key] = field(default_factory=set)
    tries: int = 0


class Rechecks:
    """Runs one preflight at a time and owns its task. `stop` breaks off that of one serve, `close` ends all for good.

    `find(serve)`: the serve if it can be asked now; after None it is looked for again at the next `wake`.
    `on_checked(running, pending, rounds)`: a preflight ended or was broken off; returns whether to run it again.
    """

    def __init__(
        self,
        find: Callable[[str], VerifiedServe | None],
        prove: Prove,
        on_checked: Callable[[VerifiedServe, PendingRecheck, Rounds], Awaitable[bool]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._prove = prove
        self._on_checked = on_checked
        self._now = now
        self._pending: dict[str, PendingRecheck] = {}
        self._cooling: dict[tuple[str, Key], float] = {}
        """Until when an alarm about a tier and class starts no preflight."""
        self._task: asyncio.Task[None] | None = None
        self._serve = ""
        self._is_closed = False

    def want(self, serve: str, key: Key) -> None:
        """An alarm was raised: recheck as soon as the serve runs and no other preflight does."""
        if self._now() >= self._cooling.get((serve, key), 0.0):
            self._pending.setdefault(serve, PendingRecheck()).keys.add(key)
            self.wake()

    def wake(self) -> None:
        """A serve may have become ready: start the next preflight, if none runs."""
        if self._task is not None or self._is_closed:
            return
        for name, pending in self._pending.items():
            if (running := self._find(name)) is not None:
                del self._pending[name]
                self._serve = name
                self._cool_down(name, pending)
                work = self._check(running, pending)
                self._task = task = asyncio.get_running_loop().create_task(work, name=f"preflight-{name}")
                task.add_done_callback(partial(self._never_began, name, pending))
                return

    def _never_began(self, name: str, pending: PendingRecheck, task: asyncio.Task[None]) -> None:
        """A task that was cancelled before its first step never ran its clean-up: do it here."""
        if self._task is not task:
            return
        self._task, self._serve = None, ""
        if task.cancelled():
            self._pending.setdefault(name, PendingRecheck()).keys |= pending.keys
        self.wake()

    def stop(self, serve: str) -> None:
        """The serve stops or has stopped: its preflight runs again when it is back."""
        if self._task is not None and self._serve == serve:
            self._task.cancel()

    def keep(self, is_needed: Callable[[str, Key], bool]) -> None:
        """Forget rechecks that are no longer needed; the one that runs finds out by itself."""
        for name, pending in list(self._pending.items()):
            pending.keys = {key for key in pending.keys if is_needed(name, key)}
            if not pending.keys:
                del self._pending[name]
        self._cooling = {one: until for one, until in self._cooling.items() if is_needed(*one)}

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _cool_down(self, name: str, pending: PendingRecheck) -> None:
        self._cooling |= dict.fromkeys(((name, key) for key in pending.keys), self._now() + RECHECK_COOLDOWN)

    async def _check(self, running: VerifiedServe, pending: PendingRecheck) -> None:
        name = running.serve.name
        pending.tries += 1
        rounds: Rounds = [[Finding("preflight", Outcome.INTERRUPTED)]]
        try:
            try:
                rounds = await self._prove(running.serve, running.target)
            except asyncio.CancelledError:
                if self._is_closed:
                    raise
                _undo_cancel()
            except Exception:  # whatever failed, the next alarm must still be able to run one
                log.exception("the preflight of %s failed inside Stoker", name)
            self._serve = ""  # from here on the preflight cannot be broken off any more
            runs_again = await self._on_checked(running, pending, rounds)
            self._cool_down(name, pending)
            if runs_again:
                later = self._pending.setdefault(name, PendingRecheck())
                later.keys |= pending.keys
                later.tries = pending.tries
        finally:
            self._task, self._serve = None, ""
            self.wake()


def _undo_cancel() -> None:
    """The serve stopped, not this task: it still has to report."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


async def prove(serve: Serve, target: Target) -> Rounds:
    """Run every gate that a serve in use can be asked; then those that failed once more, in other words.

    A cancel breaks it off, as the end of the serve does: the findings then say `interrupted`.
    """
    await asyncio.to_thread(_load)
    from stoker_lab.preflight.run import PreflightOptions, run_preflight
    from stoker_lab.preflight.table import NAMES

    context = serve.context
    needle = MAX_NEEDLE if context is not None and context > 2 * MAX_NEEDLE else None
    asked = [name for name in NAMES if name not in LEFT_OUT]
    lists_models = serve.identity is not ServeIdentity.NONE
    options = PreflightOptions(
        asked, needle, context, _wording(serve, target), concurrency=1, lists_models=lists_models
    )
    where = f"http{'s' if target.tls else ''}://{host_port(target.host, target.port)}{target.base_path}"
    subject = Subject(serve.name, target.served_name, where, route="direct")
    first = (await run_preflight(subject, target, options)).findings
    failed = failures(first)
    if not failed or any(one.outcome is Outcome.INTERRUPTED for one in first):
        return [first]
    return [first, (await run_preflight(subject, target, options._replace(only=failed, seed=2))).findings]


def _wording(serve: Serve, target: Target) -> str:
    """The set of questions for the model: small test models, found by any of their names, know only their own set."""
    from stoker_lab.preflight.wordings import wording_for

    return wording_for(target.served_name, serve.name, serve.model).name


def _load() -> None:
    """Import the gates only when a preflight runs: `stoker up` starts without them."""
    import stoker_lab.preflight.run  # noqa: F401
