"""Observes the quality of the tiers: what each of their serves is, and whether its answers became worse.

An alarm about worse answers brings their verification back and starts the second stage, `demotion`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from stoker.domain.decision import Routed
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve, replica_names
from stoker_auto.quality.demotion import Demoter, key_of
from stoker_auto.quality.fingerprints import FingerprintStore
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.artifacts.fingerprint import difference
from stoker_lab.identify import KeyRejected
from stoker_lab.statistics.drift import DriftDetector

log = logging.getLogger("stoker.routing")


class QualityMonitor:
    """Owns one task for each serve that is being identified, and the demoter; `close` ends them."""

    def __init__(
        self,
        tier_quality: TierQuality,
        demoter: Demoter,
        store: FingerprintStore,
        target: Callable[[str], Target | None],
        note: Callable[[str, str, str], None] = lambda kind, serve, text: None,
        on_identified: Callable[[str], None] = lambda serve: None,
    ) -> None:
        """`note(kind, serve, text)` tells people. `on_identified(serve)`: a running serve was fingerprinted."""
        self._tier_quality = tier_quality
        self._demoter = demoter
        self._store = store
        self._target = target
        self._note = note
        self._on_identified = on_identified
        self._router: TierRouter | None = None
        self._drift = DriftDetector()
        self._identifying: dict[str, asyncio.Task[None]] = {}
        """By serve or replica."""
        self._serve_of: dict[str, str] = {}
        """By replica, also of those that a reload has removed and that still run."""

    def use_router(self, router: TierRouter | None) -> None:
        """Use the router of another configuration. What is known of serves that are started as before still counts."""
        self._router = router
        if router is None:
            self._tier_quality.on_routing_ended()
        else:
            serves = [serve for name in router.settings.serves if (serve := router.serve(name)) is not None]
            self._serve_of |= {replica: serve.name for serve in serves for replica in replica_names(serve)}
            last = {serve.name: self._store.last(serve) for serve in serves}
            unchanged = {name: found for name, found in last.items() if found is not None}
            self._tier_quality.on_configured(unchanged, last.keys())
        self._demoter.use_router(router)

    def on_ready(self, name: str) -> None:
        """A serve, or a replica of one, came up, or was adopted: find out what it is."""
        self.on_stopped(name)
        serve, target = self._known(name), self._target(name)
        if serve is not None and target is not None and not serve.translation.cloud:
            self._tier_quality.on_started(serve.name, name)
            work = self._identify(serve, target, name)
            self._identifying[name] = asyncio.get_running_loop().create_task(work, name=f"identify-{name}")

    def on_stopped(self, name: str) -> None:
        task = self._identifying.pop(name, None)
        if task is not None:
            task.cancel()
        serve = self._serve_of.get(name, name)
        self._tier_quality.on_stopped(serve, name)
        self._demoter.on_stopped(serve)

    def observe(self, routed: Routed) -> None:
        """A routed request is over. Each answer that was checked is a sample.

        An alarm denies nothing: the tier's answers are verified until it is measured again, and its preflight runs.
        """
        router = self._router
        for attempt in routed.attempts:
            if router is None or not attempt.checked:
                continue
            key, tier = (attempt.tier, routed.task), router.tier(attempt.tier)
            alarm = self._drift.feed(attempt.tier, routed.task, failed=bool(attempt.findings))
            if alarm is not None and tier is not None and key in self._tier_quality.rows:
                self._tier_quality.on_alarm(*key)
                text = (
                    f"its answers to {routed.task} fail more often than before; measure it again: "
                    f"stoker eval calibrate {attempt.tier}"
                )
                self._note("drift", tier.serve, text)
                self._demoter.on_alarm(tier, routed.task)

    async def close(self) -> None:
        await self._demoter.close()
        tasks = list(self._identifying.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self, name: str) -> Serve | None:
        serve = self._serve_of.get(name, name)
        if self._router is None or serve not in self._router.settings.serves:
            return None
        return self._router.serve(serve)

    async def _identify(self, serve: Serve, target: Target, replica: str) -> None:
        try:
            found = await self._store.identify(serve, target)
        except (KeyRejected, OSError) as error:
            log.warning("serve %s cannot be identified (%r): its answers are checked", replica, error)
            return
        if self._router is None:
            return
        self._forget_drift(self._router, serve.name, found)
        self._tier_quality.on_identified(serve.name, found, replica)
        if (other := self._tier_quality.differing(serve.name, found)) is not None:
            self._note("drift", serve.name, _difference(replica, other, found))
        self._demoter.on_identified(serve.name)
        self._on_identified(serve.name)
        await self._store.remember(serve, found)

    def _forget_drift(self, router: TierRouter, serve: str, found: Fingerprint) -> None:
        """Samples of another model say nothing about this one."""
        before = self._tier_quality.fingerprints.get(serve)
        if before is not None and key_of(before) != key_of(found):
            for tier in router.settings.tiers:
                if tier.serve == serve:
                    self._drift.forget(tier.name)


def _difference(replica: str, other: Fingerprint, found: Fingerprint) -> str:
    differing = difference(other, found)
    parts = "; ".join((*differing.identity, *differing.unknown, *differing.execution))
    return f"{replica} is not the model that its other replicas are ({parts}): it counts as changed until all are alike"
