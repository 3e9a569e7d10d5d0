"""Why an engine ended, by its last output: a table of patterns, with advice for each. Pure.

An engine's own rows come first, then TABLE from the top; the first row with a matching line wins. So causes come
before their consequences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from stoker.domain.serve import Status
from stoker.engines.record import FailureKind, FailurePattern
from stoker.engines.registry import ENGINES, GENERIC, engine_of

EVIDENCE = 200
"""Characters shown of the line that matched."""
_LINES, _WIDTH = 400, 2000
_SIGKILL = frozenset((-9, 137))


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """`evidence`: a line of the engine's output, shortened. The caller has removed secrets from it."""

    kind: FailureKind
    evidence: str
    advice: str


PROPOSED: Mapping[FailureKind, Status] = {
    FailureKind.STARTUP_MEMORY: Status.REJECTED,
    FailureKind.OUT_OF_MEMORY: Status.REJECTED,
    FailureKind.UNSUPPORTED_QUANTIZATION: Status.REJECTED,
    FailureKind.UNSUPPORTED_BACKEND: Status.REJECTED,
    FailureKind.UNSUPPORTED_ARCHITECTURE: Status.REJECTED,
    FailureKind.DEVICE_LOST: Status.BLOCKED,
    FailureKind.BAD_WEIGHTS: Status.BLOCKED,
}
"""The status that a validation proposes: `rejected` blames the serve, `blocked` the machine or the weights."""


TABLE: tuple[FailurePattern, ...] = (
    FailurePattern(
        FailureKind.DEVICE_LOST,
        r"GPU is lost|fallen off the bus|uncorrectable ECC|DeviceLost|no CUDA-capable device|No HIP GPUs are available"
        r"|(CUDA|CUDA driver) initialization (error|failed)|devices? unavailable|driver version is insufficient"
        r"|No CUDA GPUs are available|Failed to infer device type",
    ),
    FailurePattern(
        FailureKind.OUT_OF_MEMORY,
        r"out of memory|OutOfMemory|OutOfDeviceMemory|cudaMalloc failed|failed to allocate|unable to allocate|bad_alloc"
        r"|\bMemoryError\b|Cannot allocate memory|memory allocation of size \d+ failed",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_QUANTIZATION,
        r"quantization (method|scheme)\b.{0,80} (is not supported|does not match)|Unknown quantization method"
        r"|argument --quantization: invalid choice|Cannot find the config file for|unsupported quantization"
        r"|invalid ggml type|unknown (tensor|ggml) type",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_BACKEND,
        r"Selected backend .{0,120}not valid for this configuration|no kernel image is available"
        r"|argument --attention-backend: invalid choice|backend is not supported|does not support .{0,60}backend"
        r"|V cache (quantization )?requires flash.?att|requires? device(s)? with (compute )?capability"
        r"|cache type .{0,40} does not divide",
    ),
    FailurePattern(
        FailureKind.DEVICE_FAULT,
        r"illegal memory access|unspecified launch failure|device-side assert|CUDA error: misaligned|HSA_STATUS_ERROR"
        r"|Memory access fault by GPU",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_ARCHITECTURE,
        r"unknown model architecture|unsupported model architecture|unsupported architecture|not supported for now"
        r"|does not recognize this architecture|Model architectures .{0,80} failed to be inspected",
    ),
    FailurePattern(
        FailureKind.PORT_TAKEN,
        r"address already in use|couldn't bind|could not bind|HTTP server error|bind\(\) failed|EADDRINUSE",
    ),
    FailurePattern(
        FailureKind.MISSING_DEPENDENCY,
        r"No module named|ModuleNotFoundError|cannot open shared object|error while loading shared libraries"
        r"|could not find nvcc|nvcc: (command )?not found|ninja (is|was) (required|not found)"
        r"|FileNotFoundError: .{0,60}'(ninja|nvcc)'|torch.memory.saver.{0,40}(not|install)",
    ),
    FailurePattern(
        FailureKind.MISSING_WEIGHTS,
        r"Repository Not Found|gated repo|is not a local folder and is not a valid model identifier|Repo id must"
        r"|Cannot find any model weights|does not appear to have a file named|Invalid repository ID or local directory",
    ),
    FailurePattern(
        FailureKind.BAD_WEIGHTS,
        r"invalid magic|gguf_init_from|tensor .{0,200}(not within|out of bounds|data offset)|file bounds|failed to read"
        r"|corrupt|error loading model|SafetensorError|deserializing header",
    ),
    FailurePattern(
        FailureKind.BAD_OPTION,
        r"unrecognized arguments?|invalid argument|unknown argument|no such option|unexpected argument"
        r"|invalid choice:|expected one argument",
    ),
)

_ADVICE: Mapping[FailureKind, str] = {
    FailureKind.STARTUP_MEMORY: "it could not reserve its memory: lower `context` or `parallel`, free the device, or "
    "change `memory_fraction`",
    FailureKind.OUT_OF_MEMORY: "it ran out of memory: lower `context`, `parallel` or `gpu_layers`, or take a smaller "
    "quantisation",
    FailureKind.DEVICE_LOST: "there is no usable device: look at `nvidia-smi` and `dmesg`; the driver may be missing, "
    "or the machine may need a restart",
    FailureKind.DEVICE_FAULT: "its code failed on the device: try `graphs = false` or another `attention_backend`, or "
    "update the engine",
    FailureKind.UNSUPPORTED_QUANTIZATION: "this engine cannot run this quantisation here: use another file, or remove "
    "`quantization`",
    FailureKind.UNSUPPORTED_BACKEND: "this attention backend, or KV cache type, cannot run here: use another, or "
    "remove `attention_backend` and `kv_cache_type`",
    FailureKind.UNSUPPORTED_ARCHITECTURE: "this engine does not know the model's architecture: update the engine",
    FailureKind.CONTEXT_TOO_LONG: "the model does not support so long a context: lower `context`",
    FailureKind.PORT_TAKEN: "its port is taken: find the process with `ss -ltnp`, or remove `port` so that a free one "
    "is picked",
    FailureKind.MISSING_DEPENDENCY: "something that it needs is not installed in the environment that it runs in",
    FailureKind.MISSING_WEIGHTS: "the weights do not exist, or may not be fetched: correct `model`, or fetch them "
    "first and give their directory",
    FailureKind.BAD_WEIGHTS: "the weights look damaged or truncated: compare their size and checksum with the source, "
    "or download them again",
    FailureKind.BAD_OPTION: "it does not know an option: correct `extra_args` or `cmd`",
}


def advice(kind: FailureKind, engine: str = "") -> str:
    """What to do about it, in configuration keys."""
    return engine_of(engine).advice.get(kind, _ADVICE[kind])


def classify(engine: str, exit_code: int | None, said: str, oom_kills: int | None = None) -> EngineFailure | None:
    """Why the engine ended; None if unknown.

    An engine that may be any other has the rows of all. `said`: the last lines of its output.
    `oom_kills`: how many of its processes the kernel killed to free memory (its control group's `oom_kill`);
    None: not known.

    1. the kernel counted a kill
    2. a row of the table matches
    3. SIGKILL without another reason: probably the kernel
    4. anything else
    """
    if oom_kills:  # 1
        return EngineFailure(
            FailureKind.OUT_OF_MEMORY, f"the kernel killed {oom_kills} of its processes", advice(_KILLED, engine)
        )
    lines = [line[:_WIDTH] for line in said.splitlines()[-_LINES:]]
    for row in _rows(engine):  # 2
        pattern = _compiled(row.pattern)
        for line in lines:
            if (match := pattern.search(line)) is not None:
                return EngineFailure(row.kind, _around(line, match.start(), match.end()), advice(row.kind, engine))
    if exit_code in _SIGKILL and oom_kills is None and not said.strip():  # 3
        return EngineFailure(_KILLED, "killed without a word", f"{advice(_KILLED, engine)}; see `dmesg`")
    return None  # 4


_KILLED = FailureKind.OUT_OF_MEMORY


def _rows(engine: str) -> tuple[FailurePattern, ...]:
    own = engine_of(engine)
    engines = ENGINES.values() if own is GENERIC else (own,)
    return (*(row for one in engines for row in one.failures), *TABLE)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _around(line: str, start: int, end: int) -> str:
    if len(line) <= EVIDENCE:
        return line.strip()
    middle = (start + min(end, start + EVIDENCE)) // 2
    begin = max(0, min(middle - EVIDENCE // 2, len(line) - EVIDENCE))
    return line[begin : begin + EVIDENCE].strip()
