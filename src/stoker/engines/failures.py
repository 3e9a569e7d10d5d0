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
LOG_HEAD = re.compile(
    r"^(\([\w-]{1,40}[\w=, .-]{0,60} pid=\d{1,10}\) ?)?([A-Z]{1,8} \d\d-\d\d [\d:]{8} \[[^]]{0,200}\] ?)?"
)
"""vLLM's prefix of a line: process, level, time, position in its source."""
_BELOW_ERROR = re.compile(
    r"^(\([^)]{1,80}\) ?)?(\[[^]]{1,60}\] ?)?(INFO|WARNING|DEBUG)\b"
    r"|\d,\d{3} - (\S{1,60} - )?(INFO|WARNING|DEBUG) - |\"level\": \"(INFO|WARNING|DEBUG)\""
    r"|\b[Ll]evel=([Ii][Nn][Ff][Oo]|[Dd][Ee][Bb][Uu][Gg]|[Ww][Aa][Rr][Nn])"
    r"|^(\[rank\d{1,5}\]:)?\[?[IW](\d{3,4} [\d:]{8}| \w{1,60}\.cpp:)|\bNCCL (INFO|TRACE)\b"
    r"|^\d{1,6}\.\d\d\.\d{3}\.\d{3} [IDW] |^nvidia-container-cli: (info|warn)|^libEGL (warning|info|debug)"
)
"""Lines that their writer puts below an error. No engine ends with one: where it ends, an error follows."""
_RUNS_ON = re.compile(
    r"^(?!(\[[^]]{1,60}\] ?)?([\w.]{1,80}(Error|Exception)\b|what\(\): |error: ))"
    r".{0,2000}?(\bfall(ing|s)? ?back\b|\busing .{1,80} instead\b|[;,] using \w|\bset(ting)? cudagraph_mode\b"
    r"|\b(disabling|skipping|ignore|ignoring|ignored|skipped|retracting|retracted|padding|padded)"
    r"|\b(is|are|was|be|it|and|automatically|so) disabled\b|Consider (increas|decreas|reduc|lower)"
    r"|Failed to import from \w{1,20}\._|failed to mu?n?lock|of pinned memory"
    r"|\bUserWarning: |\{[%{]|raise_exception\()",
    re.IGNORECASE,
)
"""Lines that say how it goes on: what was tried is not needed. An exception's own line is none of them."""
_STARTED = re.compile(r"Application startup complete|\"(GET|POST) /\S{0,200} HTTP/1")
"""An engine that printed this takes requests: what it refuses is in one of them."""
NO_CAUSE = (_BELOW_ERROR, _RUNS_ON)
"""Lines that no failure is found in."""


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


_IN_AN_ERROR = r"^(?=.{0,200}?(error|exception)\b).{0,2000}?"
"""Of what engines also say as they go on to another way."""
_OF_A_REQUEST = (
    r".{0,40}\b(temperature|top_?[pk]|min_p|max_tokens|max_completion_tokens|max_output_tokens|min_tokens|max_new_tokens"
    r"|logprobs|(presence|frequency|repetition)_penalty|stop|seed|messages?|prompts?|roles?|tools?|n must)\b"
)
"""What an engine refuses in a request, not in its options."""

TABLE: tuple[FailurePattern, ...] = (
    # what the machine lacks explains most of what follows from it
    FailurePattern(
        FailureKind.DRIVER_MISMATCH,
        r"driver/library version mismatch|NVML/RM version mismatch|API mismatch: the client"
        r"|driver version is insufficient"
        r"|InsufficientDriver|PTX was compiled with an unsupported toolchain|unsupported_?\s?ptx_?\s?version"
        r"|(display|cuda) driver combination|forward compatibility was attempted|system_?\s?driver_?\s?mismatch"
        r"|IncompatibleDriver|INCOMPATIBLE_DRIVER|unsatisfied condition: (cuda|driver|brand)"
        r"|kernel module version .{0,60}(differ|not match)"
        r"|(driver|runtime) version mismatch|driver.{0,40} (is|are) (too old|outdated|not supported)"
        r"|(update|upgrade) your (\w{1,12} )?driver"
        r"|compat_?not_?supported_?on_?device|driver is a stub library|StubLibrary",
    ),
    FailurePattern(
        FailureKind.CONTAINER_RUNTIME,
        r"could not select device driver|nvidia-container-(cli|runtime)\b.{0,60}(error|path|fail)"
        r"|\bnvidia-(ctk|cdi-hook)\b.{0,60}(error|fail)"
        r"|Additional properties are not allowed \('devices'|Compose file .{0,80} invalid"
        r"|\bCDI\b.{0,40}(device|vendor|spec|registry)"
        r"|(invalid|unknown) runtime|set_mempolicy: "
        r"|crun: (?!.{0,120}permission denied).{0,80}(device\b|/dev/)"
        r"|adding custom device|stat /dev/(kfd|dri|nvidia)\S{0,20}: no such|stat (nvidia|amd|intel)\.com/gpu"
        r"|(nvidia|amd|intel)\.com/gpu=\S{1,60}.{0,40}(not found|unresolvable|no such)",
    ),
    FailurePattern(
        FailureKind.PERMISSION,
        r"open /dev/kfd"
        r"|/dev/(dri/renderD|nvidia|kfd|accel)\S{0,40} ?.{0,20}(Permission denied|Operation not permitted|EACCES"
        r"|EPERM)"
        r"|is not (a )?member of .{0,20}(video|render)|permission denied while trying to connect"
        r"|NVML_?ERROR_?NO_?PERMISSION|not in the .{0,12}(render|video).{0,4} group"
        r"|Insufficient.Permissions",
    ),
    FailurePattern(
        FailureKind.SHARED_MEMORY,
        r"shared memory (segment|object|region|file)\b.{0,200}(No space left|Cannot allocate|File exists|error|fail)"
        r"|/dev/shm\S{0,80}.{0,80}(No space|Permission denied|Read-only|too small)|insufficient shared memory"
        r"|No space left on device.{0,20}/dev/shm"
        r"|\bBus error\b|\bSIGBUS\b"
        r"|(unable|failed) to (open|allocate|resize|create|mmap) (\w{1,12} )?shared.memory"
        r"|shm_open.{0,60}(fail|error|:)"
        r"|unable to mmap \d{1,20} bytes from file <\S{0,5}/?torch"
        r"|No space left on device.{0,8}'/?(psm|nccl|torch|sem\.|mp-)",
    ),
    FailurePattern(
        FailureKind.DISK_FULL,
        r"No space left on device|\[Errno 28\]|\bENOSPC\b|StorageFull|Disk quota exceeded|\[Errno 122\]|\bEDQUOT\b"
        r"|disk (is )?full"
        r"|not enough (free )?(disk )?space (to|on|left|for)|insufficient disk",
    ),
    # an exhausted card is often reported as lost, too
    FailurePattern(
        FailureKind.OUT_OF_MEMORY,
        r"ERROR_OUT_OF_(RESOURCES|DEVICE_MEMORY|HOST_MEMORY|POOL_MEMORY)|PI_ERROR_(OUT_OF|MEM_OBJECT_ALLOC)"
        r"|MEM_OBJECT_ALLOCATION",
    ),
    FailurePattern(
        FailureKind.INTERCONNECT,
        r"\bnccl(System|Internal|InvalidUsage|InvalidArgument)\s?Error\b"
        r"|\bncclInvalid(Usage|Argument)\b|Duplicate GPU detected"
        r"|NCCL error.{0,120}(unhandled system error|invalid usage|invalid argument|internal error)"
        r"|NCCL WARN .{0,120}peer access"
        r"|peer.?access.{0,20}(not supported|is not|unsupported|fail)"
        r"|cudaErrorPeerAccess|PEER_ACCESS_(UN|NOT_)|custom_all_reduce\.cu|onecclError"
        r"|(one)?ccl: .{0,120}(EXCEPTION|error|fail)"
        r"|\bCCL_ERROR\b|(hip|cuda)Ipc(Open|Get)|(Open|Get|Put)IpcHandle"
        r"|nvshmem.{0,60}(fail|error)|ibv_\w{1,30}.{0,40}(fail|error)"
        r"|NVLink.{0,40}(error|inactive)",
    ),
    FailurePattern(
        FailureKind.DEVICE_LOST,
        r"GPU is lost|fallen off the bus|uncorrectable ECC|ECCUncorrectable|Device_?Lost"
        r"|\bdevice (was |is |has been )?lost\b"
        r"|context is (lost|destroyed)|ContextIsDestroyed|requires? (a )?(GPU )?reset|GPU (hang|reset)\b"
        r"|ring [\w.]{1,20} timeout"
        r"|no CUDA-capable device|no ROCm-capable device|busy or unavailable|(cuda|hip)ErrorNoDevice"
        r"|CUDA_ERROR_NO_DEVICE"
        r"|No (HIP|CUDA|XPU) (GPUs|devices|accelerators) (are|is|were|found)|devices? ?unavailable"
        r"|DEVICE_UNAVAILABLE"
        r"|(CUDA|CUDA driver|HIP|ROCm) initialization (error|failed)|system not yet initialized|SYSTEM_NOT_READY"
        r"|Failed to infer device type"
        r"|ErrorInitializationFailed|Tensile host: No devices|ERROR_DEVICE_NOT_(FOUND|AVAILABLE)"
        r"|ZE_RESULT_ERROR_UNINITIALIZED"
        r"|No device of requested type|Failed to initialize NVML|hsa_init.{0,20}fail|GPU access blocked"
        r"|CUDA unknown error|Found no \w{1,8} driver"
        r"|no (suitable|supported) (GPU|device)",
    ),
    FailurePattern(
        FailureKind.BAD_TEMPLATE, r"Unable to generate parser for this template|chat template (parsing|rendering) error"
    ),
    # before memory and weights, of which some of these speak, too
    FailurePattern(
        FailureKind.BAD_PARALLEL,
        r"(must be|is not|not|be) (evenly )?divisible"
        r"|cannot be (evenly )?(divided|split|sharded) (by|across|among|over|into|evenly)"
        r"|divide evenly|(should|must) divide\b|too large tensor.?parallel|World size \(?\d{1,6}\)? is (larger|greater)"
        r"|exceeds the (total )?number of available GPUs"
        r"|(tensor|pipeline|expert|data).?parallel\w{0,6}.{0,40}(larger|greater|more|exceed).{0,20}(than|number|GPU)"
        r"|\b(tp|pp|dp|ep)[_ -]?size\b.{0,60}(larger|greater|exceed|not equal|must (be|divide))"
        r"|(not enough|only \d{1,4}) GPUs|requires \d{1,4} GPUs",
    ),
    FailurePattern(
        FailureKind.STARTUP_MEMORY,
        r"Capture (cuda|hip|device)?\s?graphs? failed: .{0,80}out of memory|memory capacity is unbalanced"
        r"|Error in memory profiling"
        r"|(Error|Exception): .{0,300}(increas|decreas|reduc|lower)\w{0,4} "
        r".{0,40}(gpu.memory.utilization|mem.fraction.static|kv.cache.memory)",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_BACKEND,
        r"out of resource: shared memory|TensileLibrary|for GPU arch|NoBinaryForGpu|No kernel named"
        r"|Invalid(Image|KernelFile|DeviceFunction)"
        r"|invalid device function|device kernel image is invalid"
        r"|too old to be supported"
        r"|support querying the available free memory|(BUILD_PROGRAM|PROGRAM_BUILD|MODULE_BUILD)_FAILURE"
        r"|that cannot run the operation"
        r"|only supports? (Ampere|Hopper|Ada|Turing|Volta|Blackwell|CUDA|newer|sm_?\d{2,3})\b"
        r"|no device code compatible with|requires? SM ?>=? ?\d|requested functionality is not supported"
        r"|16-bit storage\b"
        r"|device \S{1,20} does not support|" + _IN_AN_ERROR + r"requires? (compute|CUDA) capability"
        r"|has compute capability [\d.]{1,6}.{0,80}requires"
        r"|(architecture|GPU|device|hardware) (is|are) not supported"
        r"|create(ComputePipelines?|ShaderModule): Error(?!OutOf)|(Feature|Extension|Format|Layer)NotPresent"
        r"|ERROR_(INVALID_BINARY|UNSUPPORTED_\w{1,20})"
        r"|UNSUPPORTED_FEATURE|STATUS_(NOT_SUPPORTED|ARCH_MISMATCH)|signal: illegal instruction"
        r"|Illegal instruction \(core|\bSIGILL\b"
        r"|unsupported gpu architecture|Value '(sm|compute)_\w{1,8}' is not defined|MIOpen.{0,40}(error|fail)"
        r"|miopenStatus",
    ),
    FailurePattern(
        FailureKind.OUT_OF_MEMORY,
        r"out.?of.?(host.?|device.?|pool.?|gpu.?)?memory|cudaMalloc failed|cudaErrorMemoryAllocation|bad_alloc"
        r"|\bMemoryError\b"
        r"|(fail\w{0,3} to|unable to|can't|cannot|could not|couldn't) (allocate|reserve|alloc)\b"
        r"(?!.{0,120}(falling back|retry|will use))"
        r"|Cannot allocate memory|Not enough (\w{1,8} )?memory (for|to|on)"
        r"|memory allocation of size \d{1,20} failed|STATUS_ALLOC_FAILED|insufficient (\w{1,8} )?(memory|vram)"
        r"|requires more (\w{1,8} )?memory"
        r"|exit ?code:? ?(-9|137)\b|exitcode:? -9\b|signal: killed|SIGKILL|\bOOM.?kill|Out of Resources",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_QUANTIZATION,
        r"quantization (method|scheme)\b.{0,80} (is not supported|does not match)|Unknown quantization"
        r"|unknown quant\w{0,12}\b"
        r"|argument --quantization: invalid choice|Cannot find the config file for"
        r"|unsupported (quantization|quant)|invalid ggml type"
        r"|unknown (tensor|ggml) type|does not support weight_bits|Failed to find a kernel that can implement"
        r"|LinearKernel cannot implement"
        r"|could not (set scales|create a primitive)|KeyError: <PlatformEnum|type fp\d\w{0,8} not supported",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_BACKEND,
        r"Selected backend .{0,120}not valid for this configuration|no kernel image is available"
        r"|argument --attention-backend: invalid choice|backend is not supported|does not support .{0,60}backend"
        r"|V cache (quantization )?requires flash.?att|requires? device(s)? with (compute )?capability"
        r"|cache type .{0,40} does not divide|only supported on .{0,30}(GPUs|devices|hardware|capability|sm_?\d)"
        r"|" + _IN_AN_ERROR + r"(attention|backend|kernel)"
        r".{0,80}(not supported|unsupported|requires|not available) (on|by|for"
        r"|with) (this|your|the|compute|SM|GPU)"
        r"|No valid attention backend"
        r"|" + _IN_AN_ERROR + r"compute capability .{0,40}(required|or (higher|newer)|is not supported|too low)"
        # with another last digit it runs code for a lower one
        r"|CUDA capability sm_\d{1,2}0 is not compatible",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_QUANTIZATION,
        _IN_AN_ERROR + r"(quant\w{0,10}|fp8|fp4|nvfp4|mxfp4|mxfp8|int4|int8|awq|gptq|marlin|machete|bitsandbytes"
        r"|bnb)\b.{0,80}(not supported|unsupported|only support|not implemented|does not support"
        r"|requires? (compute|device|sm|gpu))"
        r"|" + _IN_AN_ERROR + r"(not supported|unsupported|does not support|no)"
        r" .{0,40}\b(quantization|fp8|nvfp4|mxfp4|awq|gptq"
        r"|bitsandbytes)\b.{0,20}(type|format|kernel|weights|on)",
    ),
    FailurePattern(
        FailureKind.BAD_OPTION,
        r"Invalid device index|device index is out of range|invalid.?device.?ordinal|invalid device: "
        r"|invalid device (id|string|selector)|unknown device\b|invalid device_?ids?|Inconsistent values for"
        r"|device.{0,20} (is|are) not visible"
        r"|invalid literal for int\(\) .{0,40}(MIG|GPU)-|use HIP_VISIBLE_DEVICES instead|Incomplete selector"
        r"|SELECTOR.{0,20}(error|invalid)"
        r"|(VISIBLE_DEVICES|AFFINITY_MASK).{0,60}(invalid|inconsistent|out of range|does not exist)",
    ),
    FailurePattern(
        FailureKind.DEVICE_FAULT,
        r"illegal.?(memory.?access|address)|unspecified launch failure|device-side assert|misaligned address"
        r"|CUDA error: misaligned"
        r"|illegal instruction was encountered|Launch(Failure|TimedOut)|launch timed out|HSA_STATUS_ERROR"
        r"|Memory access fault by GPU"
        r"|SYCL error: |(CUDA|HIP|ROCm) error: |(UR|PI)_(RESULT_)?ERROR_|ZE_RESULT_ERROR"
        r"|STATUS_(EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)|sycl::\w{0,8}:{0,2}exception"
        r"|current device: \d{1,3}, in function|vk::\w{1,40}::\w{1,60}: Error",
    ),
    FailurePattern(
        FailureKind.UNSUPPORTED_ARCHITECTURE,
        r"unknown model architecture|unsupported model|unsupported architecture"
        r"|architectures .{0,400}not supported for now"
        r"|Unrecognized (model|configuration class)"
        r"|does not recognize this architecture|Model architectures .{0,80} failed to be inspected"
        r"|is not a supported model|unknown model type"
        r"|unknown (pre-tokenizer|tokenizer|projector|vision)"
        r"|error loading model (hyperparameters|vocabulary|architecture)|architecture \S{1,40} is not supported"
        r"|(Error|Exception): .{0,200}is not supported yet|KeyError: '[\w.]{1,80}(weight|layers|proj|experts|scale)"
        r"|unsupported (projector|tokenizer)"
        r"|wrong number of tensors|has wrong (shape|size)"
        r"|size mismatch for|tensor '[^']{1,120}' (not found|is missing)|missing tensor|key not found in model"
        r"|cannot find tokenizer"
        r"|Tokenizer class \S{1,80} does not exist|no module or parameter named|Config' object has no attribute",
    ),
    FailurePattern(
        FailureKind.PORT_TAKEN,
        r"address already in use|couldn't bind|could not bind|HTTP server error|bind\(\) failed|EADDRINUSE"
        r"|port is already allocated",
    ),
    FailurePattern(
        FailureKind.MISSING_DEPENDENCY,
        r"No module named|ModuleNotFoundError|cannot open shared object|error while loading shared libraries"
        r"|undefined symbol"
        r"|\bImportError: |could not find nvcc|(nvcc|gcc|g\+\+|cc1plus|ptxas|ninja|cmake): (command )?not found"
        r"|ninja (is|was) (required|not found)"
        r"|No such file or directory: '\S{0,80}(ninja|nvcc|gcc|g\+\+|cc|ptxas|cmake)'"
        r"|torch.memory.saver.{0,40}(not|install)"
        r"|version `(GLIBC|GLIBCXX|CXXABI)_[\d.]{1,20}' not found|Failed to find C(\+\+)? compiler"
        r"|no (C|C\+\+|host) compiler"
        r"|CUDA_HOME .{0,40}(not set|not found)|(cc1|cc1plus|as|ld|collect2): No such file"
        r"|fatal error: [\w./+-]{1,80}\.h(pp)?: No such file"
        r"|\bld: cannot find -l|not compiled with (CUDA|XPU|ROCm|HIP)|Ninja build failed"
        r"|Command .{0,3}'[^']{0,100}(gcc|g\+\+|\bcc|clang|clang\+\+|nvcc|ninja|cmake)'.{0,1500}non-zero exit status"
        # packages that do not fit together
        r"|module '(torch|transformers|triton|numpy|flashinfer)[\w.]{0,80}' has no attribute"
        r"|has no attribute '(infer_schema|all_special_tokens_extended)'"
        r"|'_OpNamespace' '\w{1,40}' object has no attribute",
    ),
    FailurePattern(
        FailureKind.MISSING_WEIGHTS,
        r"failed to open GGUF file|Repository Not Found|gated repo"
        r"|is not a local folder and is not a valid model identifier|Repo id must"
        r"|Cannot find any model weights|does not appear to have a file named"
        r"|Invalid repository ID or local directory|LocalEntryNotFoundError: (?!.{0,400}your connection)"
        r"|failed to download model from Hugging ?Face",
    ),
    FailurePattern(
        FailureKind.BAD_WEIGHTS,
        r"invalid magic|gguf_init_from|tensor .{0,200}(not within|out of bounds|data offset)|file bounds"
        r"|failed to read"
        r"|(file|model|weights?|shards?|data|tensors?|gguf|is|are|be) .{0,20}corrupt|SafetensorError"
        r"|deserializing header|failed reading zip archive|Unable to load weights from|Consistency check failed"
        r"|invalid load key|unexpected (EOF|end of file)(?!.{0,40}(request|body|client|connection|stream))",
    ),
    FailurePattern(
        FailureKind.BAD_OPTION,
        r"unrecognized arguments?|error: invalid argument|invalid argument: -|unknown (argument|flag|option)"
        r"|no such option|unexpected argument"
        r"|invalid choice:|expected one argument|unexpected keyword argument|error: argument "
        r"|cannot be used (together|with)|mutually exclusive|error while handling argument"
        r"|mismatch between text model .{0,40}and mmproj"
        r"|max_num_(batched_tokens|seqs)\b.{0,40}(smaller|less|greater|larger) than"
        r"|executable file .{0,100}not found|exec: .{0,100}no such file|bind source path does not exist"
        r"|error mounting|cannot mount|statfs .{0,200}no such file",
    ),
    FailurePattern(
        FailureKind.BAD_OPTION,
        r"(AssertionError|ValueError): (?!" + _OF_A_REQUEST + ")"
        r".{0,80}(must be|should be|can only be|is not compatible with|requires --)",
        only_at_start=True,
    ),
    # a user may lack a file that the engine does not need, and an engine may go on without its template
    FailurePattern(
        FailureKind.PERMISSION,
        r"PermissionError|\[Errno 13\]|Permission denied",
    ),
    FailurePattern(
        FailureKind.BAD_TEMPLATE,
        r"failed to (parse|apply|render|load|compile) .{0,20}template"
        r"|must provide a chat template|chat template .{0,80}(failed to be opened|is not (a |supported|valid))"
        r"|chat.?template.{0,60}(is invalid|invalid|could not|cannot be|syntax error|no longer)"
        r"|TemplateSyntaxError|what\(\): .{0,400}\bat row \d{1,6}, column \d",
    ),
    # what other processes see of one that ended comes after all that it may have ended of
    FailurePattern(
        FailureKind.INTERCONNECT,
        r"\bnccl(UnhandledCuda|Remote)?\s?Error\b|\b[rx]ccl.{0,20}\berror\b"
        r"|NCCL WARN .{0,120}(fail|error|unable|mismatch|timed out)"
        r"|collective operation timeout"
        r"|NCCL (operations?|watchdog|communicator)\b.{0,60}(fail|timed out|terminated|abort)|gloo/\w{1,20}"
        r"|Gloo connect|Dist(Network|Store|Backend)Error"
        r"|setting up \w{1,6} communicator|waiting for clients|TCPStore.{0,80}(fail|error|tim)"
        r"|Rendezvous\w{0,20}Error|client socket has (failed|timed out)",
    ),
    FailurePattern(
        FailureKind.CONTAINER_RUNTIME,
        r"OCI runtime|\b(runc|crun)\b.{0,60}(fail|error|unable)|Error response from daemon: "
        r"|Cannot connect to (the Docker daemon|Podman)|pull access denied|manifest unknown"
        r"|short-name .{0,200}did not resolve"
        r"|container name .{0,200}is already in use",
    ),
    FailurePattern(FailureKind.DEVICE_LOST, r"ggml_vulkan: No devices found|main_gpu_id ?< ?g_all_sycl_device_count"),
    FailurePattern(
        FailureKind.BAD_WEIGHTS,
        r"error loading model",
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
    FailureKind.UNSUPPORTED_ARCHITECTURE: "this engine does not know the model's architecture, "
    "or not this file of it: update the engine, or take another conversion of the file",
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
    FailureKind.CONTAINER_RUNTIME: "its container did not start: correct the image and name in its command, and "
    "look at `docker info`; if it gets no devices, install the NVIDIA Container Toolkit and type `sudo "
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
    lines = [line for raw in said.splitlines()[-_LINES:] if (line := _telling(raw[:_WIDTH]))]
    whole = "\n".join(lines).lower()
    has_started = _STARTED.search(said) is not None
    for row in _rows(engine):  # 2
        if row.only_at_start and has_started:
            continue
        patterns = [pattern for text, pattern in alternatives(row.pattern) if text in whole]
        for line in lines if patterns else ():
            for pattern in patterns:
                if (match := pattern.search(line)) is not None:
                    return EngineFailure(row.kind, _around(line, match.start(), match.end()), advice(row.kind, engine))
    if exit_code in _SIGKILL and oom_kills is None and not said.strip():  # 3
        return EngineFailure(_KILLED, "killed without a word", f"{advice(_KILLED, engine)}; see `dmesg`")
    return None  # 4


_KILLED = FailureKind.OUT_OF_MEMORY


def _telling(raw: str) -> str:
    """The line without vLLM's prefix; empty if no engine ends with it."""
    line = LOG_HEAD.sub("", raw)
    return "" if _BELOW_ERROR.search(raw) or _RUNS_ON.search(line) else line


def _rows(engine: str) -> tuple[FailurePattern, ...]:
    own = engine_of(engine)
    engines = ENGINES.values() if own is GENERIC else (own,)
    return (*(row for one in engines for row in one.failures), *TABLE)


@cache
def alternatives(pattern: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Each alternative of a pattern, with a text in lower case that all its matches contain. Most texts are in no line,
    and a text is found a hundred times faster than a pattern.
    """
    parts = _split(pattern)
    return tuple((_literal(part), re.compile(part, re.IGNORECASE)) for part in parts)


_TOKEN = re.compile(r"\\.|\[\^?\]?[^\]]*\]|[^\\\[]", re.DOTALL)
"""An escape, a class of characters, or one character."""


def _split(pattern: str) -> list[str]:
    """At every `|` outside groups."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(pattern):
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _literal(alternative: str) -> str:
    """Its longest run of plain characters outside groups."""
    runs, depth = [""], 0
    for token in _TOKEN.findall(re.sub(r"\{[\d,]{1,12}\}", "?", alternative)):
        depth += (token == "(") - (token == ")")
        is_plain = token not in ".^$()?*+" and not token.startswith("[") and not re.match(r"\\\w", token)
        if depth == 0 and is_plain:
            runs[-1] += token[-1]
            continue
        if depth == 0 and token in "?*+":
            runs[-1] = runs[-1][:-1]  # what it follows may be missing
        runs.append("")
    return max(runs, key=len).lower()


def _around(line: str, start: int, end: int) -> str:
    if len(line) <= EVIDENCE:
        return line.strip()
    middle = (start + min(end, start + EVIDENCE)) // 2
    begin = max(0, min(middle - EVIDENCE // 2, len(line) - EVIDENCE))
    return line[begin : begin + EVIDENCE].strip()
