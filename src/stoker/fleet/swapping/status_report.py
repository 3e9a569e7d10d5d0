"""The fleet as `/status` shows it: a snapshot for people and programs."""

from __future__ import annotations

import time
from typing import Any

from stoker.domain.serve_phase import ServePhase
from stoker.fleet.swapping.conductor import Conductor
from stoker.request.lease.eviction import cost_decides, evict_cost
from stoker.request.lease.state import ServeState, SlotState, Swap, SwapKind
from stoker.request.lease.timing import timing


def slots(conductor: Conductor, now: float) -> list[dict[str, Any]]:
    """One entry per configured slot. Serves without a slot are in none."""
    slot_states = conductor.scheduler.slots.values()
    return [_slot(conductor, slot_state, now) for slot_state in slot_states if not slot_state.slot.name.startswith("~")]


def serves(conductor: Conductor, now: float) -> list[dict[str, Any]]:
    """One entry per serve, in configuration order."""
    return [_serve(conductor, state, now) for state in conductor.scheduler.serves.values()]


def model_slot(conductor: Conductor) -> dict[str, Any] | None:
    """The resident of the first slot, as single-slot tools expect it."""
    for slot_state in conductor.scheduler.slots.values():
        for state in slot_state.serves:
            if state.phase in (ServePhase.READY, ServePhase.DRAINING):
                return {
                    "name": state.name,
                    "modalities": list(state.serve.modalities),
                    "status": state.serve.status.value,
                }
    return None


def _slot(conductor: Conductor, slot_state: SlotState, now: float) -> dict[str, Any]:
    swap = next((s for s in slot_state.swaps.values()), None)
    return {
        "name": slot_state.slot.name,
        "devices": list(slot_state.slot.devices),
        "cluster": slot_state.slot.cluster,
        "box": slot_state.slot.box or None,
        "gpus": slot_state.slot.gpus if slot_state.slot.cluster is not None else None,
        "node": dict(slot_state.slot.node),
        "memory": slot_state.slot.memory,
        "together": [sorted(group) for group in slot_state.slot.together],
        "idle_serve": slot_state.slot.idle_serve,
        "idle_serve_after": slot_state.slot.idle_serve_after if slot_state.slot.idle_serve is not None else None,
        "evict_costs": _evict_costs(slot_state),
        "resident": [s.name for s in slot_state.serves if s.phase in (ServePhase.READY, ServePhase.DRAINING)],
        "memory_used": _used(slot_state),
        "paused": slot_state.pause_reason or None,
        "paused_by": [cause.value for cause in slot_state.pauses],
        "yields_to": list(slot_state.slot.yields_to),
        "yields_above": slot_state.slot.yields_above,
        "swap": _swap(conductor, swap, now) if swap is not None else None,
        "swaps": slot_state.swaps_made,
        "waiting": sum(len(state.queue) for state in slot_state.serves),
    }


def _evict_costs(slot_state: SlotState) -> dict[str, float]:
    """What stopping each serve costs, where that decides who stops: configured, else the seconds of its swaps."""
    if not cost_decides(slot_state):
        return {}
    return {state.name: round(evict_cost(state), 3) for state in slot_state.serves}


def _used(slot_state: SlotState) -> int | None:
    """Bytes that the residents hold: measured, else declared. None: neither is known for one of them."""
    total = 0
    for state in slot_state.serves:
        if state.phase is not ServePhase.STOPPED:
            size = state.serve.memory if state.measured is None else state.measured
            if size is None:
                return None
            total += size
    return total


def _swap(conductor: Conductor, swap: Swap, now: float) -> dict[str, Any]:
    is_draining = swap.run_at is None
    stopping = [v.name for v in swap.victims if v.phase is not ServePhase.STOPPED]
    if is_draining:
        phase = "draining"
    elif swap.swap_id in conductor.checking:
        phase = "checking"
    elif swap.kind in (SwapKind.RESTORE, SwapKind.BASELINE):
        phase = "restoring"
    else:
        phase = "starting" if swap.target is not None else "stopping"
    return {
        "generation": swap.swap_id,
        "target": swap.target.name if swap.target is not None else None,
        "stopping": stopping,
        "phase": phase,
        "elapsed": round(now - (swap.decided_at if swap.run_at is None else swap.run_at), 3),
        "drain_wait": round(max(0.0, swap.drain_deadline - now), 3) if is_draining else None,
        "expected": round(timing(swap.target).swap_time, 3) if swap.target is not None else None,
    }


def _serve(conductor: Conductor, state: ServeState, now: float) -> dict[str, Any]:
    serve = state.serve
    running = conductor.running.get(serve.name)
    limits = timing(state)
    return {
        "name": serve.name,
        "engine": serve.engine,
        "model": serve.model,
        "served_name": serve.served_name or serve.name,
        "aliases": [*serve.aliases, *serve.alias_patterns],
        "slot": serve.slot,
        "replica_of": serve.replica_of or None,
        "status": serve.status.value,
        "reason": serve.reason,
        "modalities": list(serve.modalities),
        "purpose": serve.purpose,
        "state": _state(state, now),
        "step": conductor.start_step(serve.name) or None,
        "in_flight": len(state.leases),
        "queued": len(state.queue),
        "max_active": serve.max_active,
        "pid": running.pid if running is not None else None,
        "port": running.target.port if running is not None else None,
        "uptime": round(max(0.0, time.time() - running.started_at), 3) if running is not None else None,
        "swap_seconds": round(limits.swap_time, 3),
        "swap_seconds_assumed": limits.assumed,
        "memory": serve.memory,
        "context": serve.context,
        "auto_context": serve.auto_context,
        "context_problem": serve.context_problem or None,
        "facts": running.facts if running is not None else {},
        "backoff": round(state.backoff_until - now, 3) if state.backoff_until > now else None,
        "last_error": state.last_error.message if state.last_error is not None else None,
        "dialects": sorted(serve.dialects),
        "identity": serve.identity.value,
        "driver": serve.driver.value,
        "cloud": serve.translation.cloud,
        "keep_loaded": serve.keep_loaded,
        "min_replicas": serve.min_replicas,
        "fallback": serve.fallback,
        "min_tokens_per_second": serve.min_tokens_per_second,
        "parked": state.parked or None,
        "paused": state.pause_reason or None if state.is_paused else None,
        "cannot_load": state.cannot_load.reason if state.cannot_load is not None else None,
        "failed_start": (state.cannot_load.failure or None) if state.cannot_load is not None else None,
        "measured": state.measured if state.phase is not ServePhase.STOPPED else None,
    }


def _state(state: ServeState, now: float) -> str:
    if state.phase is ServePhase.STOPPED and state.parked:
        return "parked"
    if state.phase is ServePhase.STOPPED and state.is_paused:
        return "paused"
    if state.cannot_load is not None:
        return "cannot_load"
    if state.phase is ServePhase.STOPPED and state.backoff_until > now:
        return "backoff"
    if state.phase is ServePhase.READY and state.is_held:
        return "held"
    return state.phase.value
