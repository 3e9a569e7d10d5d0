"""vLLM itself, where it is installed: sleep levels, ways to read weights, and its snapshot."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psutil

from bench.gpu import swaps
from bench.gpu.models import write_hugging_face
from bench.gpu.plan import FORMATS, SLEEP_LEVELS, SNAPSHOT, Column, format_case
from bench.gpu.stage import Figures, Skipped, Stage
from bench.processes import Child, free_port
from bench.swap import calls
from stoker.domain.serve import Serve, Tuning
from stoker.engines import load_formats, vllm
from stoker.fleet.warm import pages

COMMAND = "vllm"
READY_WITHIN = 120.0
"""Seconds."""


def measure(stage: Stage) -> None:
    """Every cell, also those that cannot be tried: each says why."""
    for column, level in SLEEP_LEVELS.items():
        stage.attempt(str(column), partial(_asleep, stage, column, level))
    for name in FORMATS:
        stage.attempt(format_case(name), partial(_loaded, stage, name))
    stage.attempt(SNAPSHOT, partial(_snapshot, stage))


def _program(stage: Stage) -> str:
    """Raises Skipped where there is no vLLM, or nothing to run it on."""
    if stage.device is None:
        raise Skipped("no NVIDIA GPU")
    program = shutil.which(COMMAND)
    if program is None:
        raise Skipped("vLLM is not installed here: `pip install vllm`")
    return program


def _model(stage: Stage, name: str) -> Path:
    if find_spec("transformers") is None:
        raise Skipped("transformers, which writes the model, is not installed here")
    return write_hugging_face(stage.folder, name, stage.plan.torch[0].size // 4)


def _serve(name: str, model: Path, more: str) -> str:
    head = f'\n[[serve]]\nname = "{name}"\nengine = "vllm"\nmodel = "{model}"\nslot = "gpu0"\ncontext = 2048\n'
    return f'{head}graphs = false\nmemory_fraction = 0.4\nready_timeout = "{READY_WITHIN:.0f}s"\n{more}\n'


def _asleep(stage: Stage, column: Column, level: int) -> tuple[Figures, str]:
    _program(stage)
    if column is Column.SUSPENDED and (why := swaps.cannot_suspend()):
        raise Skipped(why)
    names = ("vllm0", "vllm1")
    serves = [_serve(name, _model(stage, name), f"sleep_level = {level}") for name in names]
    with stage.plane(serves, warm=swaps.pool([stage.plan.torch[0], stage.plan.torch[0]])) as plane:
        return swaps.asleep(stage, plane, names[0], names[1], "")


def _loaded(stage: Stage, name: str) -> tuple[Figures, str]:
    """A cold start: no weights in the page cache."""
    program = _program(stage)
    model = _model(stage, "vllm0")
    serve = Serve("vllm0", engine="vllm", tuning=Tuning(load_format=name))
    lacks = load_formats.problems(serve, vllm.LOAD_FORMATS, "vLLM", program)
    if lacks:
        raise Skipped(lacks[0])
    for path in model.glob("*.safetensors"):
        pages.evict(str(path))
    with stage.plane([_serve("vllm0", model, f'load_format = "{name}"')]) as plane:
        return swaps.swapped(plane, "vllm0"), ""


def _snapshot(stage: Stage) -> tuple[Figures, str]:
    """By vLLM's own commands: Stoker does not use them."""
    program = _program(stage)
    if subprocess.run([program, "snapshot", "--help"], capture_output=True, timeout=60, check=False).returncode:
        raise Skipped("this vLLM has no `snapshot`")
    folder, model = stage.folder / "snapshot", _model(stage, "vllm0")
    create = [program, "snapshot", "create", str(model), "--snapshot-dir", str(folder), "--max-model-len", "2048"]
    made = _timed(lambda: subprocess.run(create, capture_output=True, timeout=2 * READY_WITHIN, check=True))
    port = free_port()
    command = [program, "snapshot", "restore", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    child = Child.start("snapshot", command, stage.folder / "snapshot.log")
    try:
        restored = _timed(lambda: _until_healthy(port))
    finally:
        child.end(grace=5)
        end_listener(port)
    return {"create_s": made, "restore_s": restored}, "by vLLM's own commands, without Stoker"


def end_listener(port: int) -> None:
    """Ends the process that listens there, with all below it: what `restore` started runs on when that has ended, and
    holds the GPU. Waits until they are gone, for ten seconds at most.
    """
    found = [
        one.pid for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid is not None
    ]  # fmt: skip
    tree: list[psutil.Process] = []
    for pid in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            tree += [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(tree, timeout=10)


def _timed(work: Callable[[], object]) -> float:
    """Seconds. Raises RuntimeError for a command that failed."""
    began = time.monotonic()
    try:
        work()
    except subprocess.SubprocessError as error:
        raise RuntimeError(str(error)) from error
    return time.monotonic() - began


def _until_healthy(port: int) -> None:
    until = time.monotonic() + READY_WITHIN
    while time.monotonic() < until:
        try:
            if calls.get(port, "/health")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"it was not healthy within {READY_WITHIN:.0f} s")
