"""What is written down, in memory and on disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stoker.app.context import BuildContext
from stoker.app.resume import Residents
from stoker.store.decisions import DecisionLog
from stoker.store.events import RecentEvents
from stoker.store.metrics import Metrics
from stoker.store.paused_slots import PausedSlots
from stoker.store.responses import ResponseStore


@dataclass(frozen=True, slots=True)
class StoreParts:
    """Whatever keeps records."""

    writer: ThreadPoolExecutor
    """One thread, so that the last write wins."""
    decisions: DecisionLog
    metrics: Metrics
    events: RecentEvents
    residents: Residents
    pauses: PausedSlots
    responses: ResponseStore


def build_store(context: BuildContext) -> StoreParts:
    writer = ThreadPoolExecutor(1, "state")
    responses = ResponseStore(context.directory, context.clock.wall)
    responses.configure(context.settings.responses)
    return StoreParts(
        writer,
        DecisionLog(context.state.decisions_path, context.settings.paths.decisions, announce=context.options.announce),
        Metrics(),
        RecentEvents(context.clock.wall),
        Residents(context.directory, writer),
        PausedSlots(context.directory / "paused.json", writer),
        responses,
    )
