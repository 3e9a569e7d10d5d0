"""What the steps of one run share: where they work, which engines there are, and where their rows go."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench import engines
from bench.engines import EngineSetup
from bench.gpu.plan import Model, Plan
from bench.gpu.rows import Outcome, Row, RowFile
from bench.swap.plane import Plane
from stoker.domain.errors import StokerError
from stoker.fleet.memory.devices import Device, Nvidia

Figures = Mapping[str, float]
ENGINE = Path(__file__).with_name("engine.py")
STAND_IN = "a stand-in that holds main memory: no PyTorch, or no GPU"
SETTLED_WITHIN = 10.0
"""Seconds until Stoker has measured a serve that is ready."""
NO_POOL = '[warm]\nmemory = "0B"\npredict = false\n'


class Skipped(Exception):
    """It cannot be tried here; the text says why."""


class Stage:
    """`folder`: of this run. `server`: the `llama-server` that was built; None: the embedded engine, on processors."""

    def __init__(self, plan: Plan, folder: Path, step: str, has_torch: bool) -> None:
        self.plan, self.folder, self.step = plan, folder, step
        self.rows = RowFile(folder / "rows.jsonl")
        self.probe = Nvidia()
        found = self.probe.devices()
        self.device: Device | None = found[0] if found else None
        built = folder / "build" / "bin" / "llama-server"
        self.server = built if built.exists() else None
        self.is_stand_in = not (has_torch and self.device is not None)
        """Whether the PyTorch engine is one."""
        self._planes = 0

    # -- rows ------------------------------------------------------------------------------------------------------

    def attempt(self, case: str, work: Callable[[], tuple[Figures, str]]) -> None:
        """Keeps the figures of `work` and its remark, or why there are none; the next one is tried."""
        say(f"{self.step}: {case}")
        try:
            figures, why = work()
        except Skipped as skipped:
            self.keep(case, Outcome.SKIPPED, why=str(skipped))
        except (RuntimeError, OSError, KeyError, ImportError, http.client.HTTPException, StokerError) as error:
            self.keep(case, Outcome.FAILED, why=f"{type(error).__name__}: {' '.join(str(error).split())[:600]}")
        else:
            self.keep(case, Outcome.MEASURED, figures, why)

    def keep(self, case: str, outcome: Outcome, figures: Figures | None = None, why: str = "") -> None:
        self.rows.add(Row(self.step, case, outcome, dict(figures or {}), why))
        say(f"{self.step}: {case}: {outcome}{f': {why}' if why else ''}")

    # -- engines ---------------------------------------------------------------------------------------------------

    @property
    def computes_on(self) -> str:
        """A remark for rows of llama.cpp."""
        return "" if self.server is not None else "the embedded engine, on processors"

    def llama(self, name: str, model: Path, more: str = "") -> str:
        """A serve of llama.cpp. `more`: lines with other keys."""
        if self.server is not None:
            where = f"embedded = false\ngpu_layers = 99\nenv = {{ PATH = {self._path(self.server.parent)} }}"
        else:
            where = f"embedded = true\nthreads = {len(os.sched_getaffinity(0))}"
        context = "" if "context" in more else f"context = {self.plan.context}\n"
        parallel = "" if "parallel" in more else "parallel = 1\n"
        return f"{_head(name, 'llama.cpp', model)}{where}\n{context}{parallel}{more}\n"

    def torch(self, name: str, model: Path, more: str = "", environment: Mapping[str, str] | None = None) -> str:
        """A serve of the PyTorch engine, which Stoker starts as `vllm`."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        command = tools / "vllm"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {ENGINE} "$@"\n')
        command.chmod(0o755)
        own = "".join(f", {key} = {json.dumps(value)}" for key, value in (environment or {}).items())
        return f"{_head(name, 'vllm', model)}env = {{ PATH = {self._path(tools)}{own} }}\n{more}\n"

    @staticmethod
    def _path(first: Path) -> str:
        return json.dumps(f"{first}:{os.environ.get('PATH', '/usr/bin:/bin')}")

    def plane(self, serves: Sequence[str], slot: str = "", warm: str = NO_POOL) -> Plane:
        """A `stoker up` of its own with these serves in one slot, without hysteresis."""
        self._planes += 1
        folder = self.folder / f"{self.step}-{self._planes}"
        setup = EngineSetup(self.step, self.step, "".join(serves), slot=slot)
        return Plane(setup, folder, engines.HYSTERESIS_OFF + warm)

    def measured(self, plane: Plane, serve: str) -> int | None:
        """Bytes that Stoker measured of a loaded serve; None: it did not say so in time, or the driver tells nobody."""
        if self.device is not None and self.probe.by_process() is None:
            return None
        until = time.monotonic() + SETTLED_WITHIN
        while (found := plane.serve(serve).get("measured")) is None and time.monotonic() < until:
            time.sleep(0.02)
        return None if found is None else int(found)

    def models(self) -> list[tuple[Model, Path]]:
        """The GGUF files that were written. Raises Skipped if there is none, or no llama.cpp to load them."""
        if self.server is None and find_spec("xllamacpp") is None:
            raise Skipped("no `llama-server` was built, and the embedded engine is not installed")
        from bench.gpu.models import gguf_path

        found = [(model, path) for model in self.plan.llama if (path := gguf_path(self.folder, model)).exists()]
        if not found:
            raise Skipped("no model was written")
        return found


def _head(name: str, engine: str, model: Path) -> str:
    return f'\n[[serve]]\nname = "{name}"\nengine = "{engine}"\nmodel = {json.dumps(str(model))}\nslot = "gpu0"\n'


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """The median of each figure over the rounds that have it."""
    names = dict.fromkeys(name for one in rounds for name in one)
    return {name: median(one[name] for one in rounds if name in one) for name in names}


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
