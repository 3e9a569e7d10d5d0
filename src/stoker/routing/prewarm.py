"""What requests that name a task say of the model that will be wanted next, so that it is warm by then.

Two things are foreseen: the tier that the plan likes best and passed over only because its model is not loaded and
others would have to leave for it, and the tier that the class which mostly comes next liked best. What a class
recommends goes first in its plans, and so it does here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stoker.domain.prediction import Prediction, PredictionReason
from stoker.domain.task import UNKNOWN
from stoker.domain.tier import Tier, Verdict
from stoker.request.decide.policy import Plan
from stoker.request.decide.turns import Turns
from stoker.routing.router import Routing

PAUSE = 1.0
"""Seconds between two words to the warm pool at least: clients that ask for many classes at once say little."""


class Timer(Protocol):
    def cancel(self) -> object: ...


class Foresight:
    """`tell()`: what is `wanted` has changed. `now`: seconds; `after(seconds, call)` calls it then."""

    def __init__(
        self,
        tell: Callable[[], None],
        now: Callable[[], float],
        after: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._tell = tell
        self._now = now
        self._after = after
        self._routing: Routing | None = None
        self._turns = Turns()
        self._liked: dict[str, str] = {}
        """By class: the tier that its last plan liked best, wherever models were."""
        self._passed_over: dict[str, bool] = {}
        """By class: whether that tier had to stand behind one whose model is loaded."""
        self._told: tuple[str, str, bool] | None = None
        self._again = 0.0
        self._timer: Timer | None = None

    def begin(self, routing: Routing | None) -> None:
        """Another configuration, or another profile; None: the end."""
        self._routing, self._told = routing, None
        self._stop()

    def on_plan(self, plan: Plan) -> None:
        """1. nobody serves, or the task is unknown  2. nothing new

        3. its model is about to be started: then the warm pool asks by itself

        4. the warm pool is told; where it was told only just now, a moment later
        """
        if not plan.steps or self._routing is None or plan.task.name == UNKNOWN:
            return  # 1
        first, name = plan.steps[0].tier, plan.task.name
        liked = plan.ahead or first
        state = name, liked.name, plan.ahead is not None
        self._turns.on_class(name)
        if state == self._told:
            return  # 2
        self._told = state
        self._liked[name], self._passed_over[name] = liked.name, plan.ahead is not None
        if not self._routing.is_loaded(first):
            self._stop()  # 3
        elif self._timer is None:
            wait = self._again - self._now()
            if wait > 0:
                self._timer = self._after(wait, self._due)  # 4
            else:
                self._due()

    def _due(self) -> None:
        self._timer, self._again = None, self._now() + PAUSE
        self._tell()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def wanted(self) -> list[Prediction]:
        """Serves, the likeliest first; never one that is denied by now."""
        name, following = self._turns.now, self._turns.next()
        found: dict[str, PredictionReason] = {}
        if name is not None and self._passed_over[name] and (serve := self._serve(name)):
            found[serve] = PredictionReason.RULE
        if following is not None and (serve := self._serve(following)):
            found.setdefault(serve, PredictionReason.PATTERN)
        return list(found.items())

    def _serve(self, task_class: str) -> str | None:
        """Where the tier that a class likes best is served; None: it may not be, or not here."""
        routing = self._routing
        tier: Tier | None = None if routing is None else routing.tier(self._liked[task_class])
        if routing is None or tier is None or tier.cloud or not routing.router.permits(tier, task_class):
            return None
        return None if routing.standing(tier, task_class).verdict is Verdict.DENY else tier.serve
