"""Plans which tiers may serve a request, in which order, and why the others may not.

Joins the pure rules (`standing`, `policy`, `breaker`) with what is known now: quality, health, the fleet, the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from stoker.domain.routing import RouterSettings, Unmeasured, includes_class
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.domain.task import MAX_TEXT, Outline, Task
from stoker.domain.tier import Tier
from stoker.request.decide.first_byte import next_tier_after
from stoker_auto.decide.breaker import Breaker
from stoker_auto.decide.policy import RATE_LIMITED, RoutePlan, TierView, plan_route
from stoker_auto.decide.standing import Standing, worst
from stoker_auto.routing.classes import Classify, TaskClasses
from stoker_auto.routing.classifier import classify
from stoker_auto.routing.health import TierHealth
from stoker_auto.routing.tier_quality import TierQuality

OUTPUT = 500
"""Tokens of an answer for estimating its cost, if the client sets no limit."""


class FleetView(Protocol):
    def is_loaded(self, name: str) -> bool: ...

    def displaces(self, name: str) -> bool: ...

    def unavailable_reason(self, name: str, now: float) -> str: ...


class RoutingConstraints(NamedTuple):
    """What a request allows. A caller that may use `auto` may get any tier; clouds only if its key allows them."""

    may_use_cloud: bool = True
    speaks: Callable[[Serve], bool] = lambda serve: True
    """Whether that serve speaks a dialect into which the request can be translated."""
    output: int | None = None
    """Tokens that the client allows for the answer."""


class TierRouter:
    """`configure` replaces the configuration; quality and health of tiers that stay are kept. A request under way may
    name a tier that a reload has removed since: its events are ignored.
    """

    def __init__(
        self,
        settings: RouterSettings,
        serves: Iterable[Serve],
        tier_quality: TierQuality,
        fleet: FleetView,
        now: Callable[[], float],
        classify: Classify = classify,
        usual_first_byte: Callable[[str, bool], float | None] = lambda serve, streams: None,
    ) -> None:
        """`usual_first_byte(serve, streams)`: seconds to the first byte of its slower answers; None: not known yet."""
        self.tier_quality = tier_quality
        self.health = TierHealth(now)
        self._fleet = fleet
        self._now = now
        self._classify = classify
        self._usual_first_byte = usual_first_byte
        self.configure(settings, serves)

    def configure(self, settings: RouterSettings, serves: Iterable[Serve]) -> None:
        self.settings = settings
        self.classes = TaskClasses(settings, self._classify)
        self._serves = {serve.name: serve for serve in serves}
        self._tiers = {tier.name: tier for tier in settings.tiers}
        served = ((tier.name, self._serves.get(tier.serve)) for tier in settings.tiers if tier.cloud)
        self._cloud_models = {name: serve.served_name or serve.name for name, serve in served if serve is not None}
        self.health.configure(settings.tiers, settings.breaker)
        self._choices = [
            (tier, self._serves.get(tier.serve), self.health.breaker(tier.name), self._cloud_models.get(tier.name))
            for tier in settings.tiers
        ]
        """The input of each plan: a tier, its serve, its circuit, and the model behind a cloud."""

    # -- what is configured ------------------------------------------------------------------------------------------

    def tier(self, name: str) -> Tier | None:
        return self._tiers.get(name)

    def serve_of(self, tier: Tier) -> Serve | None:
        """None: it is no longer configured."""
        return self._serves.get(tier.serve)

    def serve(self, name: str) -> Serve | None:
        """None: it is not configured."""
        return self._serves.get(name)

    @property
    def serves(self) -> Mapping[str, Serve]:
        """Those that are configured, by name."""
        return self._serves

    def loaded(self) -> list[Serve]:
        found = [self._serves.get(tier.serve) for tier in self.settings.tiers if not tier.cloud]
        return [serve for serve in found if serve is not None and self._fleet.is_loaded(serve.name)]

    # -- planning ----------------------------------------------------------------------------------------------------

    def plan(self, task: Task, outline: Outline, constraints: RoutingConstraints) -> RoutePlan:
        """The tiers that may serve, in order, and why the others may not. Never raises. If no tier may serve a task
        that is only suspected of high risk, the plan is for its more likely class.
        """
        plan = self._plan(task, outline, constraints)
        if plan.steps or not task.else_ or plan.pause is not None:
            return plan
        more_likely = Task(task.else_, task.source, (*task.notes, f"nobody_for:{task.name}"))
        second = self._plan(more_likely, outline, constraints)
        return second if second.steps else plan

    def _plan(self, task: Task, outline: Outline, constraints: RoutingConstraints) -> RoutePlan:
        classes = self.classes.required_for(task, outline)
        views = [self._view(*choice, classes, outline, constraints) for choice in self._choices]
        specialist = (self.settings.specialist(classes[0]) or "") if len(classes) == 1 else ""
        return plan_route(task, views, specialist, classes, self.settings.unmeasured is Unmeasured.TRUSTED)

    def _view(
        self,
        tier: Tier,
        serve: Serve | None,
        breaker: Breaker,
        cloud_model: str | None,
        classes: tuple[str, ...],
        outline: Outline,
        constraints: RoutingConstraints,
    ) -> TierView:
        """What the plan has to know about a tier. Of several classes, the one at which it is worst counts."""
        tier_quality, high_risk, now = self.tier_quality, self.settings.high_risk, self._now()
        row = tier_quality.rows.get((tier.name, classes[0]))
        standings, exclusion = [], ""
        for name in classes:
            standings.append(tier_quality.standing(tier, name, name in high_risk, cloud_model))
            exclusion = exclusion or self._exclusion(tier, serve, name, outline, constraints)
        return TierView(
            tier,
            worst(standings),
            exclusion,
            "" if serve is None else self._reason_without_pauses(tier, breaker, now),
            self._fleet.is_loaded(tier.serve),
            self._fleet.displaces(tier.serve),
            tier.cost.of(outline.estimated_tokens, constraints.output if constraints.output is not None else OUTPUT),
            row.latency if row is not None else None,
            breaker.pause(now),
            breaker.pause_status,
        )

    def _exclusion(
        self, tier: Tier, serve: Serve | None, task_class: str, outline: Outline, constraints: RoutingConstraints
    ) -> str:
        """Why a tier is excluded; empty: it is not.

        1. gone  2. its classes  3. the cloud: for all, this class, this key  4. dialect  5. context
        """
        if serve is None:
            return "gone"  # 1
        if not includes_class(task_class, tier.classes):
            return "not_its_class"  # 2
        if tier.cloud and (exclusion := self.cloud_exclusion(task_class, constraints.may_use_cloud)):
            return exclusion  # 3
        if not constraints.speaks(serve):
            return "dialect"  # 4
        is_too_long = outline.tokens is not None and serve.context is not None and outline.tokens >= serve.context
        return "context" if is_too_long else ""  # 5

    # -- questions ---------------------------------------------------------------------------------------------------

    def standing(self, tier: Tier, task_class: str) -> Standing:
        """What the tier is worth at a class."""
        is_high_risk = task_class in self.settings.high_risk
        return self.tier_quality.standing(tier, task_class, is_high_risk, self._cloud_models.get(tier.name))

    def current_fingerprint(self, serve: str, cloud: bool) -> Fingerprint | None:
        """What a serve is now. Of a cloud only the model's name is known. None: it is not known, or not configured."""
        found = self._serves.get(serve)
        if found is None:
            return None
        return Fingerprint(found.served_name or found.name) if cloud else self.tier_quality.current_fingerprint(serve)

    def cloud_exclusion(self, task_class: str, may_use_cloud: bool) -> str:
        """Why nothing of a request may go to a cloud; empty: it may."""
        if not self.settings.allow_cloud:
            return "cloud_not_permitted"
        if not includes_class(task_class, self.settings.cloud_classes):
            return "class_not_cloud"
        return "" if may_use_cloud else "key_not_cloud"

    def is_loaded(self, tier: Tier) -> bool:
        return self._fleet.is_loaded(tier.serve)

    def is_up(self, serve: str) -> bool:
        """Whether a serve is loaded and nothing is wrong with it."""
        return self._fleet.is_loaded(serve) and not self._fleet.unavailable_reason(serve, self._now())

    def unavailable_reason(self, tier: Tier) -> str:
        """Why a tier cannot serve now; empty: it can, once it is loaded."""
        now, breaker = self._now(), self.health.breaker(tier.name)
        return RATE_LIMITED if breaker.pause(now) else self._reason_without_pauses(tier, breaker, now)

    def _reason_without_pauses(self, tier: Tier, breaker: Breaker, now: float) -> str:
        """Like `unavailable_reason`, without pauses that the tier asked for."""
        return "circuit_open" if breaker.blocks_requests(now) else self._fleet.unavailable_reason(tier.serve, now)

    def next_tier_after(self, tier: Tier, prompt: int, output: int | None, streams: bool) -> float | None:
        """Seconds until another tier is tried, if no answer begins; None: no limit."""
        given = tier.first_byte_timeout
        if given is None and (serve := self.serve(tier.serve)) is not None:
            given = serve.first_byte_timeout
        usual, slowest = self._usual_first_byte(tier.serve, streams), self.tier_quality.slowest_answer(tier.name)
        return next_tier_after(given, usual, slowest, prompt, output, streams)

    def allowed(self) -> set[tuple[str, str]]:
        """Tier and class of each row that lets a tier serve as measured, now or once it is loaded."""
        found = ((key, self._tiers.get(key[0])) for key in self.tier_quality.rows)
        standings = ((key, self.standing(tier, key[1])) for key, tier in found if tier is not None)
        return {key for key, one in standings if one.is_proved or one.is_expected}

    def stale(self) -> list[tuple[str, str, str]]:
        """Tier, class and reason of each row that no longer counts and has to be measured again."""
        found = []
        for tier_name, task_class in sorted(self.tier_quality.rows.keys() | self.tier_quality.grades.keys()):
            tier = self._tiers.get(tier_name)
            if tier is not None and (one := self.standing(tier, task_class)).is_stale:
                found.append((tier_name, task_class, one.why))
        return found

    def contradictions(self) -> list[tuple[str, str, str]]:
        """Tier, class and words of each suite that the judge contradicts."""
        found = ((key, self._tiers.get(key[0])) for key in sorted(self.tier_quality.grades))
        standings = ((key, self.standing(tier, key[1])) for key, tier in found if tier is not None)
        return [(*key, one.contradiction) for key, one in standings if one.contradiction]

    # -- for people --------------------------------------------------------------------------------------------------

    def outline_of(self, text: str) -> Outline:
        """The outline of a prompt that is nothing but this text."""
        shown = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"
        return self.classes.with_tokens(Outline(text=shown, size=len(text.encode())), None)

    def preview(self, outline: Outline, task: Task) -> dict[str, Any]:
        """How a request would be routed. No tier is asked, nothing changes."""
        plan = self.plan(task, outline, RoutingConstraints())
        task = plan.task
        required = self.classes.required_for(task, outline)
        return {
            "task": task.name,
            "source": task.source.value,
            "notes": list(task.notes),
            "high_risk": any(name in self.settings.high_risk for name in required),
            "steps": [
                {"tier": step.tier.name, "serve": step.tier.serve, "verdict": step.verdict.value,
                 "verify": step.verify.value, "why": step.why}
                for step in plan.steps
            ],
            "dropped": [{"tier": one.tier, "code": one.code, "why": one.why} for one in plan.excluded],
            "refusal": "" if plan.steps else plan.refusal(),
        }  # fmt: skip

    def status(self) -> dict[str, Any]:
        return {
            "profile": self.settings.profile_path,
            "aliases": dict(self.settings.aliases),
            "rows": len(self.tier_quality.rows),
            "measured_at": max((row.at for row in self.tier_quality.rows.values()), default=None),
            "stale": [{"tier": tier, "class": name, "why": why} for tier, name, why in self.stale()],
            "contradictions": [
                {"tier": tier, "class": name, "why": why} for tier, name, why in self.contradictions()
            ],
            "tiers": [
                {"tier": tier.name, "serve": tier.serve, "cloud": tier.cloud,
                 "circuit": self.health.state(tier.name).value, "retry_in": self.health.pause(tier.name),
                 "first_byte_timeout": self.next_tier_after(tier, 0, None, True),
                 "loaded": self._fleet.is_loaded(tier.serve), "known": self.tier_quality.is_verified(tier.serve)}
                for tier in self.settings.tiers
            ],
        }  # fmt: skip
