"""One answer put to the tier that grades: asked as any client would be, but begun only where a place is free.

1. its circuit is open, or it is drained                -> `judge_unwell`
   it did not answer the last questions                 -> `judge_resting`; its live traffic is not touched by that
2. it is not loaded, and loading it could take a place  -> `judge_not_loaded`: nothing is loaded for a grade
3. what it would have to read exceeds its context       -> `too_long`
4. it has no free place, or somebody waits for it       -> `judge_busy`: the live traffic goes first
5. it fails, or takes too long                          -> `judge_failed`, `judge_timeout`
6. it says nothing that is a grade, or is unsure        -> `judge_unclear`, `unsure`
7. else                                                 -> a grade
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
from stoker.exchange.internal_client import Asker
from stoker.exchange.leasing import leased
from stoker.quality import judge_prompt
from stoker.quality.judge_prompt import JudgeGrade
from stoker.request.decide.breaker import Breaker
from stoker.routing.router import Routing

DROPS = (
    "judge_unwell", "judge_resting", "judge_not_loaded", "judge_busy", "judge_failed", "judge_timeout", "judge_unclear",
    "unsure",
)  # fmt: skip


class Heard(NamedTuple):
    """What came of one question. Without a grade `dropped` says why, in one word of DROPS."""

    passed: bool | None
    dropped: str = ""
    cost: float = 0.0
    """In the currency of the tiers; an estimate where the judge counted no tokens."""
    detail: str = ""
    """What the operator should know of a judge that failed."""


class Judge:
    def __init__(self, leases: Leases, asker: Asker, now: Callable[[], float]) -> None:
        self._leases = leases
        self._asker = asker
        self._now = now
        self._breaker = Breaker()
        self._of: tuple[str, BreakerLimits] | None = None
        """Whose circuit that is: for questions alone, since a tier that is too slow to grade may serve well."""

    def estimate(self, tier: Tier, size: int) -> float:
        """What a question about `size` characters costs at most, about."""
        return tier.cost.of(_tokens(size), judge_prompt.most_tokens(tier.cloud))

    async def ask(
        self, routing: Routing, tier: Tier, task: str, conversation: str, answer: str, timeout: float
    ) -> Heard:
        """Raises nothing but CancelledError; no lease is left then."""
        serve, size = routing.serve(tier), len(conversation) + len(answer)
        if serve is None or routing.ails(tier):
            return Heard(None, "judge_unwell")  # 1
        breaker = self._circuit(tier, routing.router.breaker)
        if breaker.is_shut(self._now()):
            return Heard(None, "judge_resting")  # 1
        may_wait = not routing.is_loaded(tier)
        if may_wait and serve.driver is not Driver.EXTERNAL:
            return Heard(None, "judge_not_loaded")  # 2
        if serve.context is not None and _tokens(size) + judge_prompt.most_tokens(tier.cloud) > serve.context:
            return Heard(None, "too_long")  # 3
        question = partial(judge_prompt.judge_question, task, conversation, answer, secrets.token_hex(16), tier.cloud)
        try:
            async with leased(self._leases, serve.name, may_wait=may_wait, timeout=timeout, yields=True) as lease:
                breaker.on_sent(self._now())
                usage, said = await self._asker.said(serve, lease.target, question, timeout)
            breaker.on_served(self._now())
        except TimeoutError:
            breaker.on_fault(self._now())
            return Heard(None, "judge_timeout", self.estimate(tier, size), f"no grade within {timeout:g} s")  # 5
        except StokerError as error:
            if isinstance(error, CapacityError):
                return Heard(None, "judge_busy")  # 4
            if isinstance(error, ClientError):
                breaker.on_served(self._now())  # it is well: the question was not for it
            else:
                breaker.on_fault(self._now())
            return Heard(None, "judge_failed", detail=error.message)
        cost = self.estimate(tier, size)
        if usage.input is not None and usage.output is not None:
            cost = tier.cost.of(usage.input, usage.output)
        found = judge_prompt.parse_grade(said)
        if found is JudgeGrade.UNSURE or found is None:
            return Heard(None, "unsure" if found else "judge_unclear", cost)  # 6
        return Heard(found is JudgeGrade.PASS, cost=cost)  # 7

    def _circuit(self, tier: Tier, limits: BreakerLimits) -> Breaker:
        """Closed anew for another judge, and for other limits. Faults may lie any time apart, as grades do."""
        if self._of != (tier.serve, limits):
            self._of = tier.serve, limits
            self._breaker = Breaker(limits.failures, math.inf, limits.cool_down)
        return self._breaker


def _tokens(size: int) -> int:
    """Of a question about so many characters, about."""
    return size // BYTES_PER_TOKEN + judge_prompt.RULES_TOKENS
