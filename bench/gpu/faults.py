"""A model that the device has no memory for, whose fallback answers; an engine that is killed while it holds some."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import sys
import time
from functools import partial

from bench.gpu import models
from bench.gpu.rows import Outcome
from bench.gpu.stage import STAND_IN, Figures, Skipped, Stage
from bench.swap.plane import Plane
from stoker.fleet.drivers import process_group
from stoker.fleet.memory.measure import snapshot
from stoker_setup.commands import doctor_gpu

PATIENCE = 60.0
"""Seconds for one request."""
LIMIT = 3 * 2**30
"""Bytes of address space of an engine without a GPU that is to run out of memory."""
BIG, SMALL, HELD = "big", "small", "held"
HUGE_CONTEXT = 2**24
"""Tokens: their cache is larger than any device's memory."""


def faults(stage: Stage) -> None:
    """Of each engine: one that is too large, a small one that answers for it, and one that is killed."""
    for engine, serves, remark in (("llama.cpp", _llama, _remark(stage)), ("PyTorch", _torch, _stand_in(stage))):
        try:
            plane = stage.plane(serves(stage))
        except Skipped as skipped:
            for case in ("out of memory", "kill -9"):
                stage.keep(f"{case}, {engine}", Outcome.SKIPPED, why=str(skipped))
            continue
        with plane:
            stage.attempt(f"out of memory, {engine}", partial(_fallback, plane, remark))
            stage.attempt(f"kill -9, {engine}", partial(_killed, stage, plane, remark))


def _remark(stage: Stage) -> str:
    return "" if stage.server is not None else "the embedded engine, on processors; its address space is limited"


def _stand_in(stage: Stage) -> str:
    return STAND_IN if stage.is_stand_in else ""


def _llama(stage: Stage) -> list[str]:
    """The one that is too large has a `cmd` of its own, which Stoker does not judge before its start."""
    paths = [path for _, path in stage.models()]
    words = ["-m", str(paths[0]), "--port", "{port}", "--alias", BIG, "-c", str(HUGE_CONTEXT)]
    if stage.server is not None:
        command = [str(stage.server), *words, "-ngl", "99"]
    else:
        engine = shlex.join([sys.executable, "-m", "stoker.engines.embedded", *words])
        command = ["sh", "-c", f"ulimit -v {LIMIT // 1024}; exec {engine.replace(shlex.quote('{port}'), '{port}')}"]
    keys = f'engine = "openai"\ncmd = {json.dumps(command)}\nslot = "gpu0"\nfallback = "{SMALL}"\n'
    big = f'\n[[serve]]\nname = "{BIG}"\n{keys}'
    return [big, stage.llama(SMALL, paths[0]), stage.llama(HELD, paths[-1])]


def _torch(stage: Stage) -> list[str]:
    plan, width = stage.plan, stage.plan.width
    total = stage.device.total if stage.device is not None and not stage.is_stand_in else None
    size, limit = (int(1.2 * total), None) if total else (2 * LIMIT, LIMIT)
    large = models.write_folder(stage.folder, "too-large", size, width, has_file=False, limit=limit)
    small = models.write_folder(stage.folder, SMALL, 4 * width.wide * width.hidden, width, has_file=False)
    held = models.write_folder(stage.folder, "model0", plan.torch[0].size, width, has_file=False)
    return [
        stage.torch(BIG, large, f'fallback = "{SMALL}"'), stage.torch(SMALL, small), stage.torch(HELD, held)
    ]  # fmt: skip


def _fallback(plane: Plane, remark: str) -> tuple[Figures, str]:
    """Raises RuntimeError if the fallback does not answer, or for another reason."""
    began = time.perf_counter()
    status, answered_by, body = _ask(plane, BIG)
    seconds = time.perf_counter() - began
    if status != 200 or "out_of_memory" not in answered_by:
        failure = plane.serve(BIG)["last_error"]
        raise RuntimeError(f"status {status}, fallback {answered_by or 'none'}: {failure or body[:300]}")
    return {"answer_s": seconds}, remark


def _ask(plane: Plane, model: str) -> tuple[int, str, str]:
    """Status, the header that names a fallback, and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=PATIENCE)
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Say hello."}]}
    headers = {"content-type": "application/json", "authorization": f"Bearer {plane.key}"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        reply = connection.getresponse()
        return reply.status, reply.getheader("x-stoker-fallback") or "", reply.read().decode(errors="replace")
    finally:
        connection.close()


def _killed(stage: Stage, plane: Plane, remark: str) -> tuple[Figures, str]:
    """From `kill -9` to free memory, and to the next answer."""
    plane.switch(HELD)
    pid = int(plane.serve(HELD)["pid"])
    pids = process_group.members(pid)
    before = snapshot(stage.probe)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    proof = doctor_gpu.until_freed(stage.probe, before, pids, began)
    freed = (
        {"freed_s": proof.figures["seconds"], "missing_bytes": proof.figures["missing_bytes"]} if proof.figures else {}
    )
    while pid in process_group.members(pid) and time.monotonic() - began < PATIENCE:
        time.sleep(0.01)
    left = len(process_group.members(pid))
    while True:
        status, _, body = _ask(plane, HELD)
        if status == 200:
            break
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError(f"no answer after {PATIENCE:g} s: status {status}: {body[:300]}")
        time.sleep(0.1)
    return {**freed, "left_processes": left, "answer_again_s": time.monotonic() - began}, remark
