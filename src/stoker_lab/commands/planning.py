"""`stoker eval planning`: plans graded by their structure. Offline by default: committed outputs, always the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import UsageError

if TYPE_CHECKING:
    from stoker_lab.planning.plan_report import PlanOutput


def planning(
    serve: options.OneServe = None,
    live: Annotated[bool, typer.Option("--live", help="Have SERVE write new plans, and grade those.")] = False,
    outputs: Annotated[
        Path | None,
        typer.Option(
            "--outputs", metavar="PATH", help="Plans to grade: a *.jsonl, or a DIR of them; with --live: kept."
        ),
    ] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option("--baseline", metavar="PATH", help="Plans of another model, graded and shown beside; repeatable."),
    ] = None,
    judged: Annotated[
        Path | None,
        typer.Option("--judged", metavar="FILE", help="Judges' scores, CSV or JSONL: how far the grade agrees."),
    ] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Grade plans: numbered steps, what they name, their order. Needs nothing that runs, but for --live."""
    import msgspec

    from stoker_lab.planning import plan_report
    from stoker_lab.planning.judgements import read
    from stoker_lab.suites import fixture

    if serve is not None and not live:
        raise UsageError("naming a serve needs --live; without it, stored plans are graded")
    fixtures = [*fixture.all_shipped_fixtures()]
    rows = None if judged is None else plan_report.JudgementFile(read(judged), str(judged))
    beside = [one for path in baseline or [] for one in plan_report.read(path)]
    if live:
        found = _written(serve, outputs, config, state)
    else:
        found = plan_report.shipped() if outputs is None else plan_report.read(outputs)
    body = plan_report.plan_report(fixtures, found, beside, rows)
    if json:
        terminal.say(body.decode().rstrip())
    else:
        _show(msgspec.json.decode(body))


def _show(document: dict[str, Any]) -> None:
    baselines = document.get("baselines", [])
    cells = [
        (f"{name} (baseline)" if name in baselines else name, f"{one['passed']} of {one['n']}",
         f"{one['rate_low']:.2f} to {one['rate_high']:.2f}", f"{one['score']:.2f}")
        for name, one in document["models"].items()
    ]  # fmt: skip
    terminal.table(("MODEL", "PASSED", "RATE", "SCORE"), cells, right=("PASSED", "SCORE"))
    if (judged := document.get("judged")) is not None:
        _show_judged(judged)


def _show_judged(judged: dict[str, Any]) -> None:
    terminal.say("")
    models = [
        (name, str(one["n"]), f"{one['mean']:.2f}", f"{one['low']:.2f} to {one['high']:.2f}", f"{one['structure']:.2f}")
        for name, one in judged["models"].items()
    ]
    terminal.table(("MODEL", "JUDGED", "MEAN", "INTERVAL", "STRUCTURE"), models, right=("JUDGED", "MEAN", "STRUCTURE"))
    terminal.say("")
    pairs = [
        (" and ".join(one["between"]), str(one["n"]), f"{one['agreement']:.2f}",
         f"{one['low']:.2f} to {one['high']:.2f}",
         figures.UNKNOWN if one["kappa"] is None else f"{one['kappa']:.2f}")
        for one in judged["agreement"]
    ]  # fmt: skip
    terminal.table(("BETWEEN", "N", "AGREEMENT", "INTERVAL", "KAPPA"), pairs, right=("N", "AGREEMENT", "KAPPA"))


def _written(serve: str | None, to: Path | None, config: str | None, state: str | None) -> list[PlanOutput]:
    from stoker.cli.console.progress import ProgressLine
    from stoker_lab.commands.interruptible import run_interruptible
    from stoker_lab.commands.running_serve import find_running
    from stoker_lab.planning import plan_report
    from stoker_lab.requests.client import ModelClient
    from stoker_lab.suites import fixture, grading

    known = find_running(serve, config, state)
    own = fixture.shipped_fixtures(fixture.wording_for(known.subject.fingerprint.parts.get("model", "")))

    def show(number: int, of: int) -> None:
        line.show(f"{known.serve.name}: plan {number} of {of}", (number - 1) / of, None)

    async def run() -> list[PlanOutput]:
        client = ModelClient(known.target)
        try:
            return await plan_report.write_plans(own, grading.fixture_asker(client), known.serve.name, show)
        finally:
            client.close()

    with ProgressLine() as line:
        found = run_interruptible(run())
    if to is not None:
        try:
            to.mkdir(parents=True, exist_ok=True)
            (to / f"{known.serve.name}.jsonl").write_bytes(plan_report.lines(found))
        except OSError as error:
            raise UsageError(f"--outputs {to} cannot be written: {error.strerror}") from error
    return found
