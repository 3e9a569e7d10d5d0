"""The short steps: the machine, its models, memory beside `fit`, and what Stoker says beside `nvidia-smi`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from bench.gpu import facts, models
from bench.gpu.plan import Model, memory_case
from bench.gpu.rows import Outcome
from bench.gpu.stage import Figures, Skipped, Stage, say
from bench.swap.plane import Plane
from bench.warm import speeds
from stoker.domain.serve import Serve
from stoker.fleet.memory.fit.check import check_fit
from stoker.fleet.memory.host import host_memory
from stoker_setup import gpu_proof
from stoker_setup.commands import doctor_gpu
from stoker_setup.gpu_proof import GpuProof, ProofResult

_OUTCOMES = {
    ProofResult.OK: Outcome.MEASURED,
    ProofResult.DIFFERS: Outcome.FAILED,
    ProofResult.SKIPPED: Outcome.SKIPPED,
    ProofResult.FAILED: Outcome.FAILED,
}


def machine(stage: Stage) -> None:
    stage.attempt("disk", partial(_disk, stage.folder / "disk.bin", stage.plan.disk))
    copied: dict[str, float] = {}

    def copy(direction: str) -> tuple[Figures, str]:
        if stage.is_stand_in:
            raise Skipped("no PyTorch, or no GPU")
        if not copied:
            copied["to the GPU"], copied["to main memory"] = facts.copies()
        return {"gb_s": copied[direction] / 1e9}, ""

    stage.attempt("copy to the GPU, pinned", partial(copy, "to the GPU"))
    stage.attempt("copy to main memory, pinned", partial(copy, "to main memory"))
    stage.attempt("NVML", partial(_nvml, stage))


def _disk(path: Path, size: int) -> tuple[Figures, str]:
    block = os.urandom(2**20)
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    found = speeds.measure(path)
    path.unlink()
    return {"gb_s": found.disk / 1e9, "page_cache_gb_s": found.cache / 1e9, "memory_gb_s": found.copy / 1e9}, ""


def _nvml(stage: Stage) -> tuple[Figures, str]:
    if stage.device is None:
        raise Skipped("no NVIDIA GPU")
    found, absent = facts.nvml_fields()
    return found, f"absent: {', '.join(absent)}" if absent else ""


def files(stage: Stage) -> None:
    for model in stage.plan.llama:
        stage.attempt(model.name, partial(_file, stage, model))


def _file(stage: Stage, model: Model) -> tuple[Figures, str]:
    path, rate = models.write_gguf(stage.folder, model, stage.plan.width, stage.plan.spare)
    return {"size_gb": path.stat().st_size / 1e9, **({"written_gb_s": rate / 1e9} if rate else {})}, ""


def memory(stage: Stage) -> None:
    """What each model holds once it is ready, beside the estimate before its start."""
    tried = [
        (model, path, context)
        for model, path in stage.models()[: stage.plan.swapped]
        for context in stage.plan.contexts
    ]
    serves = [stage.llama(f"model{n}", path, f"context = {context}") for n, (_, path, context) in enumerate(tried)]
    with stage.plane(serves) as plane:
        for number, (model, path, context) in enumerate(tried):
            work = partial(_memory, stage, plane, f"model{number}", path, context)
            stage.attempt(memory_case(model, context), work)


def _memory(stage: Stage, plane: Plane, name: str, path: Path, context: int) -> tuple[Figures, str]:
    serve = Serve(name, model=str(path), context=context, parallel=1, embedded=stage.server is None)
    devices = [stage.device] if stage.device is not None and stage.server is not None else []
    plane.switch(name)
    plane.first_token(name)
    proof = gpu_proof.memory(stage.measured(plane, name), check_fit(serve, devices, host_memory()).needed)
    if proof.result is ProofResult.SKIPPED:
        raise Skipped(proof.why)
    return proof.figures, "" if devices else "main memory: the embedded engine computes on processors"


def driver(stage: Stage) -> None:
    """As `stoker doctor --gpu`."""
    if stage.server is not None:  # its Stoker finds the server there
        os.environ["PATH"] = f"{stage.server.parent}:{os.environ['PATH']}"
    for proof in doctor_gpu.prove(stage.probe, say):
        stage.keep(proof.part, _OUTCOMES[proof.result], proof.figures, proof.why or _beside(proof))


def _beside(proof: GpuProof) -> str:
    return f"{proof.measured}; expected {proof.expected}"
