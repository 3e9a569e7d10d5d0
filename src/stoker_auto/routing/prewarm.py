"""Predicts from the plans of routed requests which model will be wanted next, so that it is warm by then.

Two models are predicted: that of the tier that a plan prefers but passed over, because its model is not loaded and
would displace others; and that of the tier preferred by the class that usually comes next. A class's specialist goes
first in its plans, so it does here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stoker.domain.prediction import Prediction, PredictionReason
from stoker.domain.task import UNKNOWN
from stoker.domain.tier import Tier, Verdict
from stoker_auto.decide.class_transitions import ClassTransitions
from stoker_auto.decide.policy import RoutePlan
from stoker_auto.routing.router import TierRouter

PAUSE = 1.0
"""Least seconds between two notifications of the warm pool: the order of simultaneous requests predicts little."""


class Timer(Protocol):
    def cancel(self) -> object: ...


class Prewarmer:
    """`notify()` is called when the `predictions` have changed. `after(seconds, call)` calls `call` then."""

    def __init__(
        self,
        notify: Callable[[], None],
        now: Callable[[], float],
        after: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._notify = notify
        self._now = now
        self._after = after
        self._router: TierRouter | None = None
        self._transitions = ClassTransitions()
        self._preferred: dict[str, str] = {}
        """By class: the tier that its last plan preferred, wherever its model was."""
        self._passed_over: dict[str, bool] = {}
        """By class: whether that tier was passed over for one whose model is loaded."""
        self._last: tuple[str, str, bool] | None = None
        self._not_before = 0.0
        self._timer: Timer | None = None

    def use_router(self, router: TierRouter | None) -> None:
        """Use the router of another configuration or profile; None: stop."""
        self._router, self._last = router, None
        self._stop()

    def on_plan(self, plan: RoutePlan) -> None:
        """Update the predictions, and notify the warm pool if they changed.

        1. no tier may serve, or the class is unknown -> no prediction
        2. the plan predicts what the last one did -> no notification
        3. the first tier's model is about to be loaded -> none either: the warm pool asks for predictions itself
        4. otherwise notify; less than PAUSE seconds after the last time, wait until they are over
        """
        if not plan.steps or self._router is None or plan.task.name == UNKNOWN:
            return  # 1
        first, name = plan.steps[0].tier, plan.task.name
        preferred = plan.preferred_if_loaded or first
        state = name, preferred.name, plan.preferred_if_loaded is not None
        self._transitions.on_class(name)
        if state == self._last:
            return  # 2
        self._last = state
        self._preferred[name], self._passed_over[name] = preferred.name, plan.preferred_if_loaded is not None
        if not self._router.is_loaded(first):
            self._stop()  # 3
        elif self._timer is None:
            wait = self._not_before - self._now()
            if wait > 0:
                self._timer = self._after(wait, self._due)  # 4
            else:
                self._due()

    def _due(self) -> None:
        self._timer, self._not_before = None, self._now() + PAUSE
        self._notify()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def predictions(self) -> list[Prediction]:
        """Serves, the likeliest first; none whose tier is denied by now."""
        name, following = self._transitions.now, self._transitions.next()
        found: dict[str, PredictionReason] = {}
        if name is not None and self._passed_over[name] and (serve := self._serve(name)):
            found[serve] = PredictionReason.RULE
        if following is not None and (serve := self._serve(following)):
            found.setdefault(serve, PredictionReason.PATTERN)
        return list(found.items())

    def _serve(self, task_class: str) -> str | None:
        """The serve of the tier that a class prefers; None: it may not be used, or does not run here."""
        router = self._router
        tier: Tier | None = None if router is None else router.tier(self._preferred[task_class])
        if router is None or tier is None or tier.cloud or not router.settings.permits(tier, task_class):
            return None
        return None if router.standing(tier, task_class).verdict is Verdict.DENY else tier.serve
