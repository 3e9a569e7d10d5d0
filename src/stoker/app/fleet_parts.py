"""The fleet: what starts, swaps and watches serves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stoker.app.configuration import placed_serves, placed_slots
from stoker.app.context import BuildContext
from stoker.domain.prediction import Prediction
from stoker.domain.protocols import EdgeTargets
from stoker.fleet.memory.devices import machine
from stoker.fleet.monitoring import EngineWork, ExternalServeFinder, WorkerMoves, health_check
from stoker.fleet.supervision.serve_registry import FleetContext
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.swapping.conductor import Conductor
from stoker.fleet.warm.keeper import WarmKeeper
from stoker.fleet.watchdog.probe import HttpProbe
from stoker.fleet.yielding import SlotYielder, look
from stoker.store.journal import SwapJournal

log = logging.getLogger("stoker.fleet")


@dataclass(frozen=True, slots=True)
class FleetParts:
    """Everything that runs serves, except the watchdog, which also needs to see requests."""

    warm: WarmKeeper
    supervisor: Supervisor
    journal: SwapJournal
    conductor: Conductor
    external: ExternalServeFinder
    moves: WorkerMoves
    probe: HttpProbe
    engine_work: EngineWork
    yielder: SlotYielder


def build_fleet(
    context: BuildContext, edges: EdgeTargets | None, predictions: Callable[[], Sequence[Prediction]] = tuple
) -> FleetParts:
    """Starts no serve. Pinned models are read into memory from here on. `predictions`: what is likely to be wanted
    next.
    """
    settings, clock, notify = context.settings, context.clock, context.notify
    serves = placed_serves(settings, context.active.current.machine)
    budget, predict = context.active.current.warm_budget, settings.warm.predict
    warm = WarmKeeper(budget, serves, log, predict, predictions=predictions)
    supervisor = Supervisor(
        FleetContext(
            settings.paths,
            clock,
            log,
            context.state.signing_key,
            context.active.slot,
            notify,
            edges=edges,
            cluster_of=context.active.cluster,
            table=lambda name: context.active.settings.extensions.get(name),
        ),
        warm,
        settings.conversations,
    )
    supervisor.conversations.reload(settings.conversations, serves)
    journal = SwapJournal(context.directory / "swaps")
    conductor = Conductor(placed_slots(settings), serves, supervisor, clock, notify, journal)
    conductor.force(context.options.force)
    probe = HttpProbe(supervisor.host_state)
    return FleetParts(
        warm,
        supervisor,
        journal,
        conductor,
        ExternalServeFinder(conductor, health_check(clock, edges)),
        WorkerMoves(conductor, supervisor.move_external, notify),
        probe,
        EngineWork(lambda: conductor.running, probe.counters),
        SlotYielder(conductor, partial(look, probe=machine(), ours=supervisor.pids), clock),
    )
