"""`stoker eval canary`: does it still say what it said?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker_lab.commands.results import result_ids

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stoker.domain.run import Run
    from stoker_lab.canary.canary import CanaryClient, OnQuestion
    from stoker_lab.canary.questions import CanaryQuestion
    from stoker_lab.commands.running_serve import RunningServe

_T = TypeVar("_T")
Unknown = Annotated[bool, typer.Option("--unknown-ok", help="Treat unknown parts of the identity as equal.")]


def canary(
    serve: options.OneServe = None,
    record: Annotated[bool, typer.Option("--record", help="Make this the baseline of the serve's model.")] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="ID",
            help="What to compare with. Default: the newest of this model.",
            autocompletion=result_ids,
            show_default=False,
        ),
    ] = None,
    unknown_ok: Unknown = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Ask the fixed questions, and compare with a baseline. Exit 1 if the model changed."""
    from stoker_lab.canary.questions import questions_for
    from stoker_lab.commands import running_serve
    from stoker_lab.lock import hold_measurement_lock

    if record and baseline is not None:
        raise UsageError("--record makes a baseline, --baseline compares with one: give one of them")
    found = running_serve.find_running(serve, config, state)
    chosen = questions_for(found.subject.fingerprint.parts.get("model", ""))
    with hold_measurement_lock(found.state, found.lock, f"a canary of {found.serve.name}"):
        run = _recorded(found, chosen) if record else compared(found, chosen, baseline, unknown_ok)
    _show(run, record, json)


def _recorded(found: RunningServe, chosen: Sequence[CanaryQuestion]) -> Run:

    from stoker.domain.run import Finding, Outcome, RunKind
    from stoker_lab.canary import canary as measure
    from stoker_lab.canary.questions import digest
    from stoker_lab.commands import interruptible
    from stoker_lab.commands.save_run import build_run, save_run

    began = time.time()
    kept = interruptible.run_interruptible(
        asking(
            found,
            chosen,
            lambda asker, on_question: measure.record_baseline(asker, chosen, digest(chosen), on_question),
        )
    )
    wrong = [one.reply for one in kept.replies if one.reply.failure]
    steady = sum(one.agreement == 1.0 for one in kept.replies)
    findings = [
        Finding(
            one.reply.name,
            Outcome.FAILED if one.reply.failure else Outcome.PASSED,
            one.reply.failure
            or f"{measure.word_count(one.reply)}, {100 * one.agreement:.0f} % the same in every repeat",
            numbers={"prompt_tokens": one.reply.prompt_tokens, "agreement": one.agreement},
        )
        for one in kept.replies
    ]
    numbers = {
        "canary.n": len(kept.replies),
        "canary.passed": len(kept.replies) - len(wrong),
        "steady": steady,
        "right": sum(one.reply.is_right is True for one in kept.replies),
    }
    outcome = Outcome.FAILED if wrong else Outcome.PASSED
    settings: dict[str, object] = {"baseline": not wrong, "questions": digest(chosen), "repeats": measure.REPEATS}
    run = build_run(RunKind.CANARY, found.subject, began, outcome, findings, numbers, settings, kept)
    save_run(run, found.state)
    return run


def compared(found: RunningServe, chosen: Sequence[CanaryQuestion], wanted: str | None, unknown_ok: bool) -> Run:
    """Asked, compared with a baseline, and kept. Raises UsageError `no_baseline`."""
    from stoker.domain.run import RunKind
    from stoker_lab.canary import canary as measure
    from stoker_lab.canary.questions import digest
    from stoker_lab.commands import interruptible
    from stoker_lab.commands.drift_alarm import feed_drift
    from stoker_lab.commands.save_run import build_run, save_run

    began = time.time()
    against = baseline_of(found, wanted)
    same = measure.require_comparable(against, found.subject.fingerprint, digest(chosen), unknown_ok)
    kept = measure.baseline_in(against)
    checked = interruptible.run_interruptible(
        asking(
            found,
            chosen,
            lambda asker, on_question: measure.run_canary(asker, chosen, kept, same, time.time, on_question),
        )
    )
    settings: dict[str, object] = {
        "baseline": False,
        "against": against.id,
        "questions": digest(chosen),
        "same_execution": same,
    }
    run = build_run(
        RunKind.CANARY, found.subject, began, checked.outcome, measure.findings(checked, kept),
        measure.numbers(checked, kept), settings, {"seen": checked.replies, "anomalies": checked.anomalies},
    )  # fmt: skip
    mismatched = {anomaly.name for anomaly in checked.anomalies}
    feed_drift(found, [reply.name in mismatched for reply in checked.replies])
    save_run(run, found.state)
    return run


def baseline_of(found: RunningServe, wanted: str | None) -> Run:
    """The one that is named; else the newest of this identity, else the newest of the serve, for its refusal.

    Raises UsageError with the command that records one.
    """
    from stoker.domain.run import RunKind
    from stoker.store.results import Results

    store = Results(found.state)
    if wanted is not None:
        ids, place = store.find(wanted), found.installation.place
        if len(ids) != 1:
            what = f"matches {len(ids)} results" if ids else "is not a result"
            raise UsageError(f"--baseline {wanted} {what}; list them: stoker results list --kind canary{place}")
        return store.load(ids[0])
    store.sync()
    listed = store.select(RunKind.CANARY, found.serve.name, baselines=True, limit=1000)
    mine = found.subject.fingerprint.identity
    fitting = [entry for entry in listed if mine and entry.identity == mine] or listed
    if not fitting:
        raise UsageError(
            f"there is no baseline of '{found.serve.name}' yet; record one: {record_command(found)}", code="no_baseline"
        )
    return store.load(fitting[0].id)


def record_command(found: RunningServe) -> str:

    from stoker_lab.commands.running_serve import command_for

    return f"{command_for('eval canary', found.serve.name, found.installation)} --record"


async def asking(
    found: RunningServe, chosen: Sequence[CanaryQuestion], work: Callable[[CanaryClient, OnQuestion], Awaitable[_T]]
) -> _T:
    """`work` with a client, and with progress."""
    from stoker.cli.console.progress import ProgressLine
    from stoker_lab.canary.canary import CanaryClient
    from stoker_lab.requests.client import ModelClient

    names = [one.name for one in chosen]

    def show(done: int) -> None:
        if done < len(names):
            line.show(f"{found.serve.name}: question {done + 1} of {len(names)}", done / len(names), None)

    client = ModelClient(found.target)
    try:
        with ProgressLine() as line:
            show(0)
            return await work(CanaryClient(client), lambda name: show(names.index(name) + 1))
    finally:
        client.close()


def _show(run: Run, record: bool, json: bool) -> None:
    from stoker.domain.run import Outcome
    from stoker_lab.commands.save_run import run_document

    if json:
        terminal.emit(run_document(run))
    else:
        passed, n = run.numbers["canary.passed"], run.numbers["canary.n"]
        rows = [(f.name, f.outcome, f.observed) for f in run.findings]
        terminal.table(("QUESTION", "OUTCOME", "SEEN"), rows)
        for finding in run.findings:
            if finding.cause:
                terminal.say(f"\n{finding.name}: {finding.cause}\n  {finding.fix}")
        word = "recorded" if record else f"{run.numbers['anomalies']} anomalies"
        terminal.say(f"\n{run.outcome}: {passed} of {n}, {word}, {figures.seconds(run.seconds)}; saved as {run.id}")
    if run.outcome is Outcome.FAILED:
        raise typer.Exit(FAILED)
