"""Steps, their bounds, sizes of models, and the cells of the table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import NamedTuple

MB, GB = 10**6, 10**9


class Column(StrEnum):
    """Where a model's weights are when it is asked for."""

    COLD = "cold"
    """On disk, none of them in the page cache."""
    CACHED = "page cache"
    ASLEEP = "sleep 1"
    """In host memory: vLLM's sleep level 1."""
    DROPPED = "sleep 2"
    """In the file, which the engine reads again: vLLM's sleep level 2."""
    SUSPENDED = "sleep 3"
    """In host memory with everything else on the device, put there by the driver."""


SLEEP_LEVELS: Mapping[Column, int] = {Column.ASLEEP: 1, Column.DROPPED: 2, Column.SUSPENDED: 3}


class Model(NamedTuple):
    """`size` in bytes. `kind`: type of a GGUF file's weights, or `bf16` for PyTorch's."""

    name: str
    kind: str
    size: int
    has_file: bool = True
    """False: PyTorch draws the weights on the device."""

    @property
    def is_gguf(self) -> bool:
        return self.kind != "bf16"

    @property
    def columns(self) -> tuple[Column, ...]:
        """llama.cpp does not sleep by itself; what has no file cannot be read from one."""
        of_file = (Column.COLD, Column.CACHED) if self.has_file else ()
        by_itself = () if self.is_gguf else (Column.ASLEEP, *((Column.DROPPED,) if self.has_file else ()))
        return (*of_file, *by_itself, Column.SUSPENDED)


class Width(NamedTuple):
    """Of the GGUF models' layers."""

    wide: int
    hidden: int
    heads: int
    kv_heads: int


class Plan(NamedTuple):
    """One size of the bench."""

    name: str
    llama: tuple[Model, ...]
    torch: tuple[Model, ...]
    swapped: int
    """How many of llama.cpp's models are swapped, and have their memory measured."""
    width: Width
    spare: int
    """Bytes of disk that stay free beside a file of weights: llama.cpp is built meanwhile."""
    disk: int
    """Bytes of the file whose reading gives the speed of the disk."""
    context: int
    """Tokens, where nothing else is said."""
    contexts: tuple[int, ...]
    """Tokens for which memory is compared with its estimate."""
    rounds: int
    changes: int
    """Requests by turns to two models that are loaded together."""
    streams: tuple[int, ...]
    tokens: int


class Step(NamedTuple):
    """`bound`: seconds after which it is ended; what it has kept by then counts. `is_llama`: it waits for the build."""

    name: str
    title: str
    bound: float
    is_llama: bool = False


FULL = Plan(
    "full",
    llama=(Model("1 GB q4_0", "q4_0", GB), Model("8 GB q8_0", "q8_0", 8 * GB), Model("16 GB f16", "f16", 16 * GB)),
    torch=(Model("16 GB", "bf16", 16 * GB), Model("20 GB, drawn", "bf16", 20 * GB, has_file=False)),
    swapped=2,
    width=Width(4096, 14336, 32, 8),
    spare=6 * GB,
    disk=2**30,
    context=4096,
    contexts=(2048, 32768),
    rounds=3,
    changes=20,
    streams=(1, 8, 32),
    tokens=256,
)
REHEARSAL = Plan(
    "rehearsal",
    llama=(
        Model("8 MB q4_0", "q4_0", 8 * MB),
        Model("16 MB q8_0", "q8_0", 16 * MB),
        Model("24 MB f16", "f16", 24 * MB),
    ),
    torch=(Model("24 MB", "bf16", 24 * MB), Model("32 MB, drawn", "bf16", 32 * MB, has_file=False)),
    swapped=1,
    width=Width(256, 1024, 4, 2),
    spare=0,
    disk=2**26,
    context=512,
    contexts=(2048,),
    rounds=1,
    changes=4,
    streams=(1, 2),
    tokens=16,
)
PLANS: Mapping[str, Plan] = {plan.name: plan for plan in (FULL, REHEARSAL)}

FACTS = Step("facts", "The machine", 60)
DRIVER = Step("driver", "What Stoker says, beside the driver", 75, is_llama=True)
MODELS = Step("models", "Files of random weights", 200)
SLEEP = Step("sleep", "Swaps of a PyTorch engine", 170)
SWAPS = Step("swaps", "Swaps of llama.cpp", 170, is_llama=True)
VLLM = Step("vllm", "vLLM itself: sleep levels, load formats, snapshot", 300)
MEMORY = Step("memory", "Memory measured, beside the estimate of `stoker fit`", 60, is_llama=True)
SHARING = Step("sharing", "Two serves on one GPU", 100, is_llama=True)
FAULTS = Step("faults", "Out of memory, and killed", 90, is_llama=True)
SPEED = Step("speed", "Tokens per second and first token, through Stoker and direct", 90, is_llama=True)
BUILD = Step("build", "llama-server, built with CUDA", inf)
"""In the background, from the beginning, for as long as it takes: without it most steps have nothing to measure."""
STEPS = (FACTS, MODELS, SLEEP, DRIVER, MEMORY, SPEED, FAULTS, SHARING, SWAPS, VLLM)
"""In this order: what needs no `llama-server` runs while it is built; the longest comes last, for what time is left."""


FORMATS = ("safetensors", "fastsafetensors", "runai_streamer", "instanttensor")
SNAPSHOT = "snapshot"


def format_case(name: str) -> str:
    return f"load format {name}"


def rounds(plan: Plan, column: Column) -> int:
    """A disk takes its time: one cold start of a model has to do."""
    return 1 if column is Column.COLD else plan.rounds


def swap_case(model: Model, column: Column) -> str:
    return f"{'llama.cpp' if model.is_gguf else 'PyTorch'} {model.name}, {column}"


def memory_case(model: Model, context: int) -> str:
    return f"llama.cpp {model.name}, {context} tokens"


def stream_case(streams: int) -> str:
    return "1 stream" if streams == 1 else f"{streams} streams"


def cells(plan: Plan) -> dict[str, list[str]]:
    """Step -> the cases that its table always shows, measured or not."""

    def swaps(models: tuple[Model, ...]) -> list[str]:
        return [swap_case(model, column) for model in models for column in model.columns]

    return {
        FACTS.name: ["disk", "copy to the GPU, pinned", "copy to main memory, pinned", "NVML"],
        MODELS.name: [model.name for model in plan.llama],
        BUILD.name: ["llama-server"],
        SLEEP.name: swaps(plan.torch),
        SWAPS.name: swaps(plan.llama[: plan.swapped]),
        MEMORY.name: [memory_case(model, context) for model in plan.llama[: plan.swapped] for context in plan.contexts],
        DRIVER.name: ["telemetry", "mask", "memory", "memory by process", "freed memory"],
        SHARING.name: ["two loaded together", "a third one comes"],
        FAULTS.name: ["out of memory, llama.cpp", "out of memory, PyTorch", "kill -9, llama.cpp", "kill -9, PyTorch"],
        SPEED.name: [stream_case(streams) for streams in plan.streams],
        VLLM.name: [*map(str, SLEEP_LEVELS), *map(format_case, FORMATS), SNAPSHOT],
    }


class Goal(NamedTuple):
    """What a figure should be: at most, or at least, this."""

    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


GOALS: Mapping[tuple[str, str], Goal] = {
    (MEMORY.name, "off_percent"): Goal(-5, 5),
    (FAULTS.name, "freed_s"): Goal(most=1),
    (FAULTS.name, "missing_bytes"): Goal(most=0),
    (FAULTS.name, "left_processes"): Goal(most=0),
    (FAULTS.name, "answer_s"): Goal(),
    (SHARING.name, "failed_requests"): Goal(most=0),
    (SHARING.name, "loaded_together"): Goal(least=2),
    (SPEED.name, "through_share"): Goal(least=0.99),
    (SPEED.name, "added_first_ms"): Goal(most=2),
}


def missed(step: str, figures: Mapping[str, float]) -> list[str]:
    """The figures of a row that miss their goal."""
    return [name for name, value in figures.items() if (goal := GOALS.get((step, name))) and not goal.is_met(value)]


def time_for(step: Step, left: float) -> float | None:
    """Seconds that a step gets of the time that is left; None: too little to begin it."""
    return None if left < min(step.bound, 20.0) else min(step.bound, left)
