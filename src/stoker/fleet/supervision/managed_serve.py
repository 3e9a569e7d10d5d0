"""One serve, from its launch to its end: its state, and everything that belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.domain.serve import Serve
from stoker.engines.last_output import LastOutput, from_text, last_output
from stoker.fleet.drivers.external import ExternalWatch
from stoker.fleet.drivers.unit import Unit
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
    target: Target
    launched_at: float
    """When it was launched or adopted, by the clock."""
    started_at: float
    """Unix time."""
    record: StartRecord | None = None
    log: Path | None = None
    log_start: int = 0
    """Where this start's own output begins in the log."""
    state: LifecycleState = LifecycleState.STOPPED
    unit: Unit | None = None
    watch: ExternalWatch | None = None
    stop_probing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its main process exited, or the start of an external serve is given up: probing ends then."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no process of it is left: the serve may be started again."""
    start_kind: str = "cold"
    """What it was started from; see Running."""
    measured: MemorySize | None = None
    """The memory of its slot that it held when it was last measured."""
    engine_output: str = ""
    """Its last output, fetched when its start failed; only for a serve whose log Stoker does not write."""
    weights_answer: str | None = None
    """Its answer to the weights probe before it was put to sleep."""
    ended_unexpectedly: bool = False
    """Its process exited although Stoker did not ask it to. By the time the caller of `start` looks, the state may have
    moved on.
    """

    def apply(self, event: LifecycleEvent) -> None:
        """Change the state. Raises IllegalEvent; then nothing has changed."""
        self.state = advance(self.state, event)

    def running(self, facts: dict[str, str | int | float]) -> Running:
        target = replace(
            self.target,
            speaks=_dialects(facts.get("speaks")),
            system_turns=str(facts["system_turns"]) if "system_turns" in facts else None,
        )
        pid = self.unit.pid if self.unit is not None else None
        return Running(self.serve, target, pid, self.started_at, facts, self.start_kind)

    def secrets(self) -> list[str]:
        """The values to remove from the engine's output before it is shown."""
        own = [self.target.key, self.serve.key.reveal() if self.serve.key else None]
        own += [value for name, value in self.serve.env.items() if is_secret(name) and len(value) >= _SHORTEST_SECRET]
        return [value for value in own if value]

    def last_output(self) -> LastOutput:
        code = self.unit.code if self.unit is not None else None
        if self.log is None:
            return from_text(self.engine_output, self.secrets(), self.serve.engine, code)
        return last_output(self.log, self.log_start, self.secrets(), self.serve.engine, code)


def _dialects(fact: str | int | float | None) -> frozenset[Dialect] | None:
    """Reads the fact that `engines.capabilities` writes."""
    return frozenset(map(Dialect, fact.split(","))) if isinstance(fact, str) else None
