"""One serve, from its launch to its end: its state, everything that belongs to it, and what is said of a start that
failed or of an exit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from stoker.domain.dialect import Dialect
from stoker.domain.errors import StartFailed, did_not_start
from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.domain.serve import Driver, Serve
from stoker.domain.serve_phase import FLEET_EVENTS, ServeEvent, ServePhase, next_phase
from stoker.engines.last_output import LastOutput, from_text, last_output, redact
from stoker.engines.readiness import CORRECT
from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.external import ExternalWatch
from stoker.fleet.drivers.process_group import describe_exit
from stoker.fleet.drivers.unit import Unit
from stoker.fleet.memory.ledger import MemorySize
from stoker.fleet.process.environment import is_secret
from stoker.fleet.process.identity import StartRecord

OnExit = Callable[[str, str], None]
SHORT_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL, at most, for what has nothing to finish: a start that is given up, a serve that
sleeps. One that the driver has suspended does not even see SIGTERM.
"""
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
    phase: ServePhase = ServePhase.STOPPED
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
    is_suspended: bool = False
    """The driver has suspended it, or may have: it answers nothing."""
    ended_unexpectedly: bool = False
    """Its process exited although Stoker did not ask it to. By the time the caller of `start` looks, the state may have
    moved on.
    """

    def apply(self, event: ServeEvent) -> None:
        """Change the phase. Raises IllegalEvent; then nothing has changed."""
        self.phase = next_phase(self.phase, event, FLEET_EVENTS)

    @property
    def has_group(self) -> bool:
        """Whether a daemon gave it a control group of its own."""
        return self.serve.driver in (Driver.COMPOSE, Driver.SYSTEMD)

    def members(self) -> list[int]:
        """Its processes; empty if they are not known here. Blocks for milliseconds, in any thread."""
        leader = self.unit.pid if self.unit is not None else None
        if leader is None:
            return []
        return process_group.unit_members(leader, self.has_group)

    @property
    def short_grace(self) -> float:
        """A stop command may need its time, and what it would have stopped must not stay."""
        return min(self.serve.stop_grace, SHORT_GRACE) if self.serve.stop is None else self.serve.stop_grace

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


_DETAIL = 400
_KILLED = "perhaps the kernel killed it because memory ran out: see `dmesg`"


def ended_while_starting(managed: ManagedServe, now: float) -> StartFailed:
    """The serve exited, or was stopped, before it was ready."""
    name = managed.serve.name
    if not managed.ended_unexpectedly:
        return StartFailed(f"serve '{name}' was stopped while it was starting", code="stopped")
    code = managed.unit.code if managed.unit is not None else None
    output = managed.last_output()
    after = now - managed.launched_at
    how = _ended_how(managed)
    if how and code is None:
        return StartFailed(f"serve '{name}' {how}" + (f": {output.text}" if output.text else ""), code="cannot_start")
    ended = f"{how or describe_exit(code)} after {after:.1f} s"
    if output.failure is not None:
        # The line that says why is enough; the others are in the log.
        text = f"{did_not_start(name)}{output.hint}; it {ended}: {output.failure.evidence}; {_log(managed)}"
        return StartFailed(text, code=output.failure.kind.value, remedy=f"{output.hint}; {_log(managed)}")
    advice = f"{_KILLED}; {_log(managed)}" if code == -9 else _log(managed)
    return StartFailed(f"serve '{name}' {ended}: {output.text or 'it printed nothing'}; {advice}", remedy=advice)


def not_ready_in_time(managed: ManagedServe, limit: float, last: str) -> StartFailed:
    """The serve was not ready in time. `last`: the result of the last probe."""
    serve = managed.serve
    if managed.unit is None and last.endswith("answered 503"):
        return StartFailed(
            f"serve '{serve.name}' is not ready at {serve.base_url} ({last}): it is probably still loading its model; "
            "try again, or read its log where it runs"
        )
    if managed.unit is None and last.endswith(("answered 401", "answered 403")):
        return StartFailed(f"serve '{serve.name}' at {serve.base_url} refuses its `key` ({last}): correct it")
    if managed.unit is None:
        return StartFailed(
            f"serve '{serve.name}' did not answer at {serve.base_url} within {limit:g} s ({last}): {CORRECT}"
        )
    output, advice = managed.last_output().text, "raise `ready_timeout` if it needs longer"
    return StartFailed(
        f"serve '{serve.name}' was not ready within {limit:g} s: {advice}; the last probe: {last}; its last output: "
        f"{output or 'none'}; {_log(managed)}",
        remedy=f"{advice}; {_log(managed)}",
    )


def wrong_answer(managed: ManagedServe, what: str) -> StartFailed:
    """The serve answers, but wrongly. `what` is the rest of the sentence."""
    return StartFailed(redact(f"serve '{managed.serve.name}' {what}", managed.secrets()))


def exit_text(managed: ManagedServe, code: int | None, now: float) -> str:
    """How a ready serve exited, and its last output: the `detail` of `on_exit`."""
    output = managed.last_output()
    text = f"{_ended_how(managed) or describe_exit(code)} after {now - managed.launched_at:.0f} s"
    return f"{text}: {output.text[-_DETAIL:]}" if output.text else text


def _ended_how(managed: ManagedServe) -> str:
    return managed.unit.ended_how if managed.unit is not None else ""


def _log(managed: ManagedServe) -> str:
    return f"`stoker serves logs {managed.serve.name}` has its log"
