"""`stoker eval soak`: repeats a small measurement for hours, with a state file from which it can resume."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, RequestRefused, UsageError
from stoker.domain.errors import StokerError
from stoker.domain.figures import counted
from stoker.store.files import atomic
from stoker.store.files.remedies import remedy
from stoker_lab.commands.canary import asking, baseline_of
from stoker_lab.commands.drift_alarm import feed_drift

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.domain.run import Run
    from stoker_lab.canary.canary import Anomaly
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.requests.client import ModelClient
    from stoker_lab.soak.soak import DecodeResult, SoakRecord


def soak(
    serve: options.OneServe = None,
    length: Annotated[str, typer.Option("--for", metavar="TIME", help="How long the soak runs.")] = "8h",
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Time from one cycle's start to the next.")
    ] = "15m",
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Replies at once in a decode check.")] = 8,
    tokens: Annotated[int, typer.Option("--tokens", min=2, help="Tokens of each reply.")] = 512,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the one that was interrupted.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Canary and decode check in anchored cycles, for hours. Ctrl-C keeps the results so far; --resume continues."""
    from stoker_lab.commands import running_serve
    from stoker_lab.lock import hold_measurement_lock

    span = options.duration(length, "--for") or 0.0, options.duration(every, "--every") or 0.0
    if min(span) <= 0:
        raise UsageError("--for and --every must be above 0")
    found = running_serve.find_running(serve, config, state)
    path = found.state / "soak" / f"{found.serve.name}.json"
    with hold_measurement_lock(found.state, found.lock, f"a soak of {found.serve.name}"):
        record = _resumed(path, found) if resume else _begun(path, found, *span, concurrency, tokens)
        run = _run(found, record, path, quiet=json)
    _show(run, record, json)


def _begun(path: Path, found: RunningServe, length: float, every: float, concurrency: int, tokens: int) -> SoakRecord:
    """Its reference is the baseline of this model and execution where there is one, else what it says now."""

    from stoker.domain.run import RunKind
    from stoker_lab.artifacts import result_file
    from stoker_lab.canary import canary
    from stoker_lab.canary.questions import digest, questions_for
    from stoker_lab.commands import interruptible
    from stoker_lab.soak.soak import SoakRecord

    if path.exists():
        terminal.note(f"stoker: the interrupted soak in {path} is discarded (--resume would have continued it)")
    chosen = questions_for(found.subject.fingerprint.parts.get("model", ""))
    reference, same = "own", True
    try:
        against = baseline_of(found, None)
        same = canary.require_comparable(against, found.subject.fingerprint, digest(chosen))
        kept, reference = canary.baseline_in(against), against.id
    except StokerError as error:
        terminal.note(f"stoker: {error.message}; until then, its current answers are the reference")

        kept = interruptible.run_interruptible(
            asking(
                found,
                chosen,
                lambda asker, on_question: canary.record_baseline(asker, chosen, digest(chosen), on_question),
            )
        )
    if any(one.reply.failure for one in kept.replies):
        raise RequestRefused(
            f"'{found.serve.name}' does not answer the canary's questions; to see why: "
            f"stoker eval canary {shlex.quote(found.serve.name)} --record{found.installation.place}"
        )
    began = time.time()
    run_id = result_file.new_id(RunKind.SOAK, found.serve.name, began)
    return SoakRecord(
        run_id, found.serve.name, began, every, length, concurrency, tokens, result_file.raw(kept), reference, same,
        found.subject.fingerprint, found.engine() or "",
    )  # fmt: skip


def _resumed(path: Path, found: RunningServe) -> SoakRecord:
    import msgspec

    from stoker_lab.artifacts.fingerprint import difference
    from stoker_lab.soak.soak import SoakRecord

    try:
        record = msgspec.json.decode(path.read_bytes(), type=SoakRecord)
    except FileNotFoundError as error:
        raise UsageError(f"there is no interrupted soak of '{found.serve.name}'; start one without --resume") from error
    except (OSError, msgspec.DecodeError) as error:
        raise RequestRefused(
            f"{path} cannot be read ({error}): start again without --resume", code="no_record"
        ) from error
    changed = difference(record.fingerprint, found.subject.fingerprint)
    if changed.identity or changed.execution:
        what = "; ".join(changed.identity + changed.execution)
        raise RequestRefused(
            f"'{found.serve.name}' changed since ({what}): start a new run without --resume", code="changed"
        )
    return record


class _Work:
    def __init__(self, found: RunningServe, record: SoakRecord, client: ModelClient) -> None:
        import msgspec

        from stoker_lab.canary.canary import Baseline, CanaryClient
        from stoker_lab.canary.questions import questions_for
        from stoker_lab.soak.decode import DecodeCheck

        self._found = found
        self._chosen = questions_for(found.subject.fingerprint.parts.get("model", ""))
        self._baseline = msgspec.json.decode(record.baseline, type=Baseline)
        self._same = record.same_execution
        self._asker = CanaryClient(client)
        self._decoding = DecodeCheck(client, record.concurrency, record.tokens)

    async def canary(self) -> tuple[int, list[Anomaly]]:
        import asyncio

        from stoker_lab.canary import canary

        checked = await canary.run_canary(self._asker, self._chosen, self._baseline, self._same, time.time)
        mismatched = {anomaly.name for anomaly in checked.anomalies}
        await asyncio.to_thread(feed_drift, self._found, [reply.name in mismatched for reply in checked.replies])
        return len(checked.replies), checked.anomalies

    async def decode(self) -> DecodeResult:
        return await self._decoding.run()

    async def engine(self) -> str | None:
        import asyncio

        return await asyncio.to_thread(self._found.engine)


def _run(found: RunningServe, record: SoakRecord, path: Path, quiet: bool) -> Run:
    """Runs to the end. If it is interrupted, the state file stays."""

    from stoker.domain.run import RunKind
    from stoker_lab.commands import interruptible
    from stoker_lab.commands.running_serve import command_for
    from stoker_lab.commands.save_run import build_run, save_run
    from stoker_lab.requests.client import ModelClient
    from stoker_lab.soak import soak as measure
    from stoker_lab.soak.soak import Soak, SystemSoakClock

    async def work() -> None:
        client = ModelClient(found.target)
        tell = terminal.note if quiet else terminal.say
        try:
            await Soak(record, _Work(found, record, client), SystemSoakClock(), _writer(path), tell).run()
        finally:
            client.close()

    try:
        interruptible.run_interruptible(work())
    except KeyboardInterrupt:
        again = f"{command_for('eval soak', record.serve, found.installation)} --resume"
        terminal.note(f"interrupted after {counted(len(record.cycles), 'cycle')}; to resume:  {again}")
    settings: dict[str, object] = {
        "for": record.length,
        "every": record.every,
        "concurrency": record.concurrency,
        "tokens": record.tokens,
        "reference": record.reference,
    }
    run = build_run(
        RunKind.SOAK, found.subject, record.began, measure.outcome(record), measure.findings(record),
        measure.numbers(record), settings,
        {"cycles": record.cycles, "events": record.events}, record.id,
    )  # fmt: skip
    save_run(run, found.state)
    if record.is_over:
        path.unlink(missing_ok=True)
    return run


def _writer(path: Path) -> Callable[[SoakRecord], None]:
    """A disk that is full stops no soak: what is in memory goes into the run at its end."""
    import msgspec

    is_ailing = False

    def write(record: SoakRecord) -> None:
        nonlocal is_ailing
        try:
            atomic.write(path, msgspec.json.encode(record), make_parents=True)
            is_ailing = False
        except OSError as error:
            if not is_ailing:
                text = f"{path} cannot be written ({error.strerror}): the soak continues, but could not be resumed"
                terminal.note(f"stoker: {text}; {remedy(error, path.parent)}")
            is_ailing = True

    return write


def _show(run: Run, record: SoakRecord, json: bool) -> None:
    from stoker.domain.run import Outcome
    from stoker_lab.commands.save_run import run_document
    from stoker_lab.soak.soak import summary, timeline

    if json:
        terminal.emit({**_dict(run_document(run)), "timeline": timeline(record)})
    else:
        terminal.say()
        for line in summary(record):
            terminal.say(line)
        terminal.say(f"{run.outcome}; saved as {run.id}")
    if run.outcome is not Outcome.PASSED:
        raise typer.Exit(INTERRUPTED if run.outcome is Outcome.INTERRUPTED else FAILED)


def _dict(document: object) -> dict[str, object]:
    return document if isinstance(document, dict) else {}
