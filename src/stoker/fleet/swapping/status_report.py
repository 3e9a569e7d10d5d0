"""The fleet as `/status` shows it: a snapshot for people and programs; it decides nothing."""

from __future__ import annotations

import time
from typing import Any

from stoker.fleet.swapping.conductor import Conductor
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ServeState, SlotState, Swap, SwapKind
from stoker.request.lease.timing import timing


def slots(conductor: Conductor, now: float) -> list[dict[str, Any]]:
    """One entry per configured slot (a serve without a slot has none)."""
    rooms = conductor.scheduler.slots.values()
    return [_slot(conductor, room, now) for room in rooms if not room.slot.name.startswith("~")]


def serves(conductor: Conductor, now: float) -> list[dict[str, Any]]:
    """One entry per serve, in configuration order."""
    return [_serve(conductor, seat, now) for seat in conductor.scheduler.serves.values()]


def model_slot(conductor: Conductor) -> dict[str, Any] | None:
    """The resident of the first slot, as single-slot tools expect it."""
    for room in conductor.scheduler.slots.values():
        for seat in room.serves:
            if seat.phase in (ServePhase.READY, ServePhase.DRAINING):
                return {
                    "name": seat.name,
                    "modalities": list(seat.serve.modalities),
                    "status": seat.serve.status.value,
                }
    return None


def _slot(conductor: Conductor, room: SlotState, now: float) -> dict[str, Any]:
    swap = next((s for s in room.swaps.values()), None)
    return {
        "name": room.slot.name,
        "devices": list(room.slot.devices),
        "memory": room.slot.memory,
        "resident": [s.name for s in room.serves if s.phase in (ServePhase.READY, ServePhase.DRAINING)],
        "memory_used": _used(room),
        "swap": _swap(conductor, swap, now) if swap is not None else None,
        "swaps": room.swaps_made,
        "waiting": sum(len(seat.queue) for seat in room.serves),
    }


def _used(room: SlotState) -> int | None:
    """What the residents hold, measured where it could be, else declared. None: of one of them nothing is known."""
    total = 0
    for seat in room.serves:
        if seat.phase is not ServePhase.STOPPED:
            size = seat.serve.memory if seat.measured is None else seat.measured
            if size is None:
                return None
            total += size
    return total


def _swap(conductor: Conductor, swap: Swap, now: float) -> dict[str, Any]:
    is_draining = swap.run_at is None
    stopping = [v.name for v in swap.victims if v.phase is not ServePhase.STOPPED]
    if is_draining:
        phase = "draining"
    elif swap.generation in conductor.examining:
        phase = "checking"
    elif swap.kind in (SwapKind.RESTORE, SwapKind.BASELINE):
        phase = "restoring"
    else:
        phase = "starting" if swap.target is not None else "stopping"
    return {
        "generation": swap.generation,
        "target": swap.target.name if swap.target is not None else None,
        "stopping": stopping,
        "phase": phase,
        "elapsed": round(now - swap.decided_at, 3),
        "drain_wait": round(max(0.0, swap.drain_deadline - now), 3) if is_draining else None,
        "expected": round(timing(swap.target).swap_time, 3) if swap.target is not None else None,
    }


def _serve(conductor: Conductor, seat: ServeState, now: float) -> dict[str, Any]:
    serve = seat.serve
    running = conductor.running.get(serve.name)
    limits = timing(seat)
    return {
        "name": serve.name,
        "engine": serve.engine,
        "model": serve.model,
        "served_name": serve.served_name or serve.name,
        "aliases": list(serve.aliases),
        "slot": serve.slot,
        "status": serve.status.value,
        "state": _state(seat, now),
        "in_flight": len(seat.leases),
        "queued": len(seat.queue),
        "max_active": serve.max_active,
        "pid": running.pid if running is not None else None,
        "port": running.target.port if running is not None else None,
        "uptime": round(max(0.0, time.time() - running.started_at), 3) if running is not None else None,
        "swap_seconds": round(limits.swap_time, 3),
        "swap_seconds_assumed": limits.assumed,
        "memory": serve.memory,
        "facts": running.facts if running is not None else {},
        "backoff": round(seat.backoff_until - now, 3) if seat.backoff_until > now else None,
        "last_error": seat.last_error.message if seat.last_error is not None else None,
        "dialects": sorted(serve.dialects),
        "driver": serve.driver.value,
        "cloud": serve.translation.cloud,
        "keep_loaded": serve.keep_loaded,
        "fallback": serve.fallback,
        "min_tokens_per_second": serve.min_tokens_per_second,
        "parked": seat.parked or None,
        "measured": seat.measured if seat.phase is not ServePhase.STOPPED else None,
    }


def _state(seat: ServeState, now: float) -> str:
    if seat.phase is ServePhase.STOPPED and seat.parked:
        return "parked"
    if seat.phase is ServePhase.STOPPED and seat.backoff_until > now:
        return "backoff"
    if seat.phase is ServePhase.READY and seat.held:
        return "held"
    return seat.phase.value
