"""The second stage of a drift alarm: the preflight runs again, and a tier that fails it is demoted.

The decision is `request.decide.demotion`. A demotion lasts until the tier is measured again, or is another model.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.lease import Target
from stoker.domain.protocols import Clock
from stoker.domain.run import Fingerprint, RunKind
from stoker.domain.tier import Demotion, Tier
from stoker_auto.decide.demotion import DemotionOutcome, demotion_outcome, describe_demotion, never_passed
from stoker_auto.quality.demotions_file import Demotions, path_of
from stoker_auto.quality.recheck import (
    FingerprintKey,
    Key,
    PendingRecheck,
    Prove,
    Rechecks,
    Rounds,
    VerifiedServe,
    prove,
)
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.artifacts import result_file

log = logging.getLogger("stoker.routing")
_NOT_DEMOTED = {
    DemotionOutcome.PASSED: "the preflight passes",
    DemotionOutcome.UNDECIDED: "the preflight was interrupted each time",
}
"""Why a tier is not demoted, although its answers are verified from now on."""


@dataclass(frozen=True, slots=True)
class Reports:
    """Who hears of alarms and demotions."""

    note: Callable[[str, str, str], None] = lambda kind, serve, text: None
    """For people: kind, serve, text."""
    count: Callable[[str, str], None] = lambda tier, task_class: None
    """For metrics: each demotion, by tier and class."""


class Demoter:
    """Owns the preflight that is under way; `close` ends it."""

    def __init__(
        self,
        tier_quality: TierQuality,
        state: Path,
        target: Callable[[str], Target | None],
        clock: Clock,
        reports: Reports = Reports(),
        prove: Prove = prove,
    ) -> None:
        self._tier_quality = tier_quality
        self._router: TierRouter | None = None
        self._state = state
        self._target = target
        self._clock = clock
        self._reports = reports
        self._store = Demotions(path_of(state))
        tier_quality.on_restored(demotions=self._store.read())
        self._rechecks = Rechecks(self._running, prove, self._on_checked, clock.now)

    def use_router(self, router: TierRouter | None) -> None:
        """Use the router of another configuration or profile. Tiers that were measured since are not rechecked."""
        self._router = router
        self._rechecks.keep(self._is_suspect)

    def on_alarm(self, tier: Tier, task_class: str) -> None:
        """1. demoted already  2. a cloud, or a serve without chat: no preflight  3. recheck"""
        router, key = self._router, (tier.name, task_class)
        serve = None if router is None else router.serve_of(tier)
        if serve is None or self._tier_quality.is_demoted(key, tier.serve):
            return  # 1
        if tier.cloud or serve.translation.cloud:
            self._report(serve.name, key, "there is no preflight of a cloud, because it costs money")  # 2
        elif Dialect.CHAT not in serve.dialects:
            self._report(serve.name, key, "there is no preflight of a serve that speaks no chat dialect")  # 2
        else:
            self._rechecks.want(serve.name, key)  # 3

    def on_identified(self, serve: str) -> None:
        """A serve runs, and what it is is known."""
        self._rechecks.wake()

    def on_stopped(self, serve: str) -> None:
        self._rechecks.stop(serve)

    async def close(self) -> None:
        await self._rechecks.close()

    def _running(self, name: str) -> VerifiedServe | None:
        router, target, key = self._router, self._target(name), self._fingerprint_key(name)
        if router is None or target is None or key is None or not self._tier_quality.is_verified(name):
            return None
        serve = next((router.serve_of(tier) for tier in router.settings.tiers if tier.serve == name), None)
        return None if serve is None else VerifiedServe(serve, target, key)

    def _is_suspect(self, name: str, key: Key) -> bool:
        tier = None if self._router is None else self._router.tier(key[0])
        return tier is not None and tier.serve == name and self._tier_quality.is_suspect(key)

    async def _on_checked(self, running: VerifiedServe, pending: PendingRecheck, rounds: Rounds) -> bool:
        """Settle each tier and class that the preflight ran for. Whether to run it again."""
        name, outcomes = running.serve.name, set()
        never = await asyncio.to_thread(self._never_passed, running)
        for key in sorted(pending.keys):
            is_same = self._is_suspect(name, key) and self._fingerprint_key(name) == running.fingerprint
            outcome, checks = demotion_outcome(rounds, pending.tries, is_same, never)
            outcomes.add(outcome)
            if outcome is DemotionOutcome.DEMOTE:
                self._demote(name, key, running.fingerprint, checks)
            elif outcome in _NOT_DEMOTED:
                self._report(name, key, _NOT_DEMOTED[outcome])
        if DemotionOutcome.DEMOTE in outcomes:
            try:
                await asyncio.to_thread(self._store.write, list(self._tier_quality.demotions.values()))
            except OSError as error:
                text = "%s cannot be written (%s): the demotion holds until Stoker ends"
                log.warning(text, self._store.path, error.strerror)
        return DemotionOutcome.AGAIN in outcomes

    def _never_passed(self, running: VerifiedServe) -> frozenset[str]:
        """Gates that this model never passed, by the preflights on disk: a failure of those is no news. Reads files."""
        runs = []
        for path in result_file.results_of(self._state).glob(f"*-{RunKind.PREFLIGHT.value}-*{result_file.ENDING}"):
            with contextlib.suppress(StokerError):  # a broken file says nothing
                run = result_file.load(path)
                is_same = key_of(run.subject.fingerprint) == running.fingerprint
                if run.subject.serve == running.serve.name and is_same:
                    runs.append(run.findings)
        return never_passed(runs) if running.fingerprint[0] else frozenset()

    def _demote(self, name: str, key: Key, fingerprint: FingerprintKey, checks: tuple[str, ...]) -> None:
        measured = self._tier_quality.rows[key].at
        self._tier_quality.on_demoted(Demotion(*key, *fingerprint, measured, checks, self._clock.wall()))
        self._reports.count(*key)
        text = f"{_at(key)}: {describe_demotion(checks)}: `stoker eval calibrate {key[0]}` measures it again"
        self._reports.note("demoted", name, text)

    def _report(self, name: str, key: Key, why: str) -> None:
        self._reports.note("drift", name, f"{_at(key)}: {why}: `stoker eval calibrate {key[0]}` settles it")

    def _fingerprint_key(self, name: str) -> FingerprintKey | None:
        found = None if self._router is None else self._tier_quality.fingerprints.get(name)
        return None if found is None else key_of(found)


def key_of(found: Fingerprint) -> FingerprintKey:
    """What two fingerprints of the same model have in common; `parts` are for people."""
    return found.identity, found.execution


def _at(key: Key) -> str:
    return f"tier {key[0]} at {key[1]}"
