"""Bringing serves up and down through a running Stoker, and what came of each."""

from __future__ import annotations

from dataclasses import dataclass, field

import typer

from stoker.cli.console import figures, load_progress, terminal
from stoker.cli.console.answers import StatusAnswer, SwitchAnswer
from stoker.cli.console.control import Control
from stoker.cli.console.installation import Installation
from stoker.domain.access import Settings
from stoker.domain.errors import StokerError
from stoker.domain.serve import Status as Standing

INTERRUPTED = 130


@dataclass(slots=True)
class LoadOutcome:
    """What became of each serve that was asked for."""

    done: list[dict[str, object]] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)
    failed: list[dict[str, object]] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        return {"done": self.done, "left_alone": self.left_alone, "failed": self.failed}

    def fail(self, name: str, error: StokerError, quiet: bool) -> None:
        self.failed.append({"serve": name, "error": {"message": error.message, "code": error.code}})
        if not quiet:
            terminal.note(f"stoker: {name}: {error.message}")


def load_serves(
    installation: Installation, names: list[str], force: bool, drain_timeout: float | None, quiet: bool
) -> LoadOutcome:
    """Load each of `names` in turn and show progress; one that is ready already is left alone.

    A refusal of one does not keep the others from their turn. Raises NotRunning before anything was asked for.
    """
    outcome = LoadOutcome()
    control = installation.control()
    for name in names:
        serve = control.status().serve(name)
        if serve is not None and serve.state == "ready":
            outcome.left_alone.append(name)
            if not quiet:
                terminal.say(f"{name} is already ready")
            continue

        def work(worker: Control, name: str = name) -> SwitchAnswer:
            return worker.switch(name, force, drain_timeout)

        try:
            switched = load_progress.watch(control, name, work, quiet)
        except StokerError as error:
            outcome.fail(name, error, quiet)
            continue
        except KeyboardInterrupt:
            terminal.note(f"stopped watching {name}; `stoker slot status` shows the swap")
            raise typer.Exit(INTERRUPTED) from None
        outcome.done.append({"serve": name, "seconds": switched.seconds, "phases": switched.phases})
        if not quiet:
            terminal.say(_ready_line(name, switched))
    return outcome


def unload_serves(
    installation: Installation, names: list[str], drain_timeout: float | None, quiet: bool
) -> LoadOutcome:
    """Drain and stop each of `names` in turn; one that is stopped already is left alone."""
    outcome = LoadOutcome()
    control = installation.control()
    for name in names:
        serve = control.status().serve(name)
        if serve is not None and serve.is_gone:
            outcome.left_alone.append(name)
            if not quiet:
                terminal.say(f"{name} is already stopped")
            continue

        def work(worker: Control, name: str = name) -> dict[str, object]:
            return worker.unload(name, drain_timeout)

        try:
            load_progress.watch(control, name, work, quiet)
        except StokerError as error:
            outcome.fail(name, error, quiet)
            continue
        except KeyboardInterrupt:
            terminal.note(f"stopped watching {name}; `stoker serves status {name}` shows its state")
            raise typer.Exit(INTERRUPTED) from None
        outcome.done.append({"serve": name})
        if not quiet:
            terminal.say(f"{name} is stopped")
    return outcome


def serves_to_load(settings: Settings | None, status: StatusAnswer) -> list[str]:
    """What `serves up` without a name brings up: whatever can be resident without throwing anybody out.

    1. Serves that no slot holds, and those that are kept loaded.
    2. For a slot that is empty: its baseline, else its first serve with status production.
    Rejected and blocked serves have to be named.
    """
    kept = {s.name for s in settings.serves if s.keep_loaded} if settings else set()
    baselines = {s.name: s.baseline for s in settings.slots} if settings else {}
    willing = [s for s in status.serves if s.status not in (Standing.REJECTED, Standing.BLOCKED)]
    names = [s.name for s in willing if s.slot is None or s.name in kept]
    for slot in status.slots:
        here = [s for s in willing if s.slot == slot.name]
        if slot.resident or slot.swap or any(s.name in kept for s in here):
            continue
        first = [s.name for s in here if s.name == baselines.get(slot.name)]
        first += [s.name for s in here if s.status == Standing.PRODUCTION]
        names += first[:1]
    return names


def _ready_line(name: str, switched: SwitchAnswer) -> str:
    phases = [f"{phase} {figures.seconds(spent)}" for phase, spent in switched.phases.items() if spent]
    return f"{name} is ready after {figures.seconds(switched.seconds)}" + (f" ({', '.join(phases)})" if phases else "")
