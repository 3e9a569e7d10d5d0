"""Which tiers may serve a task, in what order, and why. Pure, and never raises: an empty plan says why for each tier.

Each tier, in this order:

1. it may never serve this request (cloud is not permitted, the key may not use it, not its class, its context is too
   small, it speaks no dialect that fits)                  -> excluded
2. its verdict is deny (see `standing`)                    -> excluded, even if no other tier is left
3. it asked for a pause (429 or 503 with Retry-After)      -> excluded until then, even if no other tier is left
4. it fails at present (circuit open, it does not start)   -> used only if no other tier is left
5. otherwise                                               -> a step

Steps go in this order: the class's own specialist; if no local tier was measured at the class, and the operator did not
choose otherwise, those that are trusted; tiers proved good enough before those that are only trusted or in
doubt; those that displace no model; the cheaper; the faster; then the order of the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stoker.domain.task import UNKNOWN, Task
from stoker.domain.tier import Tier, Verdict, Verify
from stoker_auto.decide.advice import advice
from stoker_auto.decide.standing import Standing

RATE_LIMITED = "rate_limited"
"""The code of a tier that asked for a pause, and of a request that only such tiers may serve."""


class TierView(NamedTuple):
    """One tier, seen for one request."""

    tier: Tier
    standing: Standing
    excluded: str = ""
    """Why the tier may never serve this request; empty if it may."""
    unavailable: str = ""
    """Why the tier fails at present; empty if it does not."""
    is_loaded: bool = True
    displaces: bool = False
    """Another model would have to leave its slot first."""
    cost: float = 0.0
    """The estimated cost of this request."""
    latency: float | None = None
    """Measured seconds; None: not measured."""
    pause: float = 0.0
    """Seconds left of the pause that it asked for. `pause_status`: the HTTP status of that reply."""
    pause_status: int = 429


class RouteStep(NamedTuple):
    tier: Tier
    verify: Verify
    verdict: Verdict
    why: str
    is_at_hand: bool = False
    """It has proved good enough, is loaded, and displaces nothing."""


class ExcludedTier(NamedTuple):
    tier: str
    code: str
    """One word: `denied`, `cloud_not_permitted`, `circuit_open` ..."""
    why: str
    serve: str = ""


class RoutePlan(NamedTuple):
    task: Task
    steps: tuple[RouteStep, ...]
    excluded: tuple[ExcludedTier, ...]
    is_last_resort: bool = False
    """No tier is available; the steps are the tiers that are permitted but failing."""
    preferred_if_loaded: Tier | None = None
    """The tier that would go first if its model were loaded; None: it goes first."""
    classes: tuple[str, ...] = ()
    """The classes that the plan is for, if that of the task is unknown: see `routing.classes`."""
    pause: float | None = None
    """Seconds until the first of the tiers that asked for a pause may be used again; None: no tier asked."""
    pause_status: int = 429
    """The status of that tier's reply."""
    refuses_empty: bool = False
    """An answer that says nothing is a failure of the tier that gave it."""
    has_results: bool = False
    """The request ends with results of tools: it goes on with a loop."""

    def refusal(self) -> str:
        """Why no tier may serve, tier by tier, and what to do."""
        reasons = "; ".join(f"{one.tier}: {one.why}" for one in self.excluded) or "no tier is configured"
        denied = [one for one in self.excluded if one.code == "denied"]
        is_unknown = self.task.name == UNKNOWN and bool(self.classes)
        task_class = self.task.name
        if is_unknown:
            task_class = next((name for name in self.classes if f"at {name}" in reasons), self.classes[0])
        found = advice(task_class, denied)
        helps = f"; {found}" if found else ""
        if not is_unknown:
            return f"no tier may serve class '{task_class}': {reasons}{helps}"
        return (
            "the task of this request could not be determined, so it is treated like the classes "
            f"{', '.join(self.classes)}, and no tier may serve those: {reasons}{helps}; "
            "or declare its class in the header x-stoker-class"
        )


def plan_route(
    task: Task,
    views: Sequence[TierView],
    specialist: str = "",
    classes: tuple[str, ...] = (),
    trusted_first: bool = False,
) -> RoutePlan:
    """`views` in the order of the configuration. `specialist`: the tier that the class recommends. `classes`: what a
    tier has to be good enough at, if that is not the task's own class alone. `trusted_first`: where no local tier was
    measured, a trusted one is asked first.
    """
    classes = classes or (task.name,)
    available: list[TierView] = []
    failing: list[TierView] = []
    paused: list[TierView] = []
    excluded: list[ExcludedTier] = []
    trusted_first = trusted_first and not any(view.standing.is_measured for view in views if not view.tier.cloud)
    for view in views:
        if view.excluded:
            excluded.append(
                ExcludedTier(view.tier.name, view.excluded, _EXCLUSIONS.get(view.excluded, view.excluded))
            )  # 1
        elif view.standing.verdict is Verdict.DENY:
            excluded.append(ExcludedTier(view.tier.name, "denied", view.standing.why, view.tier.serve))  # 2
        elif view.pause > 0:
            paused.append(view)
            why = f"it asked for a pause (HTTP {view.pause_status}): {math.ceil(view.pause)} s are left"
            excluded.append(ExcludedTier(view.tier.name, RATE_LIMITED, why))  # 3
        elif view.unavailable:
            failing.append(view)  # 4
        else:
            available.append(view)  # 5
    chosen = available or failing
    if available:
        excluded += [
            ExcludedTier(view.tier.name, view.unavailable, _FAILURES.get(view.unavailable, view.unavailable))
            for view in failing
        ]
    chosen.sort(key=lambda view: _rank(view, specialist))
    if trusted_first:
        chosen.sort(key=lambda view: (view.tier.name != specialist, view.standing.verdict is not Verdict.ALLOW))
    steps = tuple(_step(view, classes) for view in chosen)
    first = min(paused, key=lambda view: view.pause, default=None)
    pause, status = (None, 429) if first is None else (first.pause, first.pause_status)
    is_last_resort = not available and bool(failing)
    return RoutePlan(
        task,
        steps,
        tuple(excluded),
        is_last_resort,
        None if trusted_first else _ahead(available, specialist),
        classes,
        pause,
        status,
    )


def _ahead(available: Sequence[TierView], specialist: str) -> Tier | None:
    if all(view.is_loaded for view in available):
        return None
    best = min(available, key=lambda view: _rank(view, specialist, is_loaded=True))
    return best.tier if best is not available[0] else None


def _rank(view: TierView, specialist: str, is_loaded: bool = False) -> tuple[bool, bool, bool, float, float]:
    """`is_loaded`: rank the tier as if it were loaded."""
    latency = view.latency if view.latency is not None else float("inf")
    is_proved, displaces = view.standing.is_proved, view.displaces
    if is_loaded and not view.is_loaded:
        is_proved, displaces = is_proved or view.standing.is_expected, False
    return view.tier.name != specialist, not is_proved, displaces, view.cost, latency


def _step(view: TierView, classes: Sequence[str]) -> RouteStep:
    """A local tier with a measured allow is only observed. Others are checked in their own mode for the class; of
    several classes, in the strictest mode.
    """
    mode = max([view.tier.mode(name) for name in classes], key=_STRICTNESS.index)
    if view.standing.verdict is Verdict.ALLOW and not view.tier.cloud and mode is not Verify.OFF:
        mode = Verify.OBSERVE
    is_at_hand = view.standing.is_proved and view.is_loaded and not view.displaces
    return RouteStep(view.tier, mode, view.standing.verdict, view.standing.why, is_at_hand)


_STRICTNESS = (Verify.OFF, Verify.OBSERVE, Verify.HOLD_TOOLS, Verify.HOLD_ALL)
_EXCLUSIONS = {
    "cloud_not_permitted": "requests do not go to the cloud ([router] allow_cloud)",
    "class_not_cloud": "requests of this class do not go to the cloud ([router] cloud_classes)",
    "key_not_cloud": "requests with this key do not go to the cloud",
    "gone": "its serve is no longer configured",
    "not_its_class": "it does not serve this class (its `classes`)",
    "context": "the request is longer than its context",
    "dialect": "it speaks no dialect that this request can be translated to",
}
_FAILURES = {
    "circuit_open": "it failed too often recently",
    "does_not_start": "its last start failed",
    "slot_paused": "its slot is paused, by an operator or for another program",
    "draining": "it is being drained",
}
