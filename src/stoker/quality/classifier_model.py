"""The model that is asked for the class of a request where what was learned is not sure, if it has proved the better.

What the built-in classifier said stands, at once, where

1. a class was declared, the form told it, or the text told it surely
2. it was not measured, lost, or is another one than was measured     off, `why`
3. nothing of this request may go to a cloud, and it is one           `not_permitted`
4. it failed or was late several times in a row                       `resting`
5. it is not loaded: nothing is loaded for this                       `not_loaded`
6. it has no free place                                               `busy`
7. it takes too long, fails, or names no class                        `timed_out`, `failed`, `unclear`

Else it is `answered`.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.errors import CapacityError, ClientError, StokerError
from stoker.domain.protocols import Leases
from stoker.domain.routing import BreakerLimits
from stoker.domain.routing import Companion as Settings
from stoker.domain.serve import Serve
from stoker.domain.task import Outline, Task
from stoker.exchange.internal_client import Asker
from stoker.exchange.leasing import leased
from stoker.measure.classifier import proof as proofs
from stoker.request.decide.breaker import Breaker
from stoker.request.decide.companion import asked, is_doubtful, said, settled, unanswered
from stoker.routing.router import Routing

log = logging.getLogger("stoker.routing")
OUTCOMES = ("answered", "unclear", "timed_out", "busy", "not_loaded", "failed", "resting", "not_permitted")
"""What comes of asking it."""


class Companion:
    """`counts` gets each outcome. All methods belong to the event loop's thread."""

    def __init__(
        self, state: Path, leases: Leases, asker: Asker, counts: Counter[str], now: Callable[[], float]
    ) -> None:
        self._state = state
        self._leases = leases
        self._asker = asker
        self._counts = counts
        self._now = now
        self._routing: Routing | None = None
        self._settings: Settings | None = None
        self._kept = proofs.ClassifierAnswers()
        self._lost = ""
        """Why it may not be on, whatever runs."""
        self._was_weighed = False
        """It answered the whole set, so to ask it again says nothing new."""
        self._of: tuple[proofs.ClassifierAnswers, Settings, tuple[str, ...]] | None = None
        """What that was found by."""
        self._limits = BreakerLimits()
        self._breaker = Breaker()

    def begin(self, routing: Routing | None) -> bool:
        """Another configuration, or another measurement. Whether requests are to know of it."""
        self._routing = routing
        settings = None if routing is None else routing.router.classifier
        if settings is None or routing is None:
            self._settings = None
            return False
        limits = routing.router.breaker
        if (settings, limits) != (self._settings, self._limits):
            self._limits, self._breaker = limits, Breaker(limits.failures, limits.window, limits.cool_down)
        kept, high_risk = proofs.load_answers(proofs.path_of(self._state, settings.serve)), routing.router.high_risk
        self._settings, self._kept = settings, kept
        if kept.head is None:
            self._lost, self._was_weighed, self._of = "it was not measured", False, None
        elif (kept, settings, high_risk) != self._of:  # to weigh takes as long as many requests
            proof = proofs.prove(kept.said, settings, high_risk)
            self._lost, self._was_weighed, self._of = proof.why, proof.asked == proof.total, (kept, settings, high_risk)
        return not self._lost

    @property
    def why(self) -> str:
        """Why it is not on, in words; empty: it is, or there is none."""
        routing, settings = self._routing, self._settings
        if routing is None or settings is None:
            return ""
        return self._lost or self._differs(routing, settings)

    @property
    def problem(self) -> str:
        """Why it stays off until somebody does something, and what; empty: it needs nothing."""
        why, settings = self.why, self._settings
        if settings is None or not why or why == _NOT_LOADED:
            return ""
        helps = f"`stoker eval classifier {settings.serve}`"
        if why == self._lost and self._was_weighed:
            helps = "try another model, or take [router.classifier] out"
        return f"the classifier's serve '{settings.serve}' is off: {why}; {helps}"

    def wants(self, task: Task) -> bool:
        """Whether it is to be asked, if it can be."""
        return self._settings is not None and is_doubtful(task, self._settings.below)  # 1

    async def settle(self, task: Task, seen: Outline, may_use_cloud: bool) -> Task:
        """The task as both decide it, after `timeout` seconds at most. Raises nothing but CancelledError, and holds no
        place then.
        """
        routing, settings = self._routing, self._settings
        if routing is None or settings is None or not self.wants(task):
            return task
        serve = routing.named(settings.serve)
        why = self._lost or self._differs(routing, settings)
        if serve is None or (why and why != _NOT_LOADED):
            return task  # 2
        asked_of = msgspec.structs.replace(seen, text=seen.request(task.back)) if task.back else seen
        word = await self._word(routing, settings, serve, task, asked_of, may_use_cloud, why)
        outcome = word if word in OUTCOMES else "answered"
        self._counts[outcome] += 1
        return settled(task, word, routing.router.high_risk) if outcome == "answered" else unanswered(task, outcome)

    async def _word(
        self, routing: Routing, settings: Settings, serve: Serve, task: Task, seen: Outline, may_use_cloud: bool,
        why: str,
    ) -> str:  # fmt: skip
        """A class, or one of OUTCOMES."""
        cloud, now = serve.translation.cloud, self._now()
        if cloud and routing.cloud_bar(task.name, may_use_cloud):
            return "not_permitted"  # 3
        if self._breaker.is_shut(now):
            return "resting"  # 4
        is_up = routing.is_up(serve.name)
        if why or not (is_up or cloud):
            return "not_loaded"  # 5
        question = partial(asked, seen, secrets.token_hex(16), cloud)
        try:
            async with leased(self._leases, serve.name, may_wait=not is_up, timeout=settings.timeout) as lease:
                self._breaker.on_sent(now)
                _, reply = await self._asker.said(serve, lease.target, question, settings.timeout)
        except CapacityError:
            return "busy"  # 6
        except ClientError:
            self._breaker.on_served(self._now())  # it is well: the question was not for it
            return "failed"
        except (TimeoutError, StokerError) as error:
            self._breaker.on_fault(self._now())
            if isinstance(error, StokerError):
                log.info("serve %s told no class: %s", serve.name, error.message)
            return "timed_out" if isinstance(error, TimeoutError) else "failed"  # 7
        except Exception as error:  # no request fails of this; its text might hold what nobody may read
            self._breaker.on_fault(self._now())
            log.error("asking serve %s for a class broke inside Stoker: %s", serve.name, type(error).__name__)
            return "failed"
        self._breaker.on_served(self._now())
        return said(reply, seen) or "unclear"

    def _differs(self, routing: Routing, settings: Settings) -> str:
        serve = routing.named(settings.serve)
        if serve is None:
            return "it is not configured any more"
        now = routing.mark_of(serve.name, serve.translation.cloud)
        if now is None:
            last = routing.fingerprints.get(serve.name)
            return _NOT_LOADED if last is None or proofs.header_of(last) == self._kept.head else _CHANGED
        return "" if proofs.header_of(now) == self._kept.head else _CHANGED

    def status(self) -> dict[str, Any] | None:
        """For /status; None: there is none. Counts are since the start."""
        settings = self._settings
        return None if settings is None else status(settings, self.why, self._counts)


_NOT_LOADED = "it is not loaded, or was not looked at yet"
_CHANGED = "it changed since it was measured"


def status(settings: Settings, why: str, counts: Counter[str]) -> dict[str, Any]:
    return {
        "serve": settings.serve,
        "on": not why,
        "why": why,
        "below": settings.below,
        "timeout": settings.timeout,
        "asked": dict(counts),
    }
