"""Has one answer graded by the judge, a tier that is asked like any other, but only while it has a free place.

1. its circuit is open, or it is being drained           -> `judge_unwell`
   it did not answer the last questions                  -> `judge_resting`; its live traffic continues
2. it is not loaded, and runs on this machine            -> `judge_not_loaded`: nothing is loaded for a grade
3. the question is longer than its context               -> `too_long`
4. it has no free place, or other requests wait for it   -> `judge_busy`: live traffic goes first
5. it fails, or takes too long                           -> `judge_failed`, `judge_timeout`
6. its answer has no grade, or says that it is unsure    -> `judge_unclear`, `unsure`
7. else                                                  -> a grade
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from stoker.domain.errors import CapacityError, ClientError, StokerError
from stoker.domain.protocols import Leases
from stoker.domain.routing import BreakerLimits
from stoker.domain.serve import Driver
from stoker.domain.task import BYTES_PER_TOKEN
from stoker.domain.tier import Tier
from stoker.domain.usage import ServeUsage
from stoker.exchange.internal_client import InternalClient, usage_of
from stoker.exchange.leasing import leased
from stoker_auto.decide.breaker import Breaker
from stoker_auto.routing.router import TierRouter
from stoker_lab import judge_prompt
from stoker_lab.judge_prompt import JudgeGrade

DROPS = (
    "judge_unwell", "judge_resting", "judge_not_loaded", "judge_busy", "judge_failed", "judge_timeout", "judge_unclear",
    "unsure",
)  # fmt: skip


class JudgeReply(NamedTuple):
    """The result of one question. Without a grade `dropped` says why, in one word of DROPS."""

    passed: bool | None
    dropped: str = ""
    cost: float = 0.0
    """In the currency of the tiers; an estimate if the judge reported no tokens."""
    detail: str = ""
    """For the operator: how the judge failed."""


class Judge:
    """Knows how to ask whichever tier judges; keeps one circuit breaker for its questions."""

    def __init__(
        self,
        leases: Leases,
        client: InternalClient,
        now: Callable[[], float],
        on_usage: Callable[[ServeUsage], None] | None = None,
    ) -> None:
        """`on_usage` gets what each question used."""
        self._leases = leases
        self._client = client
        self._now = now
        self._on_usage = on_usage
        self._breaker = Breaker()
        self._of: tuple[str, BreakerLimits] | None = None
        """Whose circuit that is. Only questions count: a tier that is too slow to grade may still serve well."""

    def estimate(self, tier: Tier, size: int) -> float:
        """About the most that a question about `size` characters costs."""
        return tier.cost.of(_tokens(size), judge_prompt.most_tokens(tier.cloud))

    async def ask(
        self, router: TierRouter, tier: Tier, task: str, conversation: str, answer: str, timeout: float
    ) -> JudgeReply:
        """Raises nothing but CancelledError; no lease is left then."""
        serve, size = router.serve_of(tier), len(conversation) + len(answer)
        if serve is None or router.unavailable_reason(tier):
            return JudgeReply(None, "judge_unwell")  # 1
        breaker = self._circuit(tier, router.settings.breaker)
        if breaker.blocks_requests(self._now()):
            return JudgeReply(None, "judge_resting")  # 1
        may_wait = not router.is_loaded(tier)
        if may_wait and serve.driver is not Driver.EXTERNAL:
            return JudgeReply(None, "judge_not_loaded")  # 2
        if serve.context is not None and _tokens(size) + judge_prompt.most_tokens(tier.cloud) > serve.context:
            return JudgeReply(None, "too_long")  # 3
        question = partial(judge_prompt.judge_question, task, conversation, answer, secrets.token_hex(16), tier.cloud)
        try:
            async with leased(
                self._leases, serve.name, may_wait=may_wait, timeout=timeout, preemptible=True, on_usage=self._on_usage
            ) as lease:
                breaker.on_sent(self._now())
                usage, text = await self._client.ask(serve, lease.target, question, timeout)
                lease.record(usage_of(serve.name, usage))
            breaker.on_served(self._now())
        except TimeoutError:
            breaker.on_fault(self._now())
            return JudgeReply(None, "judge_timeout", self.estimate(tier, size), f"no grade within {timeout:g} s")  # 5
        except StokerError as error:
            if isinstance(error, CapacityError):
                return JudgeReply(None, "judge_busy")  # 4
            if isinstance(error, ClientError):
                breaker.on_served(self._now())  # the judge is well: it refused the question
            else:
                breaker.on_fault(self._now())
            return JudgeReply(None, "judge_failed", detail=error.message)
        cost = self.estimate(tier, size)
        if usage.input is not None and usage.output is not None:
            cost = tier.cost.of(usage.input, usage.output, usage.cached or 0, usage.cache_written or 0)
        found = judge_prompt.parse_grade(text)
        if found is JudgeGrade.UNSURE or found is None:
            return JudgeReply(None, "unsure" if found else "judge_unclear", cost)  # 6
        return JudgeReply(found is JudgeGrade.PASS, cost=cost)  # 7

    def _circuit(self, tier: Tier, limits: BreakerLimits) -> Breaker:
        """A fresh circuit for another judge or other limits. Faults may be any time apart, because grades are rare."""
        if self._of != (tier.serve, limits):
            self._of = tier.serve, limits
            self._breaker = Breaker(limits.failures, math.inf, limits.cool_down)
        return self._breaker


def _tokens(size: int) -> int:
    return size // BYTES_PER_TOKEN + judge_prompt.RULES_TOKENS
