"""Carries out each step of one pass. What a step learns, the next ones use."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from stoker.domain.errors import OurBug
from stoker_edge import template
from stoker_edge.discover import discover
from stoker_edge.edge import Edge, EdgeIngress, WorkerAddress
from stoker_edge.ingress import IngressFiles
from stoker_edge.journal import SwitchEntry, SwitchJournal
from stoker_edge.plan import StepOutcome, SyncStep
from stoker_edge.probe import prove
from stoker_edge.problem import EdgeProblem
from stoker_edge.verify import prove_generation, verify_routes


@dataclass(frozen=True, slots=True)
class StepResult:
    outcome: StepOutcome
    detail: str = ""


class EdgeSwitch:
    """`carry_out` raises nothing but CancelledError and OurBug: what goes wrong is a step that failed."""

    def __init__(self, edge: Edge, ingress: EdgeIngress, journal: SwitchJournal) -> None:
        self._edge = edge
        self._ingress = ingress
        self._files = IngressFiles(edge.name, ingress)
        self._journal = journal
        self._addresses: list[WorkerAddress] = []
        self._entry: SwitchEntry | None = None
        """The switch: planned by COMPARE, or read by RESUME."""
        self.address: WorkerAddress | None = None
        """Of the worker that proved itself."""
        self._steps = {
            SyncStep.RESUME: self._resume,
            SyncStep.PROBE_INSTALLED: self._probe_installed,
            SyncStep.DISCOVER: self._discover,
            SyncStep.PROBE: self._probe,
            SyncStep.COMPARE: self._compare,
            SyncStep.GENERATE: self._generate,
            SyncStep.VALIDATE: self._validate,
            SyncStep.REPLACE: self._replace,
            SyncStep.VALIDATE_IN_PLACE: self._validate_in_place,
            SyncStep.RELOAD: self._reload,
            SyncStep.VERIFY: self._verify,
            SyncStep.COMMIT: self._end_journal,
            SyncStep.RESTORE: self._restore,
            SyncStep.RELOAD_OLD: self._reload,
            SyncStep.VERIFY_OLD: self._verify,
            SyncStep.ABANDON: self._end_journal,
            SyncStep.DISCARD: self._end_journal,
        }

    async def carry_out(self, step: SyncStep) -> StepResult:
        try:
            return await self._steps[step]()
        except EdgeProblem as problem:
            return StepResult(StepOutcome.FAILED, problem.message)

    def diff(self) -> str:
        """What the switch changes in the upstream file; empty before COMPARE."""
        if self._entry is None:
            return ""
        path = self._ingress.upstream_file
        old, new = (self._entry.old or "").splitlines(), self._entry.new.splitlines()
        return "\n".join(difflib.unified_diff(old, new, path, path, lineterm=""))

    # -- an interrupted switch ---------------------------------------------------------------------------------------

    async def _resume(self) -> StepResult:
        entry = self._entry = self._journal.read()
        if entry is None:
            raise OurBug("route-sync: there is no switch to resume")
        in_place = self._files.read()
        if in_place == entry.new:
            return _ok(f"the switch to {WorkerAddress(entry.host, entry.port)} was interrupted: proving it again")
        if in_place == entry.old:
            return StepResult(StepOutcome.SAME, "a switch was interrupted, and the old file is in place")
        text = f"{self._ingress.upstream_file} was changed by somebody else during an interrupted switch: left as it is"
        return StepResult(StepOutcome.FAILED, text)

    async def _probe_installed(self) -> StepResult:
        entry = self._planned()
        self.address = await prove(self._edge, [WorkerAddress(entry.host, entry.port)])
        return _ok(f"{self.address} is '{self._edge.worker.model}'")

    # -- a new one -----------------------------------------------------------------------------------------------------

    async def _discover(self) -> StepResult:
        self._addresses = await discover(self._edge)
        return _ok(", ".join(map(str, self._addresses)))

    async def _probe(self) -> StepResult:
        self.address = await prove(self._edge, self._addresses)
        return _ok(f"{self.address} is '{self._edge.worker.model}'")

    async def _compare(self) -> StepResult:
        if self.address is None:
            raise OurBug("route-sync: no worker was proved")
        new = template.render(self._edge, self._ingress, self.address)
        old = self._files.read()
        if new == old:
            return StepResult(StepOutcome.SAME, f"{self._ingress.upstream_file} points there already")
        self._entry = SwitchEntry(
            self._edge.name, old, new, self.address.host, self.address.port, self._files.mode()
        )  # fmt: skip
        return _ok(f"{self._ingress.upstream_file} has to change")

    async def _generate(self) -> StepResult:
        if self.address is None:
            raise OurBug("route-sync: no worker was proved")
        await prove_generation(self._edge, self.address)
        return _ok("one streamed token")

    async def _validate(self) -> StepResult:
        return _ok(await self._files.validate(self._planned().new))

    async def _replace(self) -> StepResult:
        entry = self._planned()
        self._journal.begin(entry)
        self._files.write(entry.new, entry.mode)
        return _ok(self._ingress.upstream_file)

    async def _validate_in_place(self) -> StepResult:
        await self._files.validate_in_place()
        return _ok()

    async def _reload(self) -> StepResult:
        await self._files.reload()
        return _ok()

    async def _verify(self) -> StepResult:
        return _ok(await verify_routes(self._edge, template.marker_of(self._files.read())))

    async def _restore(self) -> StepResult:
        entry = self._planned()
        self._files.write(entry.old, entry.mode)
        return _ok(self._ingress.upstream_file if entry.old is not None else "there was no file before: removed")

    async def _end_journal(self) -> StepResult:
        self._journal.end()
        return _ok()

    def _planned(self) -> SwitchEntry:
        if self._entry is None:
            raise OurBug("route-sync: no switch is planned")
        return self._entry


def _ok(detail: str = "") -> StepResult:
    return StepResult(StepOutcome.OK, detail)
