"""The second stage of a drift alarm: the preflight is run again, and a tier that fails it is demoted.

What it decides is `request.decide.demotion`; a demotion lasts until the tier is measured again, or is another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint, Kind
from stoker.domain.tier import Demotion, Tier
from stoker.measure.artifacts import result_file
from stoker.quality.recheck import Key, Mark, Prove, Rechecks, Rounds, There, Wanted, prove
from stoker.request.decide.demotion import Next, holds, never_passed, settle, told
from stoker.routing.router import Routing
from stoker.store.demotions import Demotions, path_of

log = logging.getLogger("stoker.routing")
_LEFT = {Next.PASSED: "the preflight passes", Next.UNDECIDED: "the preflight was broken off each time"}
"""Where its answers are only checked from now on, and why."""


class Demoter:
    """Owns the preflight that is under way; `close` ends it. `note(kind, serve, text)` tells people,
    `count(tier, task_class)` is called for each demotion.
    """

    def __init__(
        self,
        state: Path,
        target: Callable[[str], Target | None],
        note: Callable[[str, str, str], None],
        prove: Prove = prove,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        count: Callable[[str, str], None] = lambda tier, task_class: None,
    ) -> None:
        self._routing: Routing | None = None
        self._state = state
        self._target = target
        self._note = note
        self._wall = wall
        self._count = count
        self._kept = Demotions(path_of(state))
        self._demoted = self._kept.read()
        self._rechecks = Rechecks(self._there, prove, self._over, now)

    def begin(self, routing: Routing | None) -> None:
        """Another configuration, or another profile: what was measured since is not asked again."""
        self._routing = routing
        self._rechecks.keep(self._is_meant)
        if routing is not None:
            routing.demoted = self._demoted

    def on_alarm(self, tier: Tier, task_class: str) -> None:
        """1. demoted already  2. no preflight of a cloud, which costs, or of what speaks no chat  3. one is wanted"""
        routing = self._routing
        serve, key = None if routing is None else routing.serve(tier), (tier.name, task_class)
        if serve is None or self._holds(key, tier):
            return  # 1
        if tier.cloud or serve.translation.cloud:
            self._tell(serve.name, key, "there is no preflight of a cloud, which costs")  # 2
        elif Dialect.CHAT not in serve.dialects:
            self._tell(serve.name, key, "there is no preflight of what speaks no chat")
        else:
            self._rechecks.want(serve.name, key)  # 3

    def on_known(self, serve: str) -> None:
        """It runs, and was looked at."""
        self._rechecks.wake()

    def on_stopped(self, serve: str) -> None:
        self._rechecks.stop(serve)

    async def close(self) -> None:
        await self._rechecks.close()

    def _there(self, name: str) -> There | None:
        routing, target, mark = self._routing, self._target(name), self._mark(name)
        if routing is None or target is None or mark is None or name not in routing.live:
            return None
        serve = next((routing.serve(tier) for tier in routing.router.tiers if tier.serve == name), None)
        return None if serve is None else There(serve, target, mark)

    def _is_meant(self, name: str, key: Key) -> bool:
        """Still suspect, and that serve's."""
        routing = self._routing
        tier = None if routing is None else routing.tier(key[0])
        return routing is not None and tier is not None and tier.serve == name and key in routing.suspects

    def _holds(self, key: Key, tier: Tier) -> bool:
        routing, demotion = self._routing, self._demoted.get(key)
        if routing is None or demotion is None:
            return False
        return holds(demotion, routing.rows.get(key), routing.fingerprints.get(tier.serve))

    async def _over(self, there: There, wanted: Wanted, rounds: Rounds) -> bool:
        """What the preflight says of each tier and class that it was wanted for. Whether to begin again."""
        name, ends = there.serve.name, set()
        never = await asyncio.to_thread(self._never_passed, there)
        for key in sorted(wanted.keys):
            is_same = self._is_meant(name, key) and self._mark(name) == there.mark
            after, checks = settle(rounds, wanted.tries, is_same, never)
            ends.add(after)
            if after is Next.DEMOTE:
                self._demote(name, key, there.mark, checks)
            elif after in _LEFT:
                self._tell(name, key, _LEFT[after])
        if Next.DEMOTE in ends:
            try:
                await asyncio.to_thread(self._kept.write, list(self._demoted.values()))
            except OSError as error:
                log.warning("%s cannot be written (%s): it holds until Stoker ends", self._kept.path, error.strerror)
        return Next.AGAIN in ends

    def _never_passed(self, there: There) -> frozenset[str]:
        """By the preflights that were kept of just this: what it could not do before is no news. Reads files."""
        runs = []
        for path in result_file.results_of(self._state).glob(f"*-{Kind.PREFLIGHT.value}-*{result_file.ENDING}"):
            with contextlib.suppress(StokerError):  # one that is broken says nothing
                run = result_file.load(path)
                if run.subject.serve == there.serve.name and mark_of(run.subject.fingerprint) == there.mark:
                    runs.append(run.findings)
        return never_passed(runs) if there.mark[0] else frozenset()

    def _demote(self, name: str, key: Key, mark: Mark, checks: tuple[str, ...]) -> None:
        assert self._routing is not None, "it is still meant"
        measured = self._routing.rows[key].at
        self._demoted[key] = Demotion(*key, *mark, measured, checks, self._wall())
        self._count(*key)
        self._note("demoted", name, f"{_at(key)}: {told(checks)}: `stoker eval calibrate {key[0]}` measures it again")

    def _tell(self, name: str, key: Key, why: str) -> None:
        self._note("drift", name, f"{_at(key)}: {why}: `stoker eval calibrate {key[0]}` settles it")

    def _mark(self, name: str) -> Mark | None:
        found = None if self._routing is None else self._routing.fingerprints.get(name)
        return None if found is None else mark_of(found)


def mark_of(found: Fingerprint) -> Mark:
    """What two of the same have in common; `parts` are for people."""
    return found.identity, found.execution


def _at(key: Key) -> str:
    return f"tier {key[0]} at {key[1]}"
