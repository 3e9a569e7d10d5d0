"""Loads and unloads serves through a running Stoker, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import typer

from stoker.cli.console import figures, load_progress, terminal
from stoker.cli.console.answers import ServeStatus, SlotStatus, SwitchAnswer
from stoker.cli.console.control import Control
from stoker.cli.console.errors import INTERRUPTED
from stoker.cli.console.installation import Installation
from stoker.domain.errors import StokerError
from stoker.domain.serve import Driver, slots_of

SETTLED_POLL = 0.2
"""Seconds between two questions whether the previous serve is back."""


@dataclass(slots=True)
class LoadOutcome:
    done: list[dict[str, object]] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)
    failed: list[dict[str, object]] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        return {"done": self.done, "left_alone": self.left_alone, "failed": self.failed}

    def fail(self, name: str, error: StokerError, slots: list[SlotStatus]) -> None:
        """`slots`: those of the serve, as they are after the failure."""
        failed: dict[str, object] = {"serve": name, "error": {"message": error.message, "code": error.code}}
        if slots:
            failed["loaded"] = {slot.name: slot.resident for slot in slots}
        self.failed.append(failed)


@dataclass(frozen=True, slots=True)
class _Step:
    run: Callable[[Control, str], SwitchAnswer | None]
    is_done: Callable[[list[ServeStatus]], bool]
    already: str
    """What a serve is that needs no step."""
    watch_with: str
    """The command that shows how it goes on after Ctrl-C."""
    restores: bool = False
    """Whether a failure starts the previous serve of the slot again."""


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
        restores=True,
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
                if step.restores and (note := _container_note(installation, replicas[0])):
                    terminal.note(f"stoker: {name}: {note}; what to do: stoker doctor{installation.file_place}")
            continue
        try:
            try:
                switched = load_progress.watch(control, name, partial(_run, step, name), quiet)
            except StokerError as error:
                if not quiet:
                    terminal.note(f"stoker: {_about(name, error.message)}")
                outcome.fail(name, error, _settled(control, name, quiet) if step.restores else [])
                continue
        except KeyboardInterrupt:
            watch = step.watch_with.format(name=name) + installation.place
            terminal.note(f"stopped watching {name}; to see its progress: {watch}")
            raise typer.Exit(INTERRUPTED) from None
        times = {} if switched is None else {"seconds": switched.seconds, "phases": switched.phases}
        facts = {} if switched is None else _start_facts(control, name)
        outcome.done.append({"serve": name, **times, **({"facts": facts} if facts else {})})
        if not quiet:
            terminal.say(f"{name} is stopped" if switched is None else _ready_line(name, switched))
            if line := _capacity_line(facts):
                terminal.say(line)
    return outcome


def _about(name: str, message: str) -> str:
    """The message, with the serve's name unless it says it."""
    return message if f"'{name}'" in message else f"{name}: {message}"


def _container_note(installation: Installation, serve: ServeStatus) -> str:
    """What is not as it should be with the container of a serve that is ready; empty: nothing, or it has none."""
    if serve.driver != Driver.COMPOSE.value or installation.settings is None:
        return ""
    from stoker.app.configuration import placed_serves
    from stoker.cli.console.container_note import container_note

    settings = installation.settings
    configured = next((one for one in placed_serves(settings) if one.name == serve.name), None)
    return "" if configured is None else container_note(configured, settings.paths)


def _settled(control: Control, name: str, quiet: bool) -> list[SlotStatus]:
    """The slots of a serve that did not start, once what was loaded before is back, or has failed too; empty if that
    cannot be found out. What is loaded then is printed.
    """
    said = ""
    try:
        while True:
            status = control.status()
            found = status.serve(name)
            slots = [] if found is None else status.slots_of(found)
            swaps = [slot.swap for slot in slots if slot.swap is not None]
            if not swaps:
                break
            words = f"waiting until {swaps[0].target} is loaded" if swaps[0].target else ""
            if not quiet and words and words != said:
                terminal.note(said := words)
            time.sleep(SETTLED_POLL)
    except StokerError:
        return []
    for slot in () if quiet else slots:
        terminal.note(_now_loaded(slot, [one for one in status.serves if one.name != name]))
    return slots


def _now_loaded(slot: SlotStatus, others: list[ServeStatus]) -> str:
    if slot.resident:
        return f"loaded in {slot.name} now: {', '.join(slot.resident)}"
    failed = [one for one in others if one.slot is not None and slot.name in slots_of(one.slot) and one.last_error]
    why = "".join(
        f"; {one.name} did not start: {one.last_error}"
        for one in failed
        if one.state in ("backoff", "parked", "paused", "cannot_load")
    )
    return f"nothing is loaded in {slot.name} now{why}"


def _run(step: _Step, name: str, worker: Control) -> SwitchAnswer | None:
    return step.run(worker, name)


_START_FACTS = ("kv_tokens", "full_contexts", "load_s", "compile_s", "graph_s")


def _start_facts(control: Control, name: str) -> dict[str, object]:
    """What the engine said while it started; empty: nothing, or Stoker is gone."""
    try:
        replicas = control.status().replicas(name)
    except StokerError:
        return {}
    ready = next((serve for serve in replicas if serve.state == "ready"), None)
    return {key: ready.facts[key] for key in _START_FACTS if key in ready.facts} if ready is not None else {}


def _capacity_line(facts: dict[str, object]) -> str:
    """`KV cache 30,720 tokens, 7.5 requests of the whole context; weights 12 s, graphs 7 s`; empty: nothing known."""
    tokens, requests = facts.get("kv_tokens"), facts.get("full_contexts")
    cache = [f"KV cache {tokens:,} tokens"] if isinstance(tokens, int) else []
    cache += [f"{requests:g} requests of the whole context"] if isinstance(requests, int | float) else []
    named = (("weights", "load_s"), ("compiling", "compile_s"), ("graphs", "graph_s"))
    times = [f"{what} {figures.seconds(spent)}" for what, key in named
             if isinstance(spent := facts.get(key), int | float)]  # fmt: skip
    return "; ".join(filter(None, (", ".join(cache), ", ".join(times))))


def _ready_line(name: str, switched: SwitchAnswer) -> str:
    phases = [f"{phase} {figures.seconds(spent)}" for phase, spent in switched.phases.items() if spent]
    return f"{name} is ready after {figures.seconds(switched.seconds)}" + (f" ({', '.join(phases)})" if phases else "")
