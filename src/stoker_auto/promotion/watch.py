"""Watches one promotion: the canary every `check_every` seconds while the serve is loaded, and every live request.

1. a canary fails, or live requests fail too often                              -> failed, at once
at its end:
2. too few canaries were answered, or no more live requests than went unanswered -> undecided: nothing was proved
3. else                                                                         -> passed
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker.domain.decision import Decision
from stoker.domain.dialect import TARGETS, Dialect
from stoker.domain.errors import StokerError
from stoker.domain.gate import Alias, Override
from stoker.domain.protocols import Clock, Leases
from stoker.domain.run import Finding, Outcome
from stoker.exchange.leasing import leased
from stoker.request.decide.failover import BUSY, TAKES_NONE
from stoker_lab.canary.steadiness import SteadinessCheck
from stoker_lab.requests.client import ModelClient
from stoker_lab.statistics.stats import Cusum

SERVE_FAILURES = frozenset(("upstream_failed", "stalled", "bug"))
"""Outcomes of requests for which the serve is to blame."""
NORMAL_RATE, BAD_RATE, ALARM_AT = 0.02, 0.2, 4.0
"""Rates of failed live requests. Two in a row raise the alarm; one in five raises it soon."""
ENOUGH_CANARIES = 2
"""Answered ones: the first is what later ones are compared with. A watch that has time for one needs one."""


@dataclass(slots=True)
class Seen:
    """What a watch saw."""

    canaries: int = 0
    """Answered."""
    missed: int = 0
    """Canaries that could not be asked: the serve was not loaded, or had no free place."""
    answered: int = 0
    """Live requests."""
    unanswered: int = 0
    """Live requests that failed, were refused for want of a place, or whose client left before the first token."""


def at_its_end(seen: Seen, alias: Alias) -> Finding:
    """What a watch that found no fault proved."""
    wanted = min(ENOUGH_CANARIES, max(1, int(alias.watch / alias.check_every)))
    text = (
        f"canaries: {seen.canaries} answered, {seen.missed} not asked; "
        f"live requests: {seen.answered} answered, {seen.unanswered} not"
    )
    if seen.canaries < wanted:
        return Finding("canary", Outcome.UNDECIDED, f"{text}: too few canaries to say that the model is well")
    if seen.unanswered and seen.unanswered >= seen.answered:
        return Finding("live requests", Outcome.UNDECIDED, f"{text}: too few answers to say that the model is well")
    return Finding("canary", Outcome.PASSED, text)


class PromotionWatch:
    """Starts at once. `on_end(watch, finding)` is awaited at its end, and not if it is closed before.

    `finding` failed if the model got worse, and is undecided if too little was seen to say that it did not.
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
        self._seen = Seen()
        self._alarm = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"watch-{alias.name}")

    def close(self) -> None:
        """Stop watching. A canary under way is cancelled."""
        self._task.cancel()

    def observe(self, decision: Decision) -> None:
        """Count one request of the alias. Returns at once: a decision is sealed where nothing may wait."""
        serve = self.override.serve
        # The last candidate answered, or refused; those before it were passed over.
        dropped = next((one.dropped for one in decision.candidates[:-1] if one.serve == serve), "")
        if decision.serve != serve and not dropped:
            return
        is_failure = decision.outcome in SERVE_FAILURES or (bool(dropped) and dropped not in BUSY | TAKES_NONE)
        is_answer = decision.outcome == "served" and not dropped
        if is_answer:
            self._seen.answered += 1
        elif (
            dropped or is_failure or decision.is_failed or (decision.outcome == "client_left" and decision.ttft is None)
        ):
            self._seen.unanswered += 1
        if (is_failure or is_answer) and self._failures.feed(is_failure):
            self._alarm.set()

    async def _run(self) -> None:
        finding: Finding | None = None
        while not self._alarm.is_set() and self._clock.now() < self.until:
            canary = await self._ask_canary()
            if canary is None:
                self._seen.missed += 1
            elif canary.outcome is Outcome.FAILED:
                finding = canary
                break
            else:
                self._seen.canaries += 1
            await self._pause()
        if finding is None and self._alarm.is_set():
            finding = Finding("live requests", Outcome.FAILED, f"failures among the last {self._failures.n} requests")
        await asyncio.shield(self._on_end(self, finding or at_its_end(self._seen, self.alias)))

    async def _ask_canary(self) -> Finding | None:
        """None: the serve is not loaded, and is not loaded for this; or it has no free place."""
        name = self.override.serve
        if self._leases.target(name) is None:
            return None
        try:
            async with leased(self._leases, name) as lease:
                speaks = lease.target.speaks or frozenset((Dialect.CHAT,))
                client = ModelClient(lease.target, next((d for d in TARGETS if d in speaks), Dialect.CHAT))
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
