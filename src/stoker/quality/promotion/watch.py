"""Watches one promotion: the canary every `check_every` seconds while the serve is loaded, and every live request.

It ends when its time is over or when it has found that the model got worse: a canary that fails by k of n, or live
requests that fail too often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.domain.decision import Decision
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.gate import Alias, Override
from stoker.domain.protocols import Clock, Leases
from stoker.domain.run import Finding, Outcome
from stoker.exchange.leasing import leased
from stoker.measure.canary.steadiness import SteadinessCheck
from stoker.measure.requests.client import ModelClient
from stoker.measure.statistics.stats import Cusum

SERVE_FAILURES = frozenset(("upstream_failed", "stalled", "bug"))
"""Outcomes of requests for which the serve is to blame."""
NORMAL_RATE, BAD_RATE, ALARM_AT = 0.02, 0.2, 4.0
"""Rates of failed live requests. Two in a row raise the alarm; one in five raises it soon."""
_CANARY_DIALECTS = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)


class PromotionWatch:
    """Starts at once. `on_end(watch, finding)` is awaited at its end, and not if it is closed before.

    `finding` failed if the model got worse.
    """

    def __init__(
        self,
        alias: Alias,
        override: Override,
        leases: Leases,
        clock: Clock,
        on_end: Callable[[PromotionWatch, Finding], Awaitable[None]],
    ) -> None:
        self.alias = alias
        self.override = override
        self.until = clock.now() + alias.watch
        self._leases = leases
        self._clock = clock
        self._on_end = on_end
        self._failures = Cusum(NORMAL_RATE, BAD_RATE, ALARM_AT)
        self._steadiness = SteadinessCheck()
        self._alarm = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"watch-{alias.name}")

    def close(self) -> None:
        """Stop watching. A canary under way is cancelled."""
        self._task.cancel()

    def observe(self, decision: Decision) -> None:
        """Count one request of the alias. Returns at once: a decision is sealed where nothing may wait."""
        is_failure = decision.outcome in SERVE_FAILURES
        if (is_failure or decision.outcome == "served") and self._failures.feed(is_failure):
            self._alarm.set()

    async def _run(self) -> None:
        finding = Finding("canary", Outcome.PASSED, "nothing was found")
        while finding.outcome is not Outcome.FAILED and self._clock.now() < self.until:
            if self._alarm.is_set():
                text = f"failures among the last {self._failures.n} requests"
                finding = Finding("live requests", Outcome.FAILED, text)
                break
            finding = await self._ask_canary() or finding
            if finding.outcome is not Outcome.FAILED:
                await self._pause()
        await asyncio.shield(self._on_end(self, finding))

    async def _ask_canary(self) -> Finding | None:
        """None: the serve is not loaded, and is not loaded for this; or it has no free place."""
        name = self.override.serve
        if self._leases.target(name) is None:
            return None
        try:
            async with leased(self._leases, name) as lease:
                speaks = lease.target.speaks or frozenset((Dialect.CHAT,))
                client = ModelClient(lease.target, next((d for d in _CANARY_DIALECTS if d in speaks), Dialect.CHAT))
                try:
                    return await self._steadiness.check(client)
                finally:
                    client.close()
        except StokerError:  # no free place, or the lease was taken away: the next round tries again
            return None

    async def _pause(self) -> None:
        seconds = min(self.alias.check_every, max(0.0, self.until - self._clock.now()))
        try:
            async with asyncio.timeout(seconds):
                await self._alarm.wait()
        except TimeoutError:
            return
