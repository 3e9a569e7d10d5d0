"""What a switch would do now, and which serves could be loaded beside what is. Only answers: changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from stoker.domain.errors import StokerError
from stoker.domain.serve import Status
from stoker.request.lease import refusals
from stoker.request.lease.eviction import Later, Never, fits, victims_for
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.scheduler import Scheduler
from stoker.request.lease.state import ServeState

_UP = (ServePhase.READY, ServePhase.STARTING)


class SwitchPreview(NamedTuple):
    """What `on_switch` would do now."""

    name: str
    """The serve; of one with several places, the replica."""
    is_ready: bool = False
    """Nothing: it is loaded."""
    victims: tuple[str, ...] = ()
    """Who would be stopped, the cheapest to lose first."""
    waits: bool = False
    """Something starts or stops there now: who has to stop shows when that has ended."""
    refusal: StokerError | None = None


def preview_switch(scheduler: Scheduler, name: str) -> SwitchPreview:
    """Raises KeyError for an unknown serve."""
    state = scheduler.serves[name]
    if scheduler.closing:
        return SwitchPreview(name, refusal=refusals.shutting_down())
    if state.removed:
        return SwitchPreview(name, refusal=refusals.removed(name))
    if state.phase is not ServePhase.STOPPED:
        return SwitchPreview(name, is_ready=state.phase is ServePhase.READY, waits=state.phase is not ServePhase.READY)
    fit = victims_for(state)
    if isinstance(fit, Never):
        return SwitchPreview(name, refusal=refusals.no_fit(fit))
    if isinstance(fit, Later) or (fit.serves and state.is_clearing()):
        return SwitchPreview(name, waits=True)
    return SwitchPreview(name, victims=tuple(victim.name for victim in fit.serves))


def loadable(scheduler: Scheduler) -> list[str]:
    """Every serve that can be loaded without stopping another one, in this order: those to keep loaded, the baselines
    of their slots, those in production, the others; each by the order of the configuration.

    Each fits beside what is loaded and those before it. Of a serve with several places one replica is enough. Serves
    that are rejected, blocked, parked, drained, or cannot load have to be named.
    """
    chosen: list[ServeState] = []
    if scheduler.closing:
        return []
    for state in sorted(scheduler.serves.values(), key=_by_importance):
        replicas = (state,) if state.replica_set is None else tuple(state.replica_set.replicas)
        is_up = any(one in chosen or one.phase in _UP for one in replicas)
        if not is_up and _may_load(state) and fits(state, chosen):
            chosen.append(state)
    return [state.name for state in chosen]


def _may_load(state: ServeState) -> bool:
    return state.phase is ServePhase.STOPPED and state.takes_requests() and not state.serve.needs_force


def _by_importance(state: ServeState) -> tuple[bool, bool, bool, int]:
    serve = state.serve
    is_baseline = any(slot_state.slot.baseline == state.name for slot_state in state.slot_states)
    return not serve.keep_loaded, not is_baseline, serve.status is not Status.PRODUCTION, state.number
