"""What is loaded, what a switch would do now, and what could be loaded beside it. Only answers: changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from stoker.domain.errors import StokerError
from stoker.domain.serve import Serve, Status
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease import refusals
from stoker.request.lease.eviction import DoesNotFit, FitsAfter, fits, victims_for
from stoker.request.lease.scheduler import Scheduler
from stoker.request.lease.state import ReplicaSet, ServeState

_BEST_FIRST = (
    ServePhase.READY, ServePhase.STARTING, ServePhase.DRAINING, ServePhase.STOPPING, ServePhase.STOPPED,
)  # fmt: skip


class Residency:
    """Answers questions about the serves, by the names that clients use and by those of replicas. The conductor makes
    the one that the program uses.
    """

    def __init__(self, states: Mapping[str, ServeState], replica_sets: Mapping[str, ReplicaSet] | None = None) -> None:
        self._states = states
        self._replica_sets = {} if replica_sets is None else replica_sets

    def _of(self, name: str) -> Sequence[ServeState]:
        """All replicas; empty: there is no such serve."""
        state = self._states.get(name)
        if state is not None:
            return (state,)
        replica_set = self._replica_sets.get(name)
        return () if replica_set is None else replica_set.replicas

    def is_loaded(self, name: str) -> bool:
        """Whether it is ready; of several replicas one."""
        return any(state.phase is ServePhase.READY for state in self._of(name))

    def serve(self, name: str) -> Serve | None:
        """The configuration with which a serve, or its first replica, runs now; None: no such serve."""
        return next((state.serve for state in self._of(name)), None)

    def phase(self, name: str) -> str:
        """The name of a ServePhase: `ready`, `draining` and others; `stopped` also for an unknown serve. Of several
        replicas that of the one which is the most ready.
        """
        phases = {state.phase for state in self._of(name)}
        return next((phase.value for phase in _BEST_FIRST if phase in phases), ServePhase.STOPPED.value)

    def can_preload(self, name: str) -> bool:
        """Whether a serve is stopped, may be started, and fits without evicting another one."""
        states = self._of(name)
        if not all(state.phase is ServePhase.STOPPED for state in states):
            return False
        return any(not state.is_left_alone() and not state.is_held and fits(state) for state in states)

    def displaces(self, name: str) -> bool:
        """Whether a resident would have to stop before this serve can run."""
        states = self._of(name)
        is_stopped = all(state.phase is ServePhase.STOPPED for state in states)
        return bool(states) and is_stopped and not any(fits(state) for state in states)

    def unavailable_reason(self, name: str, now: float) -> str:
        """Why a serve takes no requests now: `does_not_start`, `draining` or `slot_paused`; empty: it does, once it
        is loaded. Of several replicas: why none of them does.
        """
        reasons = [_unavailable_reason(state, now) for state in self._of(name)]
        return min(reasons, default="does_not_start")


def _unavailable_reason(state: ServeState, now: float) -> str:
    if state.is_paused:
        return refusals.SLOT_PAUSED
    if state.is_left_alone() or state.removed or state.backoff_until > now:
        return "does_not_start"
    return "draining" if state.is_held else ""


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
    if scheduler.state.closing:
        return SwitchPreview(name, refusal=refusals.shutting_down())
    if state.removed:
        return SwitchPreview(name, refusal=refusals.removed(name))
    if state.is_paused and not state.is_only_suspended():
        return SwitchPreview(name, refusal=refusals.slot_paused(state))
    if state.phase is not ServePhase.STOPPED:
        return SwitchPreview(name, is_ready=state.phase is ServePhase.READY, waits=state.phase is not ServePhase.READY)
    fit = victims_for(state)
    if isinstance(fit, DoesNotFit):
        return SwitchPreview(name, refusal=refusals.no_fit(fit))
    if isinstance(fit, FitsAfter) or (fit.serves and state.is_clearing()):
        return SwitchPreview(name, waits=True)
    return SwitchPreview(name, victims=tuple(victim.name for victim in fit.serves))


def loadable(scheduler: Scheduler) -> list[str]:
    """Every serve that can be loaded without stopping another one, in this order: those to keep loaded, the baselines
    of their slots, those in production, the others; each by the order of the configuration.

    Each fits beside what is loaded and those before it. Of a serve with several places one replica is enough. Serves
    that are rejected, blocked, parked, drained, or cannot load have to be named.
    """
    chosen: list[ServeState] = []
    if scheduler.state.closing:
        return []
    for state in sorted(scheduler.serves.values(), key=_by_importance):
        replicas = (state,) if state.replica_set is None else tuple(state.replica_set.replicas)
        is_up = any(replica in chosen or replica.phase in _UP for replica in replicas)
        if not is_up and _may_load(state) and fits(state, chosen):
            chosen.append(state)
    return [state.name for state in chosen]


def unchecked_loadable(scheduler: Scheduler) -> Iterator[list[str]]:
    """Those of `loadable` that were not yielded before, until there is none: the caller checks them, and tells the
    scheduler which cannot load, since others may fit in their place. Then `loadable` is true of this machine.
    """
    checked: set[str] = set()
    while new := [name for name in loadable(scheduler) if name not in checked]:
        checked.update(new)
        yield new


def _may_load(state: ServeState) -> bool:
    return state.phase is ServePhase.STOPPED and state.takes_requests() and not state.serve.needs_force


def _by_importance(state: ServeState) -> tuple[bool, bool, bool, int]:
    serve = state.serve
    is_baseline = any(slot_state.slot.baseline == state.name for slot_state in state.slot_states)
    return not serve.keep_loaded, not is_baseline, serve.status is not Status.PRODUCTION, state.number
