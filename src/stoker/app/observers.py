"""What happened, and who does what then: the one place for all events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from stoker.app.configuration import ActiveConfiguration
from stoker.app.event_texts import move_text, swap_seconds, swap_text
from stoker.app.parts import ProgramParts
from stoker.domain.events import (
    AliasMoved,
    Event,
    ExtensionEvent,
    MemoryMeasured,
    OperatorActed,
    PredictionsChanged,
    PromotionWatchEnded,
    RollbackNotSaved,
    ServeAdopted,
    ServeDisconnected,
    ServeExited,
    ServeIdentified,
    ServeMoved,
    ServeParked,
    ServeRestarted,
    ServeSick,
    SlotPaused,
    SlotResumed,
    SwapEnded,
)
from stoker.domain.serve import IDENTITY_NOT_PROVED
from stoker.domain.swap import SwapReport

log = logging.getLogger("stoker.app")


class Observer:
    """Subscribes to the event bus once all parts are built. `announce` shows a line to whoever started the program."""

    def __init__(self, parts: ProgramParts, active: ActiveConfiguration, announce: Callable[[str], None]) -> None:
        self._store = parts.store
        self._note = parts.store.events.note
        self._fleet = parts.fleet
        self._gateway = parts.gateway
        self._watchdog = parts.watchdog
        self._access = parts.access
        self._active = active
        self._announce = announce
        self._announced_failures: set[str] = set()

    def on_event(self, event: Event) -> None:
        match event:
            case SwapEnded(report):
                self._on_swap(report)
            case ServeAdopted(serve, is_identified):
                without = "" if is_identified else f"; {IDENTITY_NOT_PROVED}"
                self._announce(f"adopted {serve}, which was still running{without}")
                self._note("adopted", serve, f"it was still running{without}")
            case ServeExited(serve, detail):
                self._note("exited", serve, detail)
                state = self._fleet.conductor.scheduler.serves.get(serve)
                if state is None or state.serve.box_place is None:  # a machine that is lost says nothing of its serves
                    self._watchdog.exited(serve, detail)
                self._fleet.external.on_lost(serve)
            case ServeDisconnected(host, port):
                self._gateway.pool.drop(host, port)
            case ServeMoved(serve, old, new):
                log.info("serve %s moved from %s to %s", serve, old, new)
                self._note("moved", serve, f"its worker moved from {old} to {new}")
            case ServeRestarted(serve, reason):
                self._note("restarted", serve, reason)
            case ServeSick(serve, reason):
                self._note("sick", serve, reason)
            case ServeParked(serve, reason):
                self._note("parked", serve, reason)
            case SlotPaused(slot, reason):
                self._note("paused", "", f"slot {slot}: {reason}")
                self._store.pauses.remember(self._fleet.conductor.pauses())
            case SlotResumed(slot, reason, still_paused):
                rest = f"; it stays paused: {still_paused}" if still_paused else ""
                self._note("resumed", "", f"slot {slot}: {reason}{rest}")
                self._store.pauses.remember(self._fleet.conductor.pauses())
            case MemoryMeasured(serve, size):
                self._fleet.conductor.set_measured_size(serve, size)
            case OperatorActed(serve):
                self._watchdog.forget(serve)
            case ServeIdentified() | PromotionWatchEnded() | ExtensionEvent():
                pass  # for extensions
            case PredictionsChanged():
                self._fleet.supervisor.end_sleepers(self._fleet.warm.on_predictions_changed())
            case AliasMoved():
                flow, names = self._gateway.flow, self._gateway.setup.names(self._active.settings)
                flow.configure(replace(flow.settings, names=names))
                self._note(event.cause.value, event.serve, move_text(event))
            case RollbackNotSaved(serve, problem):
                self._note("rollback", serve, f"the rollback was not saved: {problem}")
            case _:
                assert_never(event)

    def _on_swap(self, report: SwapReport) -> None:
        metrics = self._store.metrics
        name = report.serve or ",".join(report.victims)
        metrics.observe_swap(name, report.slot, report.outcome, report.phases, report.start_kind)
        seconds = swap_seconds(report)
        log.info("swap %d: %s %s after %.3f s %s", report.swap_id, name, report.outcome, seconds, report.phases)
        self._note(report.outcome, name, swap_text(report))
        if report.serve is None:
            return
        if report.key:
            self._access.store.usage.record_swap(report.key, self._access.app_of(report.key), report.serve, seconds)
        if report.outcome == "ready":
            self._store.residents.remember(report.slot, report.serve)
            self._announced_failures.discard(report.serve)
        elif report.outcome == "failed":
            metrics.observe_load_failure(report.serve)
            self._announce_failure(report.serve, report.error or "")

    def _announce_failure(self, serve: str, error: str) -> None:
        """Once, and only of serves that nobody asked for: for the others a request or an operator has the error."""
        known = self._fleet.conductor.residency.serve(serve)
        if known is not None and known.keep_loaded and serve not in self._announced_failures:
            self._announced_failures.add(serve)
            self._announce(f"{serve} did not start: {error}")
