"""`stoker route-sync`: point the ingress at the worker's current address, and prove it through the public routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, UsageError
from stoker.cli.console.installation import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.domain.access import Settings
    from stoker_edge.edge import Edge
    from stoker_edge.sync import StepReport, SyncReport

EVERY = 30.0


def route_sync(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EDGE]...",
            help="Edges of the configuration. Default: all with an ingress.",
            autocompletion=options.edge_names,
            show_default=False,
        ),
    ] = None,
    config: options.Config = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Find and prove the worker, show what would change, and change nothing.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, until Ctrl-C.")] = False,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Time between two runs. Default: 30s.", show_default=False),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only what was changed or failed.")] = False,
    json: options.Json = False,
) -> None:
    """Find the worker, prove it, point the ingress at it, and verify that through the public routes.

    If any of that fails, the ingress stays, or is again, as it was. Exit 0: unchanged or switched; 1: not; 2: the
    configuration is wrong.
    """
    if every is not None and not watch:
        raise UsageError("--every is the time between the runs of --watch: add --watch")
    if watch and dry_run:
        raise UsageError("--dry-run shows one run: leave out --watch")
    settings = load_settings(config)
    edges = [_edge(settings, name) for name in names or ()] or _with_ingress(settings)
    pause = options.duration(every, "--every") or EVERY
    import asyncio

    observe = _Progress(quiet or json)
    try:
        while True:
            results = asyncio.run(_run(edges, observe, dry_run))
            is_success = _show(results, dry_run, quiet, json)
            if not watch:
                break
            asyncio.run(asyncio.sleep(pause))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if not is_success:
        raise typer.Exit(FAILED)


class _Progress:
    """One line for each step, on stderr."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet

    def show(self, edge: str, report: StepReport) -> None:
        if not self._is_quiet:
            detail = f": {report.detail}" if report.detail else ""
            terminal.note(f"{edge}: {report.step.value} {report.outcome.value} ({report.seconds:.2f} s){detail}")


def _edge(settings: Settings, name: str) -> Edge:
    """Raises UsageError."""
    from stoker.domain.nearest import did_you_mean
    from stoker_edge.table import edges_of

    known = {edge.name: edge for edge in edges_of(settings)}
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none: add an [edge.NAME]'}"
        raise UsageError(f"there is no edge '{name}' in {settings.source}{hint}", code="unknown_edge")
    return known[name]


def _with_ingress(settings: Settings) -> list[Edge]:
    """Raises UsageError: there is none."""
    from stoker_edge.table import edges_of

    found = [edge for edge in edges_of(settings) if edge.ingress is not None]
    if not found:
        text = f"{settings.source} has no edge with an ingress: add an [edge.NAME] (docs/guides/public-route.md)"
        raise UsageError(text, code="no_edge")
    return found


async def _run(edges: Sequence[Edge], observe: _Progress, dry_run: bool) -> list[tuple[str, list[SyncReport], str]]:
    """For each edge, in order: its name, its passes, and why there are none."""
    from functools import partial

    from stoker_edge.problem import EdgeProblem
    from stoker_edge.sync import sync_edge

    results = []
    for edge in edges:
        try:
            reports = await sync_edge(edge, partial(observe.show, edge.name), dry_run=dry_run)
            results.append((edge.name, reports, ""))
        except EdgeProblem as problem:
            results.append((edge.name, [], problem.message))
    return results


def _show(results: Sequence[tuple[str, list[SyncReport], str]], dry_run: bool, quiet: bool, json: bool) -> bool:
    """Print the results. Whether all succeeded."""
    if json:
        terminal.emit([_document(*one) for one in results])
    else:
        for name, reports, problem in results:
            if problem:
                terminal.note(f"stoker: {problem}")
            for report in reports:
                _show_pass(name, report, dry_run, quiet)
    return all(reports and reports[-1].is_success for _, reports, _ in results)


def _show_pass(name: str, report: SyncReport, dry_run: bool, quiet: bool) -> None:
    if report.problem:
        terminal.note(f"stoker: {report.problem}")
    if dry_run and report.diff:
        terminal.say(report.diff)
    if quiet and report.end.value == "unchanged":
        return
    target = f" {report.address}" if report.address else ""
    words = {
        "unchanged": f"unchanged: the ingress points to{target} already; nothing was written or reloaded",
        "switched": f"switched to{target}, verified through the public route",
        "would switch": f"would switch to{target}; nothing was changed",
        "refused": "refused: nothing was changed",
        "rolled back": "rolled back: the old file is in place, and the ingress has reloaded it",
        "stuck": "stuck: the old file could not be restored or reloaded; the next run tries it again",
    }
    terminal.say(f"{name}: {words[report.end.value]}")
    if report.old_route_problem:
        terminal.note(f"{name}: the old route is not verified either: {report.old_route_problem}")


def _document(name: str, reports: Sequence[SyncReport], problem: str) -> dict[str, Any]:
    return {
        "edge": name,
        "outcome": reports[-1].end.value if reports else "refused",
        "address": reports[-1].address or None if reports else None,
        "problem": problem or (reports[-1].problem if reports else "") or None,
        "passes": [
            {
                "outcome": report.end.value,
                "diff": report.diff or None,
                "steps": [
                    {"step": one.step.value, "outcome": one.outcome.value, "detail": one.detail or None,
                     "seconds": one.seconds}
                    for one in report.steps
                ],
            }
            for report in reports
        ],
    }  # fmt: skip
