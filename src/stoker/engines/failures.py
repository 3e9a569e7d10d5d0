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
_INFORMATION = re.compile(r"\bNCCL (INFO|TRACE)\b|\blevel=(INFO|DEBUG)\b|^\d+\.\d\d\.\d{3}\.\d{3} [ID] ")
"""Lines that no engine ends with: they may speak of what was tried and is not needed."""


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
    FailureKind.BAD_PARALLEL: Status.REJECTED,
    FailureKind.DRIVER_MISMATCH: Status.BLOCKED,
    FailureKind.CONTAINER_RUNTIME: Status.BLOCKED,
    FailureKind.PERMISSION: Status.BLOCKED,
    FailureKind.SHARED_MEMORY: Status.BLOCKED,
    FailureKind.DISK_FULL: Status.BLOCKED,
    FailureKind.INTERCONNECT: Status.BLOCKED,
}
"""The status that a validation proposes: `rejected` blames the serve, `blocked` the machine or the weights."""


TABLE: tuple[FailurePattern, ...] = (
    # what the machine lacks explains most of what follows from it
    FailurePattern(
        FailureKind.DRIVER_MISMATCH,
        r"driver/library version mismatch|NVML/RM version mismatch|driver version is insufficient"
        r"|PTX was compiled with an unsupported toolchain|unsupported PTX version|(display|cuda) driver combination"
        r"|forward compatibility was attempted|driver on your system is too old|(Error)?IncompatibleDriver"
        r"|(driver|runtime) version mismatch|kernel module version .{0,60}(differ|does not match)",
    ),
    FailurePattern(
        FailureKind.CONTAINER_RUNTIME,
        r"could not select device driver|nvidia-container-(cli|runtime)\b.{0,40}(error|path)|nvidia-container-cli: "
        r"|Additional properties are not allowed \('devices'|\bCDI\b.{0,40}(device|vendor)"
        r"|(invalid|unknown) runtime name|set_mempolicy: |OCI runtime create failed"
        r"|failed to create (shim|task)\b.{0,80}runtime|runc create failed|adding custom device"
        r"|stat (nvidia|amd|intel)\.com/gpu",
    ),
    FailurePattern(
        FailureKind.PERMISSION,
        r"open /dev/kfd|/dev/(dri|nvidia|kfd|accel)\S{0,40}: (Permission denied|Operation not permitted)"
        r"|is not (a )?member of .{0,20}(video|render)|PermissionError: |\[Errno 13\]"
        r"|permission denied while trying to connect|(NVML|nvmlInit).{0,60}(Insufficient Permissions|NO_PERMISSION)"
        r"|failed to open \S{1,80}: (Permission denied|Operation not permitted)",
    ),
    FailurePattern(
        FailureKind.SHARED_MEMORY,
        r"shared memory (segment|object)\b.{0,200}(No space left|Cannot allocate|File exists|error)"
        r"|/dev/shm/\S{1,80}\b.{0,80}No space"
        r"|insufficient shared memory|Fatal Python error: Bus error|killed by signal: Bus error|\bSIGBUS\b"
        r"|unable to (open|allocate|resize) shared memory",
    ),
    FailurePattern(
        FailureKind.DISK_FULL, r"No space left on device|\[Errno 28\]|StorageFull|Disk quota exceeded|\[Errno 122\]"
    ),
    # an exhausted card is often reported as lost, too
    FailurePattern(
        FailureKind.OUT_OF_MEMORY,
        r"ERROR_OUT_OF_(RESOURCES|DEVICE_MEMORY|HOST_MEMORY)|PI_ERROR_(OUT_OF|MEM_OBJECT_ALLOC)",
    ),
    FailurePattern(
        FailureKind.INTERCONNECT,
        r"\bnccl(System|UnhandledCuda|Internal|Remote|InvalidUsage|InvalidArgument)?\s?Error\b(?!.{0,10}none)"
        r"|ncclUnhandledCudaError|peer access is not supported|cudaErrorPeerAccess|custom_all_reduce\.cu"
        r"|(one|r)ccl: .{0,120}(EXCEPTION|error)|collective operation timeout|gloo/transport|DistNetworkError"
        r"|DistStoreError"
        r"|DistBackendError|setting up NCCL communicator|(hip|cuda)Ipc(Open|Get)MemHandle",
    ),
    FailurePattern(
        FailureKind.DEVICE_LOST,
        r"GPU is lost|fallen off the bus|uncorrectable ECC|DeviceLost|DEVICE_LOST|\bdevice lost\b|context is lost"
        r"|no CUDA-capable device|no ROCm-capable device|No (HIP|CUDA) GPUs are available|No XPU devices"
        r"|(CUDA|CUDA driver) initialization (error|failed)|devices? unavailable|system not yet initialized"
        r"|Failed to infer device type|ErrorInitializationFailed|Tensile host: No devices"
        r"|ERROR_DEVICE_NOT_(FOUND|AVAILABLE)"
        r"|ZE_RESULT_ERROR_UNINITIALIZED|No device of requested type|Failed to initialize NVML",
    ),
    # before memory and weights, of which some of these speak, too
    FailurePattern(
        FailureKind.BAD_PARALLEL,
        r"(must be|is not|not) divisible by|cannot be divided by \d|too large tensor parallel"
        r"|World size \(\d{1,6}\) is larger|exceeds the total number of available GPUs"
        r"|(tensor|pipeline).parallel.{0,40}(larger|greater|more) than",
    ),
    FailurePattern(FailureKind.STARTUP_MEMORY, r"Capture (cuda|hip|device)?\s?graphs? failed: .{0,80}out of memory"),
    FailurePattern(
        FailureKind.UNSUPPORTED_BACKEND,
        r"out of resource: shared memory|TensileLibrary|for GPU arch|NoBinaryForGpu|invalid device function"
        r"|device kernel image is invalid|is not compatible with the current|too old to be supported"
        r"|support querying the available free memory|(BUILD_PROGRAM|PROGRAM_BUILD)_FAILURE"
        r"|that cannot run the operation",
    ),
    FailurePattern(
        FailureKind.OUT_OF_MEMORY,
        r"out of memory|OutOfMemory|OutOfDeviceMemory|cudaMalloc failed|bad_alloc|\bMemoryError\b"
        r"|(failed|unable) to allocate(?!.{0,120}(falling back|retry|will use))|Cannot allocate memory"
        r"|Not enough memory for command"
        r"|memory allocation of size \d{1,20} failed|STATUS_ALLOC_FAILED|exit ?code:? -9\b|exitcode -9\b|OOM killer",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_QUANTIZATION,
        r"quantization (method|scheme)\b.{0,80} (is not supported|does not match)|Unknown quantization method"
        r"|argument --quantization: invalid choice|Cannot find the config file for|unsupported quantization"
        r"|invalid ggml type|unknown (tensor|ggml) type|does not support weight_bits"
        r"|Failed to find a kernel that can implement"
        r"|could not (set scales|create a primitive)|KeyError: <PlatformEnum|LinearKernel cannot implement",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_BACKEND,
        r"Selected backend .{0,120}not valid for this configuration|no kernel image is available"
        r"|argument --attention-backend: invalid choice|backend is not supported|does not support .{0,60}backend"
        r"|V cache (quantization )?requires flash.?att|requires? device(s)? with (compute )?capability"
        r"|cache type .{0,40} does not divide|only supported on GPUs with compute capability",
    ),
    FailurePattern(
        FailureKind.BAD_OPTION,  # devices that the engine was told and does not see
        r"Invalid device index|device index is out of range|invalid device ordinal|invalid device: "
        r"|invalid device (id|string)"
        r"|invalid literal for int\(\) .{0,40}(MIG|GPU)-|use HIP_VISIBLE_DEVICES instead|page_size must be",
    ),
    FailurePattern(
        FailureKind.DEVICE_FAULT,
        r"illegal memory access|unspecified launch failure|device-side assert|CUDA error: misaligned|HSA_STATUS_ERROR"
        r"|Memory access fault by GPU|SYCL error: |(CUDA|HIP|ROCm) error: invalid argument",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_ARCHITECTURE,
        r"unknown model architecture|unsupported model architecture|unsupported architecture|not supported for now"
        r"|does not recognize this architecture|Model architectures .{0,80} failed to be inspected"
        r"|unknown pre-tokenizer|wrong number of tensors|has wrong shape|tensor '[^']{1,120}' (not found|is missing)"
        r"|missing tensor '|key not found in model|unknown projector|Tokenizer class \S{1,80} does not exist",
    ),
    FailurePattern(
        FailureKind.PORT_TAKEN,
        r"address already in use|couldn't bind|could not bind|HTTP server error|bind\(\) failed|EADDRINUSE",
    ),
    FailurePattern(
        FailureKind.MISSING_DEPENDENCY,
        r"No module named|ModuleNotFoundError|cannot open shared object|error while loading shared libraries"
        r"|could not find nvcc|nvcc: (command )?not found|ninja (is|was) (required|not found)"
        r"|FileNotFoundError: .{0,60}'(ninja|nvcc)'|torch.memory.saver.{0,40}(not|install)"
        r"|version `(GLIBC|GLIBCXX|CXXABI)_[\d.]{1,20}' not found|Failed to find C compiler"
        r"|fatal error: [\w./+-]{1,80}\.h(pp)?: No such file|\bld: cannot find -l",
    ),
    FailurePattern(
        FailureKind.MISSING_WEIGHTS,
        r"failed to open GGUF file|Repository Not Found|gated repo"
        r"|is not a local folder and is not a valid model identifier|Repo id must"
        r"|Cannot find any model weights|does not appear to have a file named|Invalid repository ID or local directory",
    ),
    FailurePattern(
        FailureKind.BAD_WEIGHTS,
        r"invalid magic|gguf_init_from|tensor .{0,200}(not within|out of bounds|data offset)|file bounds|failed to read"
        r"|corrupt|SafetensorError|deserializing header|failed reading zip archive|Consistency check failed"
        r"|invalid load key",
    ),
    FailurePattern(
        FailureKind.BAD_OPTION,
        r"unrecognized arguments?|error: invalid argument|invalid argument: -|unknown (argument|flag)|no such option"
        r"|unexpected argument"
        r"|invalid choice:|expected one argument",
    ),
    FailurePattern(  # an engine may go on without the template, and end for another reason
        FailureKind.BAD_TEMPLATE,
        r"failed to parse chat template|Unable to generate parser for this template|must provide a chat template"
        r"|jinja2\.exceptions|TemplateSyntaxError|Value is not callable: .{0,40} at row",
    ),
    FailurePattern(FailureKind.BAD_WEIGHTS, r"error loading model"),
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
    FailureKind.BAD_OPTION: "it does not know an option, or a device that it was given: correct `extra_args`, `cmd` or "
    "`env`, or `devices` of its slot",
    FailureKind.DRIVER_MISMATCH: "driver and engine do not fit together: restart the machine if the driver was "
    "updated; else install a newer driver, or an engine or image for the CUDA version that `nvidia-smi` shows",
    FailureKind.INTERCONNECT: 'the devices cannot reach each other: try `env.NCCL_P2P_DISABLE = "1"`, then look at '
    "`nvidia-smi topo -m`; or use one device, without `tensor_parallel`",
    FailureKind.SHARED_MEMORY: "there is too little shared memory: give its container `--ipc=host` or a larger "
    "`--shm-size` in `up`; on the machine look at `df -h /dev/shm`",
    FailureKind.DISK_FULL: "a disk is full, or a quota is used up: look at `df -h`; caches may lie elsewhere: set "
    "`vault` in [paths], or `env.HF_HOME`",
    FailureKind.BAD_PARALLEL: "the model cannot be divided among so many devices: `tensor_parallel` must divide the "
    "number in this line, like 1, 2 or 4",
    FailureKind.CONTAINER_RUNTIME: "containers get no devices: install the NVIDIA Container Toolkit and type `sudo "
    "nvidia-ctk runtime configure && sudo systemctl restart docker` (podman: `sudo nvidia-ctk cdi generate "
    "--output=/etc/cdi/nvidia.yaml`), or correct the `--device` and `--gpus` of its `up`",
    FailureKind.PERMISSION: "this user may not open a device or a file: type `sudo usermod -aG render,video $(id -un)` "
    "for devices, and log in again; in a container add `--group-add`; for files correct their owner",
    FailureKind.BAD_TEMPLATE: "its chat template cannot be used: set `chat_template` to another one, or update the "
    "engine",
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
    lines = [line[:_WIDTH] for line in said.splitlines()[-_LINES:] if _INFORMATION.search(line[:_WIDTH]) is None]
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
