"""A model that is asked for the class of a request if the built-in classifier is not sure, and if it proved better.

The class of the built-in classifier stands, without a question, if

1. a class was declared, or follows from the request's form, or the built-in classifier is sure
2. the model was not measured, lost, or changed since                 off, `why`
3. it is a cloud, and this request may not go to a cloud              `not_permitted`
4. it failed or was late several times in a row                       `resting`
5. it is not loaded: nothing is loaded for this                       `not_loaded`

and after one if

6. it has no free place                                               `busy`
7. it takes too long, fails, or names no class                        `timed_out`, `failed`, `unclear`

Else the outcome is `answered`.
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
from stoker.domain.routing import BreakerLimits, ClassifierModelSettings
from stoker.domain.serve import Serve
from stoker.domain.task import Outline, Task
from stoker.domain.usage import ServeUsage
from stoker.exchange.internal_client import InternalClient, usage_of
from stoker.exchange.leasing import leased
from stoker_auto.classifier import proof as proofs
from stoker_auto.classifier.question import (
    class_in_reply,
    classifier_question,
    combined,
    is_doubtful,
    unanswered,
)
from stoker_auto.decide.breaker import Breaker
from stoker_auto.routing.router import TierRouter

log = logging.getLogger("stoker.routing")
OUTCOMES = ("answered", "unclear", "timed_out", "busy", "not_loaded", "failed", "resting", "not_permitted")
"""The outcomes of asking the model."""


class ClassifierModel:
    """`counts` counts the outcomes. All methods belong to the event loop's thread."""

    def __init__(
        self,
        state: Path,
        leases: Leases,
        client: InternalClient,
        counts: Counter[str],
        now: Callable[[], float],
        on_usage: Callable[[ServeUsage], None] | None = None,
    ) -> None:
        """`on_usage` gets what each question used."""
        self._state = state
        self._leases = leases
        self._client = client
        self._counts = counts
        self._now = now
        self._on_usage = on_usage
        self._router: TierRouter | None = None
        self._settings: ClassifierModelSettings | None = None
        self._measured = proofs.ClassifierAnswers()
        self._rejection = ""
        """Why the model stays off; empty: nothing keeps it off."""
        self._is_fully_measured = False
        """It answered the whole test set, so measuring it again would say nothing new."""
        self._proved_with: tuple[proofs.ClassifierAnswers, ClassifierModelSettings, tuple[str, ...]] | None = None
        """The answers from which the two values above were computed."""
        self._limits = BreakerLimits()
        self._breaker = Breaker()

    def use_router(self, router: TierRouter | None) -> bool:
        """Use the router of another configuration or measurement. Whether requests should use it."""
        self._router = router
        settings = None if router is None else router.settings.classifier
        if settings is None or router is None:
            self._settings = None
            return False
        limits = router.settings.breaker
        if (settings, limits) != (self._settings, self._limits):
            self._limits, self._breaker = limits, Breaker(limits.failures, limits.window, limits.cool_down)
        measured, high_risk = (
            proofs.load_answers(proofs.path_of(self._state, settings.serve)),
            router.settings.high_risk,
        )
        self._settings, self._measured = settings, measured
        if measured.header is None:
            self._rejection, self._is_fully_measured, self._proved_with = "it was not measured", False, None
        elif (measured, settings, high_risk) != self._proved_with:  # weighing takes as long as many requests
            proof = proofs.prove(measured.answers, settings, high_risk)
            self._rejection, self._is_fully_measured, self._proved_with = (
                proof.rejection,
                proof.asked == proof.total,
                (measured, settings, high_risk),
            )
        return not self._rejection

    @property
    def why(self) -> str:
        """Why it is off, in words; empty: it is on, or none is configured."""
        router, settings = self._router, self._settings
        if router is None or settings is None:
            return ""
        return self._rejection or self._difference(router, settings)

    @property
    def problem(self) -> str:
        """Why it stays off, and what the operator can do; empty: nothing needs to be done."""
        why, settings = self.why, self._settings
        if settings is None or not why or why == _NOT_LOADED:
            return ""
        advice = f"`stoker eval classifier {settings.serve}`"
        if why == self._rejection and self._is_fully_measured:
            advice = "try another model, or remove [router.classifier]"
        return f"the classifier's serve '{settings.serve}' is off: {why}; {advice}"

    def wants(self, task: Task) -> bool:
        """Whether the task is so doubtful that the model should be asked."""
        return self._settings is not None and is_doubtful(task, self._settings.below)  # 1

    async def settle(self, task: Task, outline: Outline, may_use_cloud: bool) -> Task:
        """The task as both decide it, after `timeout` seconds at most. Raises nothing but CancelledError, and holds no
        lease then.
        """
        router, settings = self._router, self._settings
        if router is None or settings is None or not self.wants(task):
            return task
        serve = router.serve(settings.serve)
        why = self._rejection or self._difference(router, settings)
        if serve is None or (why and why != _NOT_LOADED):
            return task  # 2
        asked_of = msgspec.structs.replace(outline, text=outline.request(task.back)) if task.back else outline
        answer = await self._ask(router, settings, serve, task, asked_of, may_use_cloud, why)
        outcome = answer if answer in OUTCOMES else "answered"
        self._counts[outcome] += 1
        return combined(task, answer, router.settings.high_risk) if outcome == "answered" else unanswered(task, outcome)

    async def _ask(
        self, router: TierRouter, settings: ClassifierModelSettings, serve: Serve, task: Task, outline: Outline,
        may_use_cloud: bool, why: str,
    ) -> str:  # fmt: skip
        """A class, or one of OUTCOMES."""
        cloud, now = serve.translation.cloud, self._now()
        if cloud and router.cloud_exclusion(task.name, may_use_cloud):
            return "not_permitted"  # 3
        if self._breaker.blocks_requests(now):
            return "resting"  # 4
        is_up = router.is_up(serve.name)
        if why or not (is_up or cloud):
            return "not_loaded"  # 5
        question = partial(classifier_question, outline, secrets.token_hex(16), cloud)
        try:
            async with leased(
                self._leases, serve.name, may_wait=not is_up, timeout=settings.timeout, on_usage=self._on_usage
            ) as lease:
                self._breaker.on_sent(now)
                usage, reply = await self._client.ask(serve, lease.target, question, settings.timeout)
                lease.record(usage_of(serve.name, usage))
        except CapacityError:
            return "busy"  # 6
        except ClientError:
            self._breaker.on_served(self._now())  # the model is well: it refused the question
            return "failed"
        except (TimeoutError, StokerError) as error:
            self._breaker.on_fault(self._now())
            if isinstance(error, StokerError):
                log.info("serve %s named no class: %s", serve.name, error.message)
            return "timed_out" if isinstance(error, TimeoutError) else "failed"  # 7
        except Exception as error:  # no request may fail of this; the text might hold parts of the prompt
            self._breaker.on_fault(self._now())
            log.error("asking serve %s for a class failed inside Stoker: %s", serve.name, type(error).__name__)
            return "failed"
        self._breaker.on_served(self._now())
        return class_in_reply(reply, outline) or "unclear"

    def _difference(self, router: TierRouter, settings: ClassifierModelSettings) -> str:
        """Why the running model is not the measured one, or not known to be; empty: it is."""
        serve = router.serve(settings.serve)
        if serve is None:
            return "it is no longer configured"
        now = router.current_fingerprint(serve.name, serve.translation.cloud)
        if now is None:
            last = router.tier_quality.fingerprints.get(serve.name)
            return _NOT_LOADED if last is None or proofs.header_of(last) == self._measured.header else _CHANGED
        return "" if proofs.header_of(now) == self._measured.header else _CHANGED

    def status(self) -> dict[str, Any] | None:
        """For /status; None: none is configured. Counts are since the start."""
        settings = self._settings
        return None if settings is None else status(settings, self.why, self._counts)


_NOT_LOADED = "it is not loaded, or not identified yet"
_CHANGED = "it changed since it was measured"


def status(settings: ClassifierModelSettings, why: str, counts: Counter[str]) -> dict[str, Any]:
    return {
        "serve": settings.serve,
        "on": not why,
        "why": why,
        "below": settings.below,
        "timeout": settings.timeout,
        "asked": dict(counts),
    }
