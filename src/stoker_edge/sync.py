"""One route sync: the passes over the table, under the lock. Interrupted switches are finished first."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from stoker_edge.edge import Edge
from stoker_edge.journal import SwitchJournal
from stoker_edge.plan import StepOutcome, SyncEnd, SyncStep, is_success, next_step
from stoker_edge.problem import EdgeProblem
from stoker_edge.switch import EdgeSwitch

UNDO_TIMEOUT = 30.0
"""Seconds that a cancelled run may take to undo its switch."""


@dataclass(frozen=True, slots=True)
class StepReport:
    step: SyncStep
    outcome: StepOutcome
    detail: str
    seconds: float


_TOUCHED = frozenset(
    (
        SyncStep.PROBE_INSTALLED, SyncStep.REPLACE, SyncStep.VALIDATE_IN_PLACE, SyncStep.RELOAD, SyncStep.VERIFY,
        SyncStep.RESTORE, SyncStep.RELOAD_OLD,
    )
)  # fmt: skip
"""Steps at which the new file may be in place."""
StepObserver = Callable[[StepReport], None]


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one pass came to."""

    edge: str
    end: SyncEnd
    address: str
    """Of the worker that proved itself; empty: none did."""
    steps: tuple[StepReport, ...]
    diff: str = ""

    @property
    def is_success(self) -> bool:
        return is_success(self.end)

    @property
    def old_route_problem(self) -> str:
        """Why the old route was not verified after a rollback; empty: it was, or there was no rollback."""
        return next(
            (one.detail for one in self.steps if one.step is SyncStep.VERIFY_OLD and one.outcome is StepOutcome.FAILED),
            "",
        )

    @property
    def problem(self) -> str:
        """The first failure; empty after a success."""
        failed = [one.detail for one in self.steps if one.outcome is StepOutcome.FAILED]
        return failed[0] if failed and not self.is_success else ""


async def sync_edge(edge: Edge, observe: StepObserver, *, dry_run: bool = False) -> list[SyncReport]:
    """One report for each pass; the last one counts. Raises EdgeProblem: there is no ingress, or another run is at
    work.

    On cancel a switch under way is undone before CancelledError is raised. If the process is killed, the next run
    finishes or undoes it. A dry run changes nothing, and takes no notice of interrupted switches.
    """
    if edge.ingress is None:
        text = f"edge '{edge.name}' has no ingress that could be pointed at its worker: add `ingress` and `routes`"
        raise EdgeProblem(text, code="no_ingress")
    journal = SwitchJournal(edge.name, edge.ingress.upstream_file)
    if dry_run:
        return [await _pass(edge, EdgeSwitch(edge, edge.ingress, journal), SyncStep.DISCOVER, observe, dry_run)]
    with journal.locked():
        reports = []
        if journal.read() is not None:
            resumed = EdgeSwitch(edge, edge.ingress, journal)
            reports.append(await _pass(edge, resumed, SyncStep.RESUME, observe))
            if reports[0].end is SyncEnd.STUCK:
                return reports
        switch = EdgeSwitch(edge, edge.ingress, journal)
        return [*reports, await _pass(edge, switch, SyncStep.DISCOVER, observe)]


async def _pass(
    edge: Edge, switch: EdgeSwitch, start: SyncStep, observe: StepObserver, dry_run: bool = False
) -> SyncReport:
    step, done = start, list[StepReport]()
    try:
        while True:
            began = time.monotonic()
            result = await switch.carry_out(step)
            done.append(StepReport(step, result.outcome, result.detail, round(time.monotonic() - began, 3)))
            observe(done[-1])
            following = next_step(step, result.outcome)
            if dry_run and following is SyncStep.GENERATE:
                following = SyncEnd.PREVIEWED
            if isinstance(following, SyncEnd):
                address = str(switch.address) if switch.address is not None else ""
                return SyncReport(edge.name, following, address, tuple(done), switch.diff())
            step = following
    except asyncio.CancelledError:
        await _undo(switch, step, observe)
        raise


async def _undo(switch: EdgeSwitch, step: SyncStep, observe: StepObserver) -> None:
    """Cancelled at `step`: put the old file back, if the new one may be in place. The journal covers what fails."""
    if step not in _TOUCHED:
        return
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(UNDO_TIMEOUT):
            for each in (SyncStep.RESTORE, SyncStep.RELOAD_OLD, SyncStep.ABANDON):
                result = await switch.carry_out(each)
                observe(StepReport(each, result.outcome, result.detail, 0.0))
                if result.outcome is StepOutcome.FAILED:
                    return
