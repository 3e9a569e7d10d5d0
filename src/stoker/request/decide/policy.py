"""Which tiers may serve a task, in what order, and why. Pure, and never raises: an empty plan says why for each tier.

Each tier, in this order:

1. it may never serve this request (cloud is not permitted, the key may not use it, not its class, its context is too
   small, it speaks no dialect that fits)                       -> dropped
2. its verdict is deny (see `standing`)                         -> dropped: nothing brings it back
3. it asked for a pause (429 or 503 with Retry-After)           -> dropped until then, also where nobody else is left
4. it cannot serve just now (circuit open, it does not start)   -> last resort: only where nobody else is left
5. else                                                         -> a step

Steps go in this order: the class's own specialist; then who has proved good enough before who is only trusted or in
doubt; then who needs no other model to leave; then the cheaper; then the faster; then as they were written down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stoker.domain.task import UNKNOWN, Task
from stoker.domain.tier import Tier, Verdict, Verify
from stoker.request.decide.advice import advice
from stoker.request.decide.standing import Standing

RATE_LIMITED = "rate_limited"
"""The code of a tier that asked for a pause, and of a request that only such tiers may serve."""


class TierView(NamedTuple):
    """One tier, seen for one request."""

    tier: Tier
    standing: Standing
    excluded: str = ""
    """Why it may never serve this request; empty: it may."""
    unavailable: str = ""
    """Why it cannot serve just now; empty: it can."""
    is_loaded: bool = True
    displaces: bool = False
    """Another model would have to leave its slot first."""
    cost: float = 0.0
    """Of this request, as far as it can be told."""
    latency: float | None = None
    """Seconds, where they were measured."""
    pause: float = 0.0
    """Seconds until it may be asked again, by its own word. `pause_status`: the HTTP status that said so."""
    pause_status: int = 429


class RouteStep(NamedTuple):
    tier: Tier
    verify: Verify
    verdict: Verdict
    why: str
    is_at_hand: bool = False
    """It has proved good enough, is loaded, and displaces nothing."""


class Dropped(NamedTuple):
    tier: str
    code: str
    """One word: `denied`, `cloud_not_permitted`, `circuit_open` ..."""
    why: str
    serve: str = ""


class RoutePlan(NamedTuple):
    task: Task
    steps: tuple[RouteStep, ...]
    dropped: tuple[Dropped, ...]
    is_last_resort: bool = False
    """No tier is available; the steps are the tiers that are permitted but failing."""
    preferred_if_loaded: Tier | None = None
    """The tier that would go first if its model were loaded; None: it goes first."""
    classes: tuple[str, ...] = ()
    """The classes that it was made for, if the task has none: see `routing.classes`."""
    pause: float | None = None
    """Seconds until the first of the tiers that asked for a pause may be asked again; None: none asked."""
    pause_status: int = 429
    """With which that one said so."""

    def refusal(self) -> str:
        """Why nobody serves, tier by tier, and what may help."""
        reasons = "; ".join(f"{one.tier}: {one.why}" for one in self.dropped) or "no tier is configured"
        denied = [one for one in self.dropped if one.code == "denied"]
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


def plan_route(task: Task, looks: Iterable[TierView], specialist: str = "", classes: tuple[str, ...] = ()) -> RoutePlan:
    """`looks` in the order of the configuration. `specialist`: the tier that the class recommends. `classes`: what a
    tier has to be good enough at, if that is not the task's own class alone.
    """
    classes = classes or (task.name,)
    well: list[TierView] = []
    ailing: list[TierView] = []
    paused: list[TierView] = []
    dropped: list[Dropped] = []
    for look in looks:
        if look.excluded:
            dropped.append(Dropped(look.tier.name, look.excluded, _EXCLUSIONS.get(look.excluded, look.excluded)))  # 1
        elif look.standing.verdict is Verdict.DENY:
            dropped.append(Dropped(look.tier.name, "denied", look.standing.why, look.tier.serve))  # 2
        elif look.pause > 0:
            paused.append(look)
            why = f"it asked for a pause (HTTP {look.pause_status}): {math.ceil(look.pause)} s are left"
            dropped.append(Dropped(look.tier.name, RATE_LIMITED, why))  # 3
        elif look.unavailable:
            ailing.append(look)  # 4
        else:
            well.append(look)  # 5
    chosen = well or ailing
    if well:
        dropped += [
            Dropped(look.tier.name, look.unavailable, _AILING.get(look.unavailable, look.unavailable))
            for look in ailing
        ]
    chosen.sort(key=lambda look: _rank(look, specialist))
    steps = tuple(_step(look, classes) for look in chosen)
    first = min(paused, key=lambda look: look.pause, default=None)
    pause, status = (None, 429) if first is None else (first.pause, first.pause_status)
    is_last_resort = not well and bool(ailing)
    return RoutePlan(task, steps, tuple(dropped), is_last_resort, _ahead(well, specialist), classes, pause, status)


def _ahead(well: Sequence[TierView], specialist: str) -> Tier | None:
    if all(look.is_loaded for look in well):
        return None
    best = min(well, key=lambda look: _rank(look, specialist, is_loaded=True))
    return best.tier if best is not well[0] else None


def _rank(look: TierView, specialist: str, is_loaded: bool = False) -> tuple[bool, bool, bool, float, float]:
    """`is_loaded`: as if it were."""
    latency = look.latency if look.latency is not None else float("inf")
    is_proved, displaces = look.standing.is_proved, look.displaces
    if is_loaded and not look.is_loaded:
        is_proved, displaces = is_proved or look.standing.is_expected, False
    return look.tier.name != specialist, not is_proved, displaces, look.cost, latency


def _step(look: TierView, classes: Sequence[str]) -> RouteStep:
    """A measured allow is only watched; whoever is in doubt is checked as its tier says, of several classes by the
    strictest.
    """
    mode = max([look.tier.mode(name) for name in classes], key=_STRICTNESS.index)
    if look.standing.verdict is Verdict.ALLOW and not look.tier.cloud and mode is not Verify.OFF:
        mode = Verify.OBSERVE
    is_at_hand = look.standing.is_proved and look.is_loaded and not look.displaces
    return RouteStep(look.tier, mode, look.standing.verdict, look.standing.why, is_at_hand)


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
_AILING = {
    "circuit_open": "it failed too often recently",
    "does_not_start": "its last start failed",
    "draining": "it is being drained",
}
