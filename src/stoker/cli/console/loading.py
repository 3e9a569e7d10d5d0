"""Loads and unloads serves through a running Stoker, with progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import typer

from stoker.cli.console import figures, load_progress, terminal
from stoker.cli.console.answers import ServeStatus, SwitchAnswer
from stoker.cli.console.control import Control
from stoker.cli.console.installation import Installation
from stoker.domain.errors import StokerError

INTERRUPTED = 130


@dataclass(slots=True)
class LoadOutcome:
    done: list[dict[str, object]] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)
    failed: list[dict[str, object]] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        return {"done": self.done, "left_alone": self.left_alone, "failed": self.failed}

    def fail(self, name: str, error: StokerError, quiet: bool) -> None:
        self.failed.append({"serve": name, "error": {"message": error.message, "code": error.code}})
        if not quiet:
            terminal.note(f"stoker: {name}: {error.message}")


@dataclass(frozen=True, slots=True)
class _Step:
    run: Callable[[Control, str], SwitchAnswer | None]
    is_done: Callable[[list[ServeStatus]], bool]
    already: str
    """What a serve is that needs no step."""
    watch_with: str
    """The command that shows how it goes on after Ctrl-C."""


def load_serves(
    installation: Installation,
    names: list[str],
    force: bool,
    drain_timeout: float | None,
    quiet: bool,
    evict: bool = True,
) -> LoadOutcome:
    """Load each of `names` in turn, with progress. A serve that is ready is left alone. Without `evict`: only those for
    which nothing has to stop.

    A failure of one does not stop the others. Raises NotRunning before the first.
    """
    step = _Step(
        run=lambda worker, name: worker.switch(name, force, drain_timeout, evict),
        is_done=lambda replicas: any(serve.state == "ready" for serve in replicas),
        already="is already ready",
        watch_with="stoker slot status",
    )
    return _each(installation, names, step, quiet)


def unload_serves(
    installation: Installation, names: list[str], drain_timeout: float | None, quiet: bool
) -> LoadOutcome:
    """Drain and stop each of `names` in turn, as `load_serves` does. A serve that is stopped is left alone."""

    def unload(worker: Control, name: str) -> None:
        worker.unload(name, drain_timeout)

    def is_gone(replicas: list[ServeStatus]) -> bool:
        return all(serve.is_gone for serve in replicas)

    step = _Step(unload, is_gone, "is already stopped", "stoker serves status {name}")
    return _each(installation, names, step, quiet)


def _each(installation: Installation, names: list[str], step: _Step, quiet: bool) -> LoadOutcome:
    outcome = LoadOutcome()
    control = installation.control()
    for name in names:
        replicas = control.status().replicas(name)
        if replicas and step.is_done(replicas):
            outcome.left_alone.append(name)
            if not quiet:
                terminal.say(f"{name} {step.already}")
            continue
        try:
            switched = load_progress.watch(control, name, partial(_run, step, name), quiet)
        except StokerError as error:
            outcome.fail(name, error, quiet)
            continue
        except KeyboardInterrupt:
            terminal.note(f"stopped watching {name}; to see its progress: {step.watch_with.format(name=name)}")
            raise typer.Exit(INTERRUPTED) from None
        times = {} if switched is None else {"seconds": switched.seconds, "phases": switched.phases}
        outcome.done.append({"serve": name, **times})
        if not quiet:
            terminal.say(f"{name} is stopped" if switched is None else _ready_line(name, switched))
    return outcome


def _run(step: _Step, name: str, worker: Control) -> SwitchAnswer | None:
    return step.run(worker, name)


def _ready_line(name: str, switched: SwitchAnswer) -> str:
    phases = [f"{phase} {figures.seconds(spent)}" for phase, spent in switched.phases.items() if spent]
    return f"{name} is ready after {figures.seconds(switched.seconds)}" + (f" ({', '.join(phases)})" if phases else "")
