"""One serve, from launch to its end: its state, and everything that belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.domain.serve import Serve
from stoker.fleet.drivers.external import ExternalWatch
from stoker.fleet.drivers.unit import Unit
from stoker.fleet.engines.last_output import LastOutput, from_text, last_output
from stoker.fleet.memory.ledger import MemorySize
from stoker.fleet.process.environment import is_secret
from stoker.fleet.process.start_records import StartRecord
from stoker.fleet.supervision.lifecycle import LifecycleEvent, LifecycleState, advance

OnExit = Callable[[str, str], None]
_SHORTEST_SECRET = 6


@dataclass(slots=True, eq=False)
class ManagedServe:
    """A serve that Stoker started has `unit` and `record`; an external one has `watch` once it is ready."""

    serve: Serve
    on_exit: OnExit
    address: Target
    launched_at: float
    """The clock's time of the launch; for an adopted serve, of its adoption."""
    started_at: float
    """Unix time."""
    record: StartRecord | None = None
    log: Path | None = None
    log_start: int = 0
    """Where this start's own output begins in the log."""
    state: LifecycleState = LifecycleState.STOPPED
    unit: Unit | None = None
    watch: ExternalWatch | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the leader ended, or when an external serve's start is given up: ends the probing."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nothing is left, so that the same serve may be started again."""
    start_kind: str = "cold"
    """What it was started from; see Running."""
    measured: MemorySize | None = None
    """What it was last seen to hold of its slot."""
    engine_output: str = ""
    """Its last output, for a serve without a log file of Stoker's; fetched when its start has failed."""
    weights_answer: str | None = None
    """What it answered to a fixed question before it fell asleep."""
    ended_unexpectedly: bool = False
    """The process ended without a request. The state may have moved on before the caller of `start` looks at it."""

    def apply(self, event: LifecycleEvent) -> None:
        """Raises IllegalEvent, and changes nothing then."""
        self.state = advance(self.state, event)

    def running(self, facts: dict[str, str | int | float]) -> Running:
        target = replace(
            self.address,
            speaks=_spoken(facts.get("speaks")),
            system_turns=str(facts["system_turns"]) if "system_turns" in facts else None,
        )
        pid = self.unit.pid if self.unit is not None else None
        return Running(self.serve, target, pid, self.started_at, facts, self.start_kind)

    def secrets(self) -> list[str]:
        """What must not be shown of what the engine says."""
        own = [self.address.key, self.serve.key.reveal() if self.serve.key else None]
        own += [value for name, value in self.serve.env.items() if is_secret(name) and len(value) >= _SHORTEST_SECRET]
        return [value for value in own if value]

    def last_output(self) -> LastOutput:
        code = self.unit.code if self.unit is not None else None
        if self.log is None:
            return from_text(self.engine_output, self.secrets(), self.serve.engine, code)
        return last_output(self.log, self.log_start, self.secrets(), self.serve.engine, code)


def _spoken(fact: str | int | float | None) -> frozenset[Dialect] | None:
    """As `engines.capabilities` writes it."""
    return frozenset(map(Dialect, fact.split(","))) if isinstance(fact, str) else None
