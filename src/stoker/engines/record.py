"""What an engine is: everything that Stoker knows of one, in one record. Each engine fills it in, in a file of its own.

The rest of the program asks the record of a serve's engine (`registry.engine_of`) and names no engine. A field that
has a default is for engines that differ in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Any, NamedTuple

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.serve import Serve
from stoker.engines.launch import Launch, LaunchPlace

MIB, GIB = 2**20, 2**30
CACHES: Mapping[str, str] = {"XDG_CACHE_HOME": "", "CUDA_CACHE_PATH": "cuda"}
"""`Engine.caches` of every engine. Intel's compilers keep theirs below XDG_CACHE_HOME."""
CACHE_SWITCHES: Mapping[str, str] = {"SYCL_CACHE_PERSISTENT": "1", "NEO_CACHE_PERSISTENT": "1"}
"""Variables without which a compiler keeps nothing on disk: those of oneAPI and of Intel's driver."""
TORCH_CACHES: Mapping[str, str] = {
    **CACHES,
    "HF_HOME": "huggingface",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}
"""Those of an engine on PyTorch."""

OptionWriter = Callable[[Any], Sequence[str]]
"""Writes one key's value as words of a command line, possibly none."""
OptionTable = Mapping[str, OptionWriter]
Facts = dict[str, str | int | float]
"""What an engine reports about itself, flattened for `Running.facts`. Missing values are left out, never 0."""


class Weights(Enum):
    """What `model` may be for an engine."""

    GGUF = "give the path of a GGUF file, or vault:NAME"
    """A GGUF file, or the first part of one: its path."""
    FOLDER = "give a directory with the weights, vault:NAME, or a hub id"
    """A directory in the layout of the Hugging Face hub, a GGUF file, or a hub id."""
    ANY = ""
    """Whatever `{model}` stands for in `cmd`."""


class Api(StrEnum):
    """An interface through which engines compute on devices. Each counts them in an order of its own."""

    CUDA = "CUDA"
    HIP = "HIP"
    LEVEL_ZERO = "Level Zero"
    VULKAN = "Vulkan"
    METAL = "Metal"


class MetricName(NamedTuple):
    """A metric's name, and the label that its samples must have."""

    metric: str
    label: tuple[str, str] | None = None


class MetricRow(NamedTuple):
    """The names of one signal in all versions of an engine, newest first."""

    names: tuple[MetricName, ...]
    largest: bool = False
    """Of several engines, the largest value counts, not the sum."""


def metric(*names: str, largest: bool = False) -> MetricRow:
    return MetricRow(tuple(MetricName(name) for name in names), largest)


class FailureKind(StrEnum):
    """Why an engine ended."""

    STARTUP_MEMORY = "startup_memory"
    """The memory that the engine had to reserve is not free, or not enough for one request."""
    OUT_OF_MEMORY = "out_of_memory"
    DEVICE_LOST = "device_lost"
    DEVICE_FAULT = "device_fault"
    """The engine's own code failed on the device."""
    UNSUPPORTED_QUANTIZATION = "unsupported_quantization"
    UNSUPPORTED_BACKEND = "unsupported_backend"
    UNSUPPORTED_ARCHITECTURE = "unsupported_architecture"
    CONTEXT_TOO_LONG = "context_too_long"
    PORT_TAKEN = "port_taken"
    MISSING_DEPENDENCY = "missing_dependency"
    MISSING_WEIGHTS = "missing_weights"
    BAD_WEIGHTS = "bad_weights"
    BAD_OPTION = "bad_option"
    BAD_PARALLEL = "bad_parallel"
    """The model cannot be divided among so many devices."""
    BAD_TEMPLATE = "bad_template"
    DRIVER_MISMATCH = "driver_mismatch"
    """The driver does not fit its library, or the engine's build."""
    INTERCONNECT = "interconnect"
    """The devices, or the parts of the engine, cannot reach each other."""
    SHARED_MEMORY = "shared_memory"
    """Too little of what the parts of an engine exchange data in: /dev/shm."""
    DISK_FULL = "disk_full"
    CONTAINER_RUNTIME = "container_runtime"
    """Docker or Podman cannot give the container its devices."""
    PERMISSION = "permission"


class FailurePattern(NamedTuple):
    """A regular expression that finds one kind of failure in a line of output."""

    kind: FailureKind
    pattern: str
    only_at_start: bool = False
    """Of an engine that took requests already, such a line speaks of one of them."""


Step = tuple[str, dict[str, Any]]
"""Path with its query, and the JSON to POST."""


class SleepApi(NamedTuple):
    """The requests that put an engine to sleep and wake it, by level: 1 keeps the weights in host memory, 2 drops
    them.
    """

    sleep: Mapping[int, tuple[Step, ...]]
    wake: Mapping[int, tuple[Step, ...]]
    needs: str
    """What it was started without, if it does not have these paths."""


class EngineMemory(msgspec.Struct, frozen=True):
    """What an engine takes beside weights and cache. Rounded up from what their logs show for models of 1 to 70
    billion parameters; `docs/how-it-works/memory.md` says how far off that may be."""

    on_device: int = 1 * GIB
    """Bytes per device: driver context, kernels, captured graphs."""
    on_host: int = 1 * GIB
    batch: int = 2048
    """Tokens per step at most, where the configuration does not say."""
    activations: int = 24
    """Bytes per token of a batch and number of the hidden state."""
    deals_layers: bool = False
    """Whole layers are dealt out over all devices that it sees, the last ones first, and what is left, like the token
    embedding, stays in main memory. Else every device holds a part of each layer.
    """
    pages_cache: bool = False
    """A start needs room for the cache of one request only; the others wait for pages."""


def nothing(serve: Serve) -> list[str]:
    return []


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One engine, as the configuration names it by `engine`. Functions block for milliseconds at most."""

    name: str
    title: str
    """Its name for people."""

    # -- the command line, if Stoker makes it
    launch: Callable[[Serve, LaunchPlace], Launch] | None = None
    """None: a serve needs a `cmd`. It is called only when `plan.problems` finds nothing."""
    missing: Callable[[Serve], list[str]] = nothing
    """What has to be installed before `launch`, with the command that installs it: one sentence each."""
    options: OptionTable = {}
    """Configuration key -> its words on the command line. See `options.KEYS`: each is here or in `instead`."""
    instead: Mapping[str, str] = {}
    """What to do about a key that it cannot express."""
    choices: Mapping[str, tuple[str, ...]] = {}
    """The values that a key may have, if it takes no others."""
    unsupported: Callable[[Serve], list[str]] = nothing
    """Further settings that it cannot express: one sentence each. Pure."""
    cautions: Callable[[Serve], list[str]] = nothing
    """What works but is probably not meant: one sentence each. Pure."""
    takes_template_names: bool = True
    """Whether `chat_template` may be a name; else only a file."""
    has_ranks: bool = False
    """Whether `launch` starts it as one rank of an engine on several machines."""
    key_variable: str = ""
    """The variable in which it looks for its key, also when a `cmd` starts it."""

    # -- the model
    weights: Weights = Weights.ANY
    refused_name: Callable[[str], str] = lambda name: ""
    """Why it refuses a served name, with one to take instead; empty: it does not."""
    listed_as: Callable[[str], str] | None = None
    """How /v1/models names a `model`, if `launch` cannot give it the serve's name."""
    unknown_model: Callable[[Serve], list[str]] = nothing
    """Why it cannot run a model whose files have no problem. It may take tenths of a second."""
    computes_context: bool = False
    """Whether `context = "auto"` can be computed for its command line."""
    context_advice: str = "give a number"
    """What to do instead of `context = "auto"`; `{name}` is the serve."""
    stretches: str = ""
    """A regular expression for how options and variables begin by which a context may be longer than the model was
    trained for.
    """
    refuses_long_context: bool = False
    """Whether it refuses to start with a context above what the model was trained for."""

    # -- memory and files
    memory: EngineMemory = EngineMemory()
    on_processors: Callable[[Serve], bool] = lambda serve: False
    """Whether it computes in main memory, whatever devices there are."""
    prompt_cache: Callable[[Serve], int] = lambda serve: 0
    """Bytes of main memory that it may come to fill with caches of earlier prompts, if `kv_offload` does not say."""
    computes_with: Callable[[Serve], frozenset[Api] | None] = lambda serve: None
    """The interfaces that its program was built for; empty: it sees one device only. None: unknown, so that of each
    device's vendor. It may look at the program's file.
    """
    masks_below_hip: bool = False
    """Whether AMD devices are hidden from it by the layer below HIP, which knows them by their ids; else by HIP."""
    takes_uuids: bool = True
    """Whether it takes ids of NVIDIA devices; else only numbers."""
    device_names: Mapping[Api, str] = {}
    """What its option `--device` calls the devices of each interface, numbered from 0; empty: it uses devices of one
    vendor only.
    """
    caches: Mapping[str, str] = {}
    """Environment variable -> folder below the serve's own cache folder; empty: that folder itself."""
    variables: tuple[str, ...] = ()
    """How variables of Stoker's own environment begin that children may have for this engine. None that changes what
    it lets clients do.
    """
    package: Callable[[Serve], str | None] = lambda serve: None
    """The package of Stoker's own environment that its process consists of; None: a program of its own."""
    modules: Mapping[str, str] = {}
    """Part of a word on a command line -> the package of Stoker's own environment that runs then."""

    # -- what it says over HTTP
    dialects: frozenset[Dialect] = frozenset((Dialect.CHAT, Dialect.COMPLETIONS))
    """What it speaks unless `dialects` says so, started without options of its own."""
    poor_dialects: frozenset[Dialect] = frozenset()
    """Those that it speaks so that official clients stumble: they are translated, unless `always` says otherwise."""
    traits: Mapping[str, object] = {}
    """Where dialects leave room: fields of `translate.neutral.capabilities.Capabilities`."""
    paths: Mapping[tuple[str, str], bool] = {}
    """The exact paths of its own that are passed on; True: the request takes one of the serve's places. None of them
    may change a serve's state: no slot save, sleep, load, or change of props.
    """
    facts_page: tuple[str, Callable[[Any], Facts]] | None = None
    """A page that says more of a started engine than /v1/models, and what its document means."""
    template_page: str = ""
    """A page that writes `messages` as its chat template does."""
    signals: Mapping[str, MetricRow] = {}
    """Signal (a field of `signals.Signals`) -> its names in the engine's /metrics."""
    sleep: SleepApi | None = None
    asleep_page: str = ""
    """A page that says in `is_sleeping` whether it sleeps."""
    saves_conversations: bool = False
    """Whether it saves and restores the KV cache of a conversation: see `fleet.conversations.sequences`."""

    # -- why it ended
    failures: tuple[FailurePattern, ...] = ()
    """Lines of its output that others do not print."""
    advice: Mapping[FailureKind, str] = {}
    """What to do about a failure, if that is other than for most engines."""

    # -- on this machine
    program: str = ""
    """Its command, which `stoker init` and `doctor` look for on PATH."""
    packages: Mapping[str, str] = {}
    """Python packages that hold it, and how they are shown."""
    install: str = ""
    """The command that installs it."""
    in_container: Callable[[str, str, str, int, int], list[str]] | None = None
    """The words of `docker run` from the published port on, for an image, a model, its name, its context and how many
    requests at once.
    """
    from_hub: Callable[[str, str, int, int], list[str]] | None = None
    """A command line that downloads a model of the hub, if `launch` takes only files: for a model, its name, its
    context and how many requests at once.
    """
