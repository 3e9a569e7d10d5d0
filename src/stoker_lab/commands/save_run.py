"""A finished measurement: into its file, into the index, and onto the terminal if the disk takes neither."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker.cli.console import terminal
from stoker.domain.errors import StokerError
from stoker.domain.run import Finding, Number, Outcome, Run, RunKind, Subject


def build_run(
    kind: RunKind,
    subject: Subject,
    began: float,
    outcome: Outcome,
    findings: list[Finding],
    numbers: Mapping[str, Number],
    settings: dict[str, object],
    raw: object,
    run_id: str | None = None,
) -> Run:
    """The artifact. `began`: Unix time."""
    from stoker_lab.artifacts import result_file
    from stoker_lab.commands import this_machine

    return Run(
        id=run_id or result_file.new_id(kind, subject.serve, began),
        kind=kind,
        at=began,
        seconds=round(max(0.0, time.time() - began), 3),
        subject=subject,
        outcome=outcome,
        findings=findings,
        numbers=dict(numbers),
        settings=result_file.raws(settings),
        machine=result_file.raws(this_machine.facts()),
        raw=result_file.raw(raw),
    )


def save_run(run: Run, state: Path) -> Path:
    """Write it down. If the disk does not take it, it is printed whole on stderr, and the StokerError says why."""
    from stoker.store.results import Results
    from stoker_lab.artifacts import result_file

    try:
        path = result_file.save(run, result_file.results_of(state))
    except StokerError:
        terminal.note(f"stoker: the result could not be saved; here it is:\n{_text(run)}")
        raise
    try:
        Results(state).record(run)
    except StokerError as error:
        terminal.note(f"stoker: {error.message}; the result itself is in {path}")
    return path


def keeper(state: Path) -> Callable[[Run], None]:
    """Writes down an unfinished run as it grows. A disk that does not take it stops no measurement; it is said once."""
    from stoker_lab.artifacts import result_file

    is_silent = False

    def keep(run: Run) -> None:
        nonlocal is_silent
        try:
            result_file.save(run, result_file.results_of(state))
        except StokerError as error:
            if not is_silent:
                terminal.note(f"stoker: {error.message}; until then, what is measured is lost if this is ended")
            is_silent = True

    return keep


def run_document(run: Run) -> object:
    """For --json: everything but the raw part, which is in the file."""
    import json

    found: dict[str, object] = json.loads(_text(run))
    found.pop("raw")
    return found


def _text(run: Run) -> str:
    import msgspec

    encoded: bytes = msgspec.json.encode(run)
    return encoded.decode()
