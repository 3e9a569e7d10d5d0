"""Runs the steps, each in a process of its own that is ended at its bound. What a step has kept by then counts."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.gpu import build, facts, parts, real_vllm, sharing, speed, swaps
from bench.gpu import faults as fault_steps
from bench.gpu.plan import (
    BUILD,
    DRIVER,
    FACTS,
    FAULTS,
    MEMORY,
    MODELS,
    SHARING,
    SLEEP,
    SPEED,
    STEPS,
    SWAPS,
    VLLM,
    Plan,
    Step,
    time_for,
)
from bench.gpu.prepare import PARTS
from bench.gpu.rows import Outcome, Row
from bench.gpu.stage import Stage, say
from bench.processes import Child

WORK: Mapping[str, Callable[[Stage], None]] = {
    FACTS.name: parts.machine,
    MODELS.name: parts.files,
    SLEEP.name: swaps.torch,
    SWAPS.name: swaps.llama,
    MEMORY.name: parts.memory,
    DRIVER.name: parts.driver,
    SHARING.name: sharing.share,
    FAULTS.name: fault_steps.faults,
    SPEED.name: speed.speed,
    VLLM.name: real_vllm.measure,
}


KEPT = 64 * 2**10
"""Bytes of the end of each log, and of the rows, that `logs` keeps."""


def logs(folder: Path) -> str:
    """The ends of the logs of all steps, of the build and of what the steps started, and the rows."""
    found = sorted([*folder.glob("*.log"), *folder.glob("*/*.log"), *folder.glob("rows.jsonl")])
    return "".join(f"== {path.relative_to(folder)}\n{_end(path)}\n" for path in found)


def _end(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - KEPT))
        return file.read(KEPT).decode(errors="replace")


def do(stage: Stage) -> None:
    """One step, in this process. What keeps all of it from being tried becomes a row of its own."""
    stage.attempt(stage.step, lambda: _whole(stage))


def _whole(stage: Stage) -> tuple[dict[str, float], str]:
    began = time.monotonic()
    if stage.step == BUILD.name:
        _build(stage)
    else:
        WORK[stage.step](stage)
    return {"step_s": time.monotonic() - began}, ""


def _build(stage: Stage) -> None:
    capability = stage.device.arch if stage.device is not None else None
    began = time.monotonic()
    try:
        build.build(PARTS, stage.folder, capability, say)
    except build.CannotBuild as error:
        stage.keep("llama-server", Outcome.FAILED, why=str(error))
    else:
        stage.keep("llama-server", Outcome.MEASURED, {"build_s": time.monotonic() - began})


class Runner:
    """`until`: on `time.monotonic`, when all of it has to be over. `keep()`: called after each step. `command`: of the
    process that does a step; None: this program's.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        until: float,
        keep: Callable[[], None],
        command: Callable[[Step], Sequence[str]] | None = None,
    ) -> None:
        self._plan, self._folder, self._until, self._keep_all = plan, folder, until, keep
        self._command = command or self._own_command
        self._stage = Stage(plan, folder, "run", has_torch=False)
        self._build: Child | None = None

    def run(self, only: Sequence[str]) -> None:
        """`only`: names of steps; none: all of them."""
        (self._folder / "machine.json").write_bytes(
            msgspec.json.encode(facts.facts(self._folder) | {"plan": self._plan.name})
        )
        steps = [step for step in STEPS if not only or step.name in only]
        try:
            if any(step.is_llama for step in steps) or BUILD.name in only:
                self._begin_build()
            for step in steps:
                if step.is_llama:
                    self._await_build()
                self._do(step)
                self._keep_all()
            self._await_build()
        finally:
            if self._build is not None:
                self._build.end()

    def _begin_build(self) -> None:
        if self._stage.server is not None:
            return
        why = build.missing(shutil.which, PARTS, self._stage.device is not None)
        if why:
            self._keep(BUILD, Outcome.SKIPPED, f"{why}; the embedded engine is used, if it is installed")
            return
        self._build = self._child(BUILD)

    def _await_build(self) -> None:
        if self._build is None:
            return
        if not _ends(self._build, self._until - time.monotonic()):
            self._keep(BUILD, Outcome.FAILED, f"the time was over: {build.progress(self._folder)}")
        elif self._build.process.returncode:
            self._keep(
                BUILD, Outcome.FAILED, f"it ended with {self._build.process.returncode}: {self._build.last_words()}"
            )
        self._build.end()
        self._build = None

    def _do(self, step: Step) -> None:
        bound = time_for(step, self._until - time.monotonic())
        if bound is None:
            self._keep(step, Outcome.SKIPPED, "the time was over")
            return
        say(f"-- {step.title} (at most {bound:.0f} s)")
        child = self._child(step)
        try:
            ended = _ends(child, bound)
            if not ended:
                self._keep(step, Outcome.FAILED, f"it took more than {bound:.0f} s and was ended")
            elif child.process.returncode:
                self._keep(step, Outcome.FAILED, f"it ended with {child.process.returncode}: {child.last_words()}")
        finally:
            child.end(grace=5)

    def _child(self, step: Step) -> Child:
        return Child.start(step.name, self._command(step), self._folder / f"{step.name}.log")

    def _own_command(self, step: Step) -> Sequence[str]:
        words = ("-m", "bench.gpu", "step", step.name, "--plan", self._plan.name, "--folder", str(self._folder))
        return (sys.executable, *words)

    def _keep(self, step: Step, outcome: Outcome, why: str) -> None:
        self._stage.rows.add(Row(step.name, step.name, outcome, why=why))
        say(f"{step.name}: {outcome}: {why}")


def _ends(child: Child, within: float) -> bool:
    until = time.monotonic() + within
    while child.is_alive():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
