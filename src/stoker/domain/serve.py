"""What may run where, as configured. Times are seconds, sizes are bytes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

from stoker.domain.definition import keys_of
from stoker.domain.dialect import MEDIA, TEXT
from stoker.domain.errors import ConfigError
from stoker.domain.kinds import (
    EDGE_SCHEME,
    Argument,
    AutoDuration,
    BasePath,
    BaseUrl,
    Command,
    Count,
    Devices,
    DialectWord,
    Duration,
    Engine,
    FilePath,
    Flat,
    Form,
    HealthPath,
    KeyHeaderWord,
    LimitWord,
    Name,
    NeverDuration,
    Place,
    Port,
    PrefillWord,
    Rendezvous,
    SamplingName,
    ServedName,
    ServeUrl,
    Several,
    Sha256,
    Share,
    Size,
    SlashPath,
    SomeDuration,
    Source,
    SwitchWord,
    SystemTurnsWord,
    Text,
    ThinkingWord,
    ToolIdsWord,
    Variable,
    VariableName,
    plain,
    setting,
    text_of,
    words,
)
from stoker.domain.nearest import did_you_mean
from stoker.domain.request_parameters import NO_PARAMETERS, RequestParameters


class Driver(StrEnum):
    """How a serve is started and stopped."""

    PROCESS = "process"
    COMPOSE = "compose"
    """A container, with or without Compose: the serve's own `up` command creates it."""
    SYSTEMD = "systemd"
    RAY = "ray"
    """A job of a Ray cluster: what a process serve becomes in a slot with a cluster."""
    BOX = "box"
    """A serve of another Stoker: what it becomes in a slot of a box."""
    EXTERNAL = "external"


DRIVERS = (Driver.PROCESS, Driver.COMPOSE, Driver.SYSTEMD, Driver.EXTERNAL)
IMPLIED_DRIVERS = {
    "ray": "give the serve a slot with a `cluster`: a process serve runs there as a job",
    "box": 'give the serve a slot of a box: `slot = "box2:gpu0"`',
}
"""Drivers that the file does not name, and what to do instead."""
DriverWord = Annotated[Driver, words(DRIVERS, Driver, IMPLIED_DRIVERS)]


class Warmth(StrEnum):
    """Whether a serve that is swapped out may stay in memory: asleep, or with its weights in the page cache."""

    AUTO = "auto"
    PIN = "pin"
    """Never removed from memory to make room for another one."""
    NEVER = "never"


SUSPENDED = 3
"""The `sleep_level` at which the GPU's driver suspends the processes. Lower ones are requests to the engine."""


class ServeIdentity(StrEnum):
    """What a serve has to show before Stoker believes that it is the configured one."""

    MODELS = "models"
    """GET /v1/models shows the exact served name."""
    NONE = "none"
    """Its probe path answers; which model answers is not proved."""


IDENTITY_NOT_PROVED = 'which model answers is not proved (identity = "none")'


def _context(value: object) -> Several | int:
    if value == "auto":
        return Several(None, {"auto_context": True})
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 2**31:
        raise ValueError('is not a whole number of at least 1, or "auto"')
    return value


ContextSize = Annotated[
    int, Form(_context, {"oneOf": [{"type": "integer", "minimum": 1, "maximum": 2**31}, {"const": "auto"}]})
]

AUTO_LAYERS = -1
"""`n_cpu_moe = "auto"`: as many as are needed, chosen when the serve starts."""


def _layers(value: object) -> int:
    if value == "auto":
        return AUTO_LAYERS
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 100_000:
        raise ValueError('is not a whole number of layers, or "auto"')
    return value


LayerCount = Annotated[
    int,
    Form(
        _layers,
        {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 100_000}, {"const": "auto"}]},
        lambda layers: "auto" if layers == AUTO_LAYERS else layers,
    ),
]
SPECULATIVE_WORDS = ("auto", "mtp")
"""Values of `speculative` that are no draft model."""

MAX_REPLICAS = 64
_REPLICAS_FORM = "write a whole number, or { min = 1, max = 3 }"


def _replicas(value: object) -> Several:
    """A whole number, which is the most; or a table with `min` and `max`."""
    table: dict[object, object] = value if isinstance(value, dict) else {"max": value}
    if unknown := [str(key) for key in table if key not in ("min", "max")]:
        raise ValueError(f"has an unknown key '{unknown[0][:40]}'; {_REPLICAS_FORM}")
    if "max" not in table:
        raise ValueError(f"has no `max`; {_REPLICAS_FORM}")
    least, most = table.get("min", 0), table["max"]
    if not isinstance(least, int) or not isinstance(most, int) or bool in (type(least), type(most)):
        raise ValueError(f"is no number of replicas; {_REPLICAS_FORM}")
    if not 1 <= most <= MAX_REPLICAS or least < 0:
        raise ValueError(f"must be from 1 to {MAX_REPLICAS}")
    if least > most:
        raise ValueError(f"has a `min` of {least} and a `max` of {most}; the `max` must not be smaller")
    return Several(most, {"min_replicas": least})


_NUMBER = {"type": "integer", "minimum": 1, "maximum": MAX_REPLICAS}
_TABLE = {
    "type": "object",
    "properties": {"min": {**_NUMBER, "minimum": 0}, "max": _NUMBER},
    "required": ["max"],
    "additionalProperties": False,
}
Replicas = Annotated[int, Form(_replicas, {"oneOf": [_NUMBER, _TABLE]})]


class Secret:
    """A value that is never printed: only its source is. Call `reveal()` only where the value is sent."""

    __slots__ = ("_problem", "_value", "source")

    def __init__(self, value: str, source: str, problem: str = "") -> None:
        """`problem`: why the value could not be read, for the error of `reveal`; empty: it was."""
        self._value = value
        self._problem = problem
        self.source = source
        """Where the value came from: `env:NAME` or `file:PATH`. Safe to print."""

    @property
    def is_readable(self) -> bool:
        return not self._problem

    def reveal(self) -> str:
        """The value. Raises ConfigError if it could not be read."""
        if self._problem:
            raise ConfigError([self._problem])
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.source})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret) or self.is_readable is not other.is_readable:
            return False
        return other._value == self._value if self.is_readable else other.source == self.source

    def __hash__(self) -> int:
        return hash(self._value)


SECRET = Form(lambda value: Secret("", plain(value), "it was not read"), show=lambda secret: secret.source)
SecretSource = Annotated[Secret, SECRET]
"""`env:NAME` or `file:PATH`; `config.secrets` reads it."""


@dataclass(frozen=True, slots=True)
class AlsoServed:
    """An endpoint elsewhere that serves the same model: another Stoker, or any with a compatible API."""

    base_url: Annotated[BaseUrl, setting('Required. Where it answers: `"http://box2:8000/v1"`.')]
    name: Annotated[Name, setting("What its replica is called after the `@`. Default: the host of `base_url`.")] = ""
    model: Annotated[ServedName, setting("The model's name there. Default: the serve's `served_name`.")] = ""
    key: Annotated[SecretSource | None, setting("The key for it: `env:NAME` or `file:PATH`.")] = None
    key_header: Annotated[
        KeyHeaderWord,
        setting("The header for `key`: `authorization` (as a bearer) or `x-api-key`. Default: `authorization`."),
    ] = "authorization"
    max_active: Annotated[
        Count | None, setting("Most requests that Stoker sends there at the same time. Default: as the serve.")
    ] = None
    is_cloud: bool = False
    """It counts every request, so it is not asked whether it is there before it is needed."""


class FallbackCause(StrEnum):
    """Why a serve's fallback answers."""

    MEMORY = "memory"
    """The serve does not fit on its device."""
    UNAVAILABLE = "unavailable"
    """It failed, or takes no requests."""
    BUSY = "busy"
    """It has no place for the request."""


class Status(StrEnum):
    """The owner's judgement of a serve. `rejected` and `blocked` ones start only with `--force`."""

    PRODUCTION = "production"
    BASELINE = "baseline"
    RESEARCH = "research"
    EXPERIMENT = "experiment"
    REJECTED = "rejected"
    BLOCKED = "blocked"


_STATUS = re.compile(r"(production|baseline|research|experiment)|(rejected|blocked)(?:-(.+))?", re.DOTALL)


def _status(value: object) -> Several:
    """`rejected-too slow`: the status, and its `reason`."""
    text = text_of(value)
    match = _STATUS.fullmatch(text)
    if match is None:
        accepted = "production, baseline, research, experiment, rejected-WHY or blocked-WHY"
        raise ValueError(f"{text[:40]!r} is not accepted; use {accepted}{did_you_mean(text, list(Status))}")
    judgement, refused, why = match.groups()
    return Several(Status(judgement or refused), {"reason": why or ""})


StatusText = Annotated[
    Status,
    Form(
        _status,
        {"type": "string", "pattern": "^((production|baseline|research|experiment)|(rejected|blocked)(-.+)?)$"},
        str,
    ),
]


@dataclass(frozen=True, slots=True)
class Requires:
    """What must exist before a swap to this serve begins."""

    files: Annotated[tuple[FilePath, ...], setting("Files that must exist.")] = ()
    packages: Annotated[
        Mapping[str, Text], setting('Python packages and their versions: `{ transformers = ">=5,<6" }`.')
    ] = field(default_factory=dict)
    commands: Annotated[tuple[Text, ...], setting("Commands that must be on PATH.")] = ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """How an engine runs its model. Each engine's adapter writes it as that engine's options. None: the engine's
    default.
    """

    tensor_parallel: Annotated[Count | None, setting("Number of devices that share each layer.")] = None
    pipeline_parallel: Annotated[Count | None, setting("Number of devices that the layers are divided among.")] = None
    memory_fraction: Annotated[Share | None, setting("Share of each device's memory that the engine may take.")] = None
    batched_tokens: Annotated[Count | None, setting("Most tokens in one step of the engine.")] = None
    dtype: Annotated[Text | None, setting("Type of the weights in memory: `bfloat16`, `float16`.")] = None
    quantization: Annotated[Text | None, setting("Quantisation of the weights: `awq`, `fp8`.")] = None
    load_format: Annotated[
        Text | None,
        setting(
            "How the weights are read: `fastsafetensors`, `runai_streamer`, `instanttensor` (vLLM), `safetensors`."
        ),
    ] = None
    kv_cache_type: Annotated[Text | None, setting("Type of the KV cache: `q8_0` (llama.cpp), `fp8`.")] = None
    cpu_moe: Annotated[
        bool, setting("Whether the experts of all layers of a mixture-of-experts model stay in main memory.")
    ] = False
    n_cpu_moe: Annotated[
        LayerCount | None,
        setting(
            'Number of layers, from the first, whose experts stay in main memory; `"auto"`: as few as the memory of '
            "the devices requires."
        ),
    ] = None
    speculative: Annotated[
        Text | None,
        setting(
            'Speculative decoding: a small draft model, `"mtp"` for the layers of the model itself that predict '
            'further tokens, or `"auto"`: `mtp` if it has such layers, else none.'
        ),
    ] = None
    mmproj: Annotated[
        Text | None, setting("File with the projector of a model that reads images or sound: a GGUF file.")
    ] = None
    adapters: Annotated[tuple[Text, ...], setting("LoRA adapters that are loaded with the model.")] = ()
    kv_offload: Annotated[
        Size | None,
        setting("Main memory for the KV cache of prompts that no longer have a place on the devices."),
    ] = None
    kv_offload_backend: Annotated[
        Text | None, setting("What moves the cache for `kv_offload`: `native`, or `lmcache` if it is installed.")
    ] = None
    attention_backend: Annotated[
        tuple[Text, ...], setting("Attention backends in order of preference. The first that can run is used.")
    ] = ()
    prefix_caching: Annotated[bool | None, setting("Whether common beginnings of prompts are cached.")] = None
    graphs: Annotated[bool | None, setting("Whether CUDA graphs and compilation are used.")] = None
    tool_parser: Annotated[Text | None, setting("The engine's parser for tool calls in the model's text.")] = None
    reasoning_parser: Annotated[Text | None, setting("The engine's parser for thinking in the model's text.")] = None
    chat_template: Annotated[
        Text | None, setting("Chat template instead of the model's own: a file, or a known name.")
    ] = None
    thinking: Annotated[
        bool | None, setting("Whether the model thinks before it answers, if that can be switched.")
    ] = None
    sampling: Annotated[
        Mapping[SamplingName, float],
        setting(
            "Defaults for parameters that a request leaves out: `temperature`, `top_p`, `top_k`, `min_p`, "
            "`repetition_penalty`."
        ),
    ] = field(default_factory=dict)
    rendezvous: Annotated[
        Rendezvous | None, setting("`HOST:PORT` where the processes of one engine find each other.")
    ] = None
    trust_remote_code: Annotated[bool, setting("Run code that comes with the model. Such code can do anything.")] = (
        False
    )
    metrics: Annotated[
        bool, setting("Whether the engine's metrics are on. Stoker reads health and progress from them.")
    ] = True


_TRAITS = (
    ("system_turns", "system_turns"), ("tool_images", "tool_images"), ("image_urls", "takes_image_urls"),
    ("error_prefix", "error_prefix"), ("thinking_switch", "thinking_switch"), ("thinking_field", "thinking_field"),
    ("prefill", "prefill"), ("tool_ids", "tool_ids"), ("custom_tools", "custom_tools"),
    ("server_tools", "server_tools"),
    ("output_limit", "default_limit"), ("limit_field", "limit_field"),
)  # fmt: skip
"""Keys of `[serve.translation]`, and what `translate.neutral.capabilities.Capabilities` calls them."""


@dataclass(frozen=True, slots=True)
class Translation:
    """How requests in other dialects are translated for a serve. Defaults depend on its engine."""

    strict: Annotated[
        bool, setting("Whether to refuse a request if translation would lose a part of it (400 `would_lose`).")
    ] = False
    always: Annotated[
        frozenset[DialectWord],
        setting(
            "Dialects that it speaks badly, so that requests in them are translated nevertheless. Default: llama.cpp "
            "`responses`, else none.",
            derived=True,
        ),
    ] = frozenset()
    cloud: Annotated[
        bool,
        setting(
            "Whether somebody else runs it: it gets no settings of local engines, and only thinking that its vendor "
            "signed. Default: an external serve on https whose host is not a private address.",
            derived=True,
        ),
    ] = False
    system_turns: Annotated[
        SystemTurnsWord | None,
        setting(
            "System turns in mid-conversation: `keep` them as turns if the template can, or `append` them to the "
            "user's text. Default: llama.cpp's template is asked; else `append`, cloud `keep`."
        ),
    ] = None
    tool_images: Annotated[
        bool | None, setting("Whether a chat tool message may hold images. Default: llama.cpp true.")
    ] = None
    image_urls: Annotated[
        bool | None, setting("Whether it gets the URLs of images and fetches them itself. Default: cloud true.")
    ] = None
    error_prefix: Annotated[
        str | None, setting("Prefix of the text of a failed tool call. Default: `[tool error] `.")
    ] = None
    thinking_switch: Annotated[
        SwitchWord | None,
        setting("How thinking is switched: `template` (chat_template_kwargs), `effort` (reasoning_effort), `none`."),
    ] = None
    thinking_field: Annotated[
        ThinkingWord | None,
        setting(
            "The field for past thinking: `reasoning_content`, `reasoning`, or `none`. Default: the first; cloud: none."
        ),
    ] = None
    prefill: Annotated[
        PrefillWord | None,
        setting(
            "The beginning of an answer that the request gives: sent unchanged (`native`), with vLLM's flags "
            "(`continue`), or refused (`refuse`)."
        ),
    ] = None
    tool_ids: Annotated[
        ToolIdsWord | None, setting("Ids of tool calls: `any`, or `short` (nine letters and digits, as Mistral needs).")
    ] = None
    custom_tools: Annotated[bool | None, setting("Whether it takes tools without a schema. Default: cloud true.")] = (
        None
    )
    server_tools: Annotated[
        bool | None,
        setting(
            "Whether it runs the tools of its dialect's vendor (web search, code interpreter, MCP). If not, they are "
            "left out and named `lossy:server_tools`. Default: cloud true."
        ),
    ] = None
    output_limit: Annotated[
        Count | None,
        setting(
            "Messages: `max_tokens` for a request without one, since Anthropic requires it. Default: 4096, cloud 32000."
        ),
    ] = None
    limit_field: Annotated[
        LimitWord | None,
        setting(
            "Chat: the field for the output limit, `max_tokens`, or `max_completion_tokens` for OpenAI's newer models "
            "(default for cloud)."
        ),
    ] = None

    @property
    def traits(self) -> dict[str, object]:
        """What is given of the rest, by the field names of `translate.neutral.capabilities.Capabilities`."""
        given = {name: value for key, name in _TRAITS if (value := getattr(self, key)) is not None}
        return {**given, "thinking_field": ""} if self.thinking_field == "none" else given


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """How a slot swaps its resident. `auto` follows the measured swap time S."""

    patience: Annotated[
        float,
        setting(
            "Dial between throughput (higher) and short waits (lower), in units of the measured swap time S.",
            ge=0,
            le=1000,
        ),
    ] = 2.0
    min_residency: Annotated[
        AutoDuration,
        setting(
            "How long a resident stays at least. Auto: while it is in use, patience × its S; an idle one only lingers. "
            "If sessions use it, what a swap would cost them decides after that."
        ),
    ] = None
    linger: Annotated[
        AutoDuration,
        setting(
            "How long an idle resident is kept before another serve may replace it. Auto: as long as that costs the "
            "waiting requests less than bringing it back, by its S; for sessions as with `min_residency`."
        ),
    ] = None
    max_wait: Annotated[
        AutoDuration,
        setting(
            "Waiting time of a request that overrides both. Auto: 2 × patience × S of its model, at least 15 s; longer "
            "in a loop of tool calls."
        ),
    ] = None
    swap_after: Annotated[
        Count, setting("Number of waiting requests for which even a busy resident stops, but not in `min_residency`.")
    ] = 8
    drain_timeout: Annotated[
        Duration, setting("How long requests of a serve that must stop may take to end. `0s`: they are cut at once.")
    ] = 30.0
    swap_timeout: Annotated[
        AutoDuration,
        setting("How long a request may wait for a load or a swap. Auto: derived from `max_wait` and the start time."),
    ] = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A set of devices that serves share, or a share of a cluster."""

    name: str
    devices: Annotated[
        Devices,
        setting(
            "Devices that serves in this slot may use: numbers in PCI order, `amd:0`, ids, or PCI addresses. Empty: "
            "they see all, nothing is restricted."
        ),
    ] = ()
    cluster: Annotated[
        Name | None,
        setting("The cluster whose GPUs this slot is: a process serve runs there as a job. Left out: this machine."),
    ] = None
    gpus: Annotated[
        Count, setting("With `cluster`: how many GPUs of one node are reserved for the serve in this slot.")
    ] = 1
    node: Annotated[
        Mapping[str, Text],
        setting('With `cluster`: labels that this node has, all of them: `{ box = "alpha" }`. Left out: any node.'),
    ] = field(default_factory=dict)
    memory: Annotated[
        Size | None,
        setting("Memory of the slot: as many serves as fit run at once. Left out: one serve at a time, or `together`."),
    ] = None
    together: Annotated[
        tuple[frozenset[Name], ...],
        setting(
            'Sets of serves that may be loaded at the same time: `[["a", "c"], ["b", "c"]]`. A part of a set may be, '
            "too, and each serve alone; nothing else. With `memory` both must hold."
        ),
    ] = ()
    baseline: Annotated[
        Name | None, setting("The known-good serve that is loaded if a switch and its rollback both fail.")
    ] = None
    idle_serve: Annotated[
        Name | None,
        setting(
            "The serve that the slot returns to when it is idle, after a request used another one. An operator's `slot "
            "switch` or `serves down` cancels the return."
        ),
    ] = None
    idle_serve_after: Annotated[
        SomeDuration, setting("Time without a request in the slot after which it returns to `idle_serve`.")
    ] = 60.0
    yields_to: Annotated[
        tuple[Text, ...],
        setting(
            "Programs for which the slot is paused while they use its devices; where that is unknown: while they run. "
            'Names of programs or of their folders: `["comfyui", "blender"]`.'
        ),
    ] = ()
    yields_above: Annotated[
        Size | None,
        setting("The slot is paused while programs that are not Stoker's hold more memory of its devices than this."),
    ] = None
    return_after: Annotated[
        SomeDuration, setting("Time for which no such program may need the devices before what was loaded comes back.")
    ] = 10.0
    swap: Annotated[SwapPolicy, setting("Any key of `[swap]`, for this slot only: `[slots.NAME.swap]`.")] = SwapPolicy()
    box: str = ""
    """The box whose Stoker has this slot, and decides what is loaded there; empty: it is not another Stoker's."""

    @property
    def is_here(self) -> bool:
        """Whether its devices are those of this machine."""
        return self.cluster is None and not self.box

    def allows(self, names: Collection[str]) -> bool:
        """Whether `together` permits these serves to be loaded at the same time. Says nothing about memory."""
        return len(names) < 2 or not self.together or any(group.issuperset(names) for group in self.together)

    @property
    def yields(self) -> bool:
        """Whether it is paused for other programs."""
        return bool(self.yields_to) or self.yields_above is not None

    def can_hold(self, names: Collection[str]) -> bool:
        """Whether these serves may be loaded at the same time, if their sizes permit it."""
        return (
            len(names) < 2
            or bool(self.box)
            or ((self.memory is not None or bool(self.together)) and self.allows(names))
        )


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a serve runs as a job: so many GPUs of one node, which has these labels.

    An engine on several machines has a job, a **rank**, in each of several such places. This is the one of rank 0.
    """

    cluster: str
    address: str
    """`http://HOST:PORT` of the cluster's head."""
    gpus: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    others: tuple[JobPlace, ...] = ()
    """Those of the ranks after rank 0, which have no others themselves."""

    def ranks(self) -> tuple[JobPlace, ...]:
        """The place of each rank."""
        return (replace(self, others=()), *self.others)


@dataclass(frozen=True, slots=True)
class BoxPlace:
    """A slot of another Stoker, and the serve there that this one loads."""

    box: str
    """Its `[boxes.NAME]`."""
    slot: str
    """What that Stoker calls the slot."""
    serve: str
    """What that Stoker calls the serve."""


@dataclass(frozen=True, slots=True)
class ServeVariant:
    """Another model name for the same process, with other request parameters."""

    name: Annotated[ServedName, setting("Required. The model name, such as `fast:high`; no wildcards.")]
    title: Annotated[Text, setting("Its name for people, in lists of models. Default: `name`.")] = ""
    description: Annotated[Text, setting("What clients show of it in lists of models. Default: that of the serve.")] = (
        ""
    )
    listed: Annotated[bool | None, setting("Whether lists of models have it. Default: as the serve.")] = None
    request: Annotated[RequestParameters, Flat()] = NO_PARAMETERS
    """They apply after the serve's own."""


@dataclass(frozen=True, slots=True)
class Serve:
    """One model, one way to run it."""

    name: Annotated[Name, setting("Required. The logical name: letters, digits, `.`, `_` and `-`.")]
    engine: Annotated[
        Engine,
        setting(
            "The engine that runs it, or `openai` for anything with an OpenAI-like API. Default: `llama.cpp`; "
            "with a `base_url` or a `container`, `openai`.",
            derived=True,
        ),
    ] = "llama.cpp"
    model: Annotated[
        Text,
        setting(
            "Path of the weights (relative to this file, or `~/…`) or `vault:NAME`; with vllm and sglang also a hub "
            "id; with engine `openai`, any text."
        ),
    ] = ""
    served_name: Annotated[
        ServedName,
        setting(
            "The id that the engine must show in `/v1/models`. Default: `name`; for a container with a `model`, the "
            "`model`."
        ),
    ] = ""
    aliases: Annotated[
        tuple[ServedName, ...],
        setting(
            "Further model names that mean this serve, blanks, `:` and `/` included; `*` and `?` are wildcards.",
            in_place=True,
        ),
    ] = ()
    slot: Annotated[
        Place | None,
        setting(
            'The slot that it shares with other serves; `"gpu0+gpu1"`: it takes both at the same time; `"box2:gpu0"`: '
            "slot `gpu0` of the Stoker of `[boxes.box2]`. Left out: it shares with none, and needs no swap.",
            unused_with=("base_url",),
        ),
    ] = None
    slots: Annotated[
        tuple[Place, ...],
        setting(
            "Instead of `slot`: the slots that it may run in. It is loaded where there is room, or disturbs least.",
            unused_with=("base_url",),
        ),
    ] = ()
    replicas: Annotated[
        Replicas,
        setting(
            "With `slots`: how many processes of it may run at the same time. In an empty slot one more is started as "
            "soon as requests wait for it, elsewhere when they have waited, all together, `patience` times its swap "
            "time. `{ min = 1, max = 3 }`: so many are kept loaded, wherever there is room.",
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = 1
    also: Annotated[
        tuple[AlsoServed, ...],
        setting(
            "Endpoints elsewhere that serve the same model, as further replicas: another Stoker, or any compatible one."
        ),
    ] = ()
    context: Annotated[
        ContextSize | None,
        setting(
            "Tokens that one request may use; llama.cpp gets this times `parallel`. `auto` (llama.cpp): as many as fit "
            "into the memory of its slot, at most what the model was trained for."
        ),
    ] = None
    parallel: Annotated[int, setting("How many sequences the engine runs at once.", ge=1, le=4096)] = 4
    max_active: Annotated[
        Count,
        setting(
            "Most requests in flight at this serve, of all keys. Default: `parallel`.", derived=True, in_place=True
        ),
    ] = 4
    queue: Annotated[
        int, setting("Most requests that may wait for a place. More get 503.", ge=0, le=1_000_000, in_place=True)
    ] = 64
    queue_timeout: Annotated[
        Duration,
        setting(
            "How long a request may wait for a place. `0s`: it gets 503 at once. After a load it counts from the end "
            "of the load.",
            in_place=True,
        ),
    ] = 30.0
    first_byte_timeout: Annotated[
        Duration | None,
        setting(
            "How long the first byte of an answer may take, from sending the request; then its `fallback` is asked, or "
            "the client gets 504. An engine that is known to work on the prompt has more time. `0s`: no limit. "
            "Default: five times its usual time, at least 60 s (120 s until that is known), plus time for the prompt "
            "and, if the answer comes in one piece, for the answer.",
            in_place=True,
        ),
    ] = None
    status: Annotated[
        StatusText,
        setting(
            "`production`, `baseline`, `research`, `experiment`, `rejected-WHY` or `blocked-WHY`; the last two start "
            "only with `--force`.",
            in_place=True,
        ),
    ] = Status.PRODUCTION
    reason: Annotated[
        Text, setting("Why it has this status. Default: the text after the dash in `status`.", in_place=True)
    ] = ""
    purpose: Annotated[Text, setting("What it is for; shown in status.", in_place=True)] = ""
    title: Annotated[Text, setting("Its name for people, in lists of models.", in_place=True)] = ""
    description: Annotated[Text, setting("What clients show of it in lists of models.", in_place=True)] = ""
    metadata: Annotated[
        Mapping[Name, str | int | float | bool],
        setting("More for clients: `stoker.metadata` of its entries in `/v1/models`.", in_place=True),
    ] = field(default_factory=dict)
    listed: Annotated[
        bool, setting("Whether lists of models have its names. It answers to them in any case.", in_place=True)
    ] = True
    request: Annotated[
        RequestParameters,
        setting("What is set in the bodies of its requests: `set`, `default`, `drop`.", in_place=True),
    ] = NO_PARAMETERS
    variants: Annotated[
        tuple[ServeVariant, ...],
        setting(
            "Further model names for the same process, each with its own request parameters.",
            name="variant",
            in_place=True,
        ),
    ] = ()
    modalities: Annotated[
        tuple[Name, ...], setting("What kinds of input it takes; shown in status.", in_place=True)
    ] = ("text",)
    driver: Annotated[
        DriverWord,
        setting(
            "`process`: Stoker starts and stops it. `compose`: a container. `systemd`: a unit. `external`: something "
            "else runs it. Default: `external` with a `base_url`, `compose` with a `container`, else `process`.",
            derived=True,
        ),
    ] = Driver.PROCESS
    cmd: Annotated[
        Command | None,
        setting(
            "Command to start, instead of the engine's own: text or a list, never through a shell. `{port}`, "
            "`{model}`, `{dir}`, `{host}`, `{name}` and `{key}` are filled in.",
            unused_with=("base_url", "container"),
        ),
    ] = None
    host: Annotated[Text, setting("Address that the engine listens on.", unused_with=("base_url",))] = "127.0.0.1"
    port: Annotated[
        Port | None,
        setting("Port that the engine listens on. Left out: a free one at each start.", unused_with=("base_url",)),
    ] = None
    base_path: Annotated[
        BasePath,
        setting(
            'Path before all paths of the engine, `/v1/…` and `health` too: `"/llm"` for `--api-prefix /llm`.',
            unused_with=("base_url",),
        ),
    ] = ""
    identity: Annotated[
        ServeIdentity,
        setting(
            "What proves that the configured model answers: `models` = its `served_name` in the engine's `/v1/models`; "
            "`none` = nothing does: the engine has no such list, and only `health` or `probe` and its process are "
            "checked."
        ),
    ] = ServeIdentity.MODELS
    health: Annotated[
        HealthPath,
        setting(
            "Path that answers 200 when the engine is up. `none`: it has no such path. Default with a `probe`: `none`."
        ),
    ] = "/health"
    probe: Annotated[
        SlashPath | None,
        setting(
            'With `identity = "none"`: path that answers 200 when the engine is up, and which the watchdog asks. '
            "Default: `health`; without either, the engine's port has to accept connections."
        ),
    ] = None
    canary: Annotated[
        bool, setting("Whether a start also has to answer a one-token completion before the serve is ready.")
    ] = False
    base_url: Annotated[
        ServeUrl | None,
        setting(
            'Where an external serve answers: `"http://10.0.0.7:30000/v1"`, or `"edge:NAME"`: where `[edge.NAME]` is.'
        ),
    ] = None
    key: Annotated[SecretSource | None, setting("The key for the serve: `env:NAME` or `file:PATH`.")] = None
    dialects: Annotated[
        frozenset[DialectWord],
        setting(
            "The dialects that it speaks. Default: `chat`, `completions`, `messages`, `responses`, with vllm and "
            "sglang `embeddings` and `rerank` too; openai `chat`, `completions`. `speech`, `transcription` and `image` "
            "have to be given.",
            derived=True,
        ),
    ] = TEXT
    key_header: Annotated[
        KeyHeaderWord,
        setting(
            "The header for `key`: `authorization` (as a bearer) or `x-api-key`. Default: `x-api-key` for a serve that "
            "speaks `messages` alone.",
            derived=True,
        ),
    ] = "authorization"
    translation: Annotated[
        Translation, setting("How requests in other dialects are translated for it.", in_place=True)
    ] = Translation()
    memory: Annotated[
        Size | None, setting("Memory that it needs. Required if its slot has `memory`.", unused_with=("base_url",))
    ] = None
    keep_loaded: Annotated[
        bool,
        setting(
            "Loaded at the start, and never swapped out: what does not fit beside it is refused. See `preload`.",
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = False
    preload: Annotated[
        bool,
        setting(
            "Loaded at the start, if nothing has to be stopped for it; later it may be swapped out. An `idle_serve` "
            "does not replace it before a request has used it.",
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = False
    evict_cost: Annotated[
        float | None,
        setting(
            "What stopping it costs, in comparison with the other serves of its slot: those with the least total cost "
            "are stopped to make room. Default: the seconds that its swaps take.",
            gt=0,
            le=1e9,
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = None
    idle_unload: Annotated[
        NeverDuration,
        setting("Time without a request after which it is stopped.", in_place=True, unused_with=("base_url",)),
    ] = None
    ready_timeout: Annotated[SomeDuration, setting("How long a start may take.", in_place=True)] = 600.0
    stop: Annotated[
        Command | None,
        setting(
            "Command that stops its process, instead of SIGTERM: text or a list, never through a shell, with the "
            "placeholders of `cmd` and `{pid}`. It has `stop_grace`; if the process still runs then, or the command "
            "fails, SIGTERM follows.",
            unused_with=("base_url", "container"),
        ),
    ] = None
    stop_grace: Annotated[
        Duration, setting("Time between SIGTERM and SIGKILL.", in_place=True, unused_with=("base_url",))
    ] = 10.0
    env: Annotated[
        Mapping[VariableName, Variable],
        setting("Environment variables for the process. Not for secrets.", unused_with=("base_url",)),
    ] = field(default_factory=dict)
    inherit_env: Annotated[
        tuple[VariableName, ...],
        setting(
            "Further variables of Stoker's environment that the process gets, besides `PATH`, `HOME`, `CUDA_...` and "
            "the like. `*`: all but keys, tokens and Stoker's own, which have to be named.",
            unused_with=("base_url", "container"),
        ),
    ] = ()
    cwd: Annotated[
        FilePath,
        setting(
            "Directory in which the command, `stop` and `up` run. Default: the directory of this file.",
            unused_with=("base_url",),
        ),
    ] = ""
    extra_args: Annotated[
        tuple[Argument, ...],
        setting("Further arguments for the engine's command.", unused_with=("base_url", "container", "cmd")),
    ] = ()
    threads: Annotated[
        Count | None,
        setting("CPU threads. Left out: the engine's choice.", unused_with=("base_url", "container", "cmd")),
    ] = None
    gpu_layers: Annotated[
        int | None,
        setting(
            "Layers on the GPU. Left out: the engine's choice.",
            ge=0,
            le=100_000,
            unused_with=("base_url", "container", "cmd"),
        ),
    ] = None
    requires: Annotated[
        Requires, setting("Files, packages and commands without which it is not started.", unused_with=("base_url",))
    ] = Requires()
    conflicts: Annotated[
        tuple[Text, ...],
        setting(
            "What cannot run at the same time: `unit:NAME`, `container:NAME` (stopped and disabled before it starts), "
            "or a program's name (a start is refused while it runs).",
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = ()
    embedded: Annotated[
        bool | None,
        setting(
            "llama.cpp: true = the built-in one, false = `llama-server` from PATH. Left out: PATH first.",
            unused_with=("base_url", "container", "cmd"),
        ),
    ] = None
    container: Annotated[
        Name | None, setting("The container that runs it; Docker Compose or any other `up`.", unused_with=("base_url",))
    ] = None
    up: Annotated[
        Command | None,
        setting(
            "Command that creates the container, with the placeholders of `cmd`, and `{devices}`, never through a "
            "shell. Needed if the container may be missing.",
            unused_with=("base_url",),
        ),
    ] = None
    unit: Annotated[
        Text | None,
        setting(
            "The systemd unit that runs it. Default: `stoker-serve-NAME.service`.",
            unused_with=("base_url", "container"),
        ),
    ] = None
    fallback: Annotated[
        Name | None, setting("The serve that answers instead if this one cannot; see `fallback_on`.", in_place=True)
    ] = None
    fallback_on: Annotated[
        tuple[FallbackCause, ...],
        setting(
            "When `fallback` answers. `memory`: the serve does not fit on its device, loses it, or has a quantisation "
            "that it cannot run. `unavailable`: it failed, or takes no requests. `busy`: its queue is full, or a "
            "request waited too long.",
            in_place=True,
        ),
    ] = (FallbackCause.MEMORY,)
    warm: Annotated[
        Warmth,
        setting(
            "Whether its weights stay in host memory after it was swapped out: `auto`, `pin` (always), `never`.",
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = Warmth.AUTO
    sleep_level: Annotated[
        int | None,
        setting(
            "Put it to sleep instead of stopping it: vllm 1 (weights to host memory) or 2 (weights dropped); sglang 1; "
            "any engine on NVIDIA GPUs 3 (the driver suspends it).",
            ge=1,
            le=3,
            unused_with=("base_url",),
        ),
    ] = None
    keep_conversations: Annotated[
        bool,
        setting(
            "llama.cpp: save KV caches to disk, so that conversations survive a swap. The files contain prompts.",
            unused_with=("base_url", "container"),
        ),
    ] = False
    min_tokens_per_second: Annotated[
        float | None,
        setting(
            "Speed that streamed replies should reach. `stoker watchdog --once` fails for a slower serve.",
            gt=0,
            le=1_000_000,
            in_place=True,
        ),
    ] = None
    source: Annotated[
        Source | None,
        setting(
            "Where missing weights come from: a path, `https://…`, `rsync:HOST:PATH`, `s3://BUCKET/KEY` or "
            "`hf:ORG/REPO[/FILE]`.",
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = None
    sha256: Annotated[
        Mapping[str, Sha256],
        setting(
            "Expected digests of the files of the weights: `{ NAME = DIGEST }`.",
            in_place=True,
            unused_with=("base_url",),
        ),
    ] = field(default_factory=dict)
    tuning: Annotated[Tuning, Flat()] = Tuning()
    alias_patterns: tuple[str, ...] = ()
    """Aliases with wildcards. They are no names: lists of models do not show them."""
    min_replicas: int = 0
    """How many of them are kept loaded, wherever there is room."""
    replica_of: str = ""
    """The configured serve of which this is one replica; empty: it is the configured one."""
    auto_context: bool = False
    """`context = "auto"`: `context` is what was chosen, or None as long as the weights are missing."""
    context_problem: str = ""
    """Why no context could be chosen, and what to do; empty: no problem."""
    device_problem: str = ""
    """Why it cannot be restricted to the devices of its slot, and what to do; empty: no problem."""
    before_mask: Mapping[str, object] = field(default_factory=dict, repr=False)
    """What its fields were before the devices of its slot were looked up, for those that this changed. Launches are
    compared by them: a driver that does not answer at a reload is no reason to restart what runs.
    """
    asks_dialects: bool = False
    """The file does not say which dialects the serve speaks: `dialects` is the usual set of its engine, and a ready
    serve is tested for them.
    """
    directory: str = "."
    """Absolute path of the configuration file's directory: `{dir}`, and the working directory of the process."""
    die_with_parent: bool = False
    """Whether the engine ends with Stoker, even if Stoker is killed. Only for the demo's engines."""
    job_place: JobPlace | None = None
    """Driver `ray`: where its job runs."""
    box_place: BoxPlace | None = None
    """Driver `box`: where it is, and what it is called there."""
    from_tier: bool = False
    """The serve was made from a cloud tier."""
    is_served_name_public: bool = True
    """Whether clients may ask for it by its served name, because that means nothing else."""

    @property
    def places_are_boxes(self) -> bool:
        """Whether nothing of it is started here: all its places are slots of boxes."""
        return are_in_boxes(self.slot, self.slots)

    @property
    def working_directory(self) -> str:
        """Where its commands run; relative paths in them begin there."""
        return self.cwd or self.directory

    def names(self) -> tuple[str, ...]:
        """Every model name that means this serve: its own name, its served name if that is public, its aliases, its
        variants.
        """
        return tuple(dict.fromkeys((*self.own_names(), *self.aliases)))

    def own_names(self) -> tuple[str, ...]:
        """The same without its aliases."""
        served = self.served_name if self.served_name and self.is_served_name_public else self.name
        return tuple(dict.fromkeys((self.name, served, *(variant.name for variant in self.variants))))

    def as_variant(self, variant: ServeVariant) -> Serve:
        """This serve as requests for one of its variants see it: with other request parameters."""
        return replace(
            self,
            request=self.request.then(variant.request) or NO_PARAMETERS,
            title=variant.title,
            description=variant.description or self.description,
            listed=self.listed if variant.listed is None else variant.listed,
        )

    def launches_like(self, other: Serve) -> bool:
        """Whether a serve that runs as `other` need not restart for this configuration: see `in_place`.

        A context that was chosen at the start, when the weights arrived, is no change.
        """
        if self.auto_context and other.auto_context and None in (self.context, other.context):
            return replace(self, context=other.context)._launches_like(other)
        return self._launches_like(other)

    def _launches_like(self, other: Serve) -> bool:
        return self.launch_settings() == other.launch_settings()

    def launch_settings(self) -> dict[str, object]:
        """What makes a launch of the serve another one, by field."""
        kept = in_place()
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in kept} | dict(self.before_mask)

    @property
    def has_open_choices(self) -> bool:
        """Whether something of it is chosen when it starts: see `fleet.memory.fit.check.with_choices`."""
        is_auto = self.tuning.n_cpu_moe == AUTO_LAYERS or self.tuning.speculative == "auto"
        return is_auto or (self.auto_context and self.context is None)

    @property
    def longest_stop(self) -> float:
        """Seconds from the first attempt to stop it to SIGKILL."""
        return self.stop_grace if self.stop is None else 2 * self.stop_grace

    @property
    def probe_path(self) -> str | None:
        """What a serve without a list of models is asked; None: whether its port accepts connections."""
        return self.probe or self.health

    @property
    def makes_media(self) -> bool:
        """Whether all that it is for is audio or images."""
        return self.dialects <= MEDIA

    @property
    def edge(self) -> str | None:
        """The edge that it is behind; None: it has an address of its own."""
        url = self.base_url or ""
        return url.removeprefix(EDGE_SCHEME) if url.startswith(EDGE_SCHEME) else None

    @property
    def has_replicas(self) -> bool:
        """Whether it may have several processes at the same time."""
        return self.replicas > 1 or bool(self.also)

    @property
    def memory_fallback(self) -> str | None:
        """The serve to start instead if this one does not fit on its device."""
        return self.fallback if FallbackCause.MEMORY in self.fallback_on else None

    @property
    def needs_force(self) -> bool:
        return self.status in (Status.REJECTED, Status.BLOCKED)


_FACTS_IN_PLACE = (
    "alias_patterns", "min_replicas", "auto_context", "context_problem", "device_problem", "before_mask", "from_tier",
    "is_served_name_public",
)  # fmt: skip
"""Those of them that are no keys."""
_FACTS_HERE = ("asks_dialects", "auto_context", "context_problem", "device_problem", "before_mask", "min_replicas")
"""Facts about an engine on this machine."""


@cache
def in_place() -> frozenset[str]:
    """The fields of a Serve that may change while it runs: a reload does not restart it for them."""
    return frozenset((*_FACTS_IN_PLACE, *(key.field for key in keys_of(Serve).values() if key.is_in_place)))


@cache
def unused_keys(beside: str) -> tuple[str, ...]:
    """The keys without effect for a serve with this key: `base_url`, `container` or `cmd`."""
    return tuple(name for name, key in keys_of(Serve).items() if beside in key.unused_with or key.group == "tuning")


@dataclass(frozen=True, slots=True)
class ServeRow(Serve):
    """One model, one way to run it."""

    extends: Annotated[Name | None, setting("A serve whose keys this one inherits. Keys given here override them.")] = (
        None
    )
    abstract: Annotated[
        bool, setting("Only a parent for `extends`: it cannot be requested, and need not be complete.")
    ] = False


def slots_of(slot: str) -> tuple[str, ...]:
    """The slots that a serve's `slot` names: one, or several that it takes at the same time (`gpu0+gpu1`)."""
    return tuple(slot.split("+"))


def box_of(slot: str) -> str:
    """The box whose slot this is (`box2:gpu0`); empty: it is a slot of this configuration."""
    return slot.partition(":")[0] if ":" in slot else ""


def are_in_boxes(slot: str | None, slots: Iterable[str]) -> bool:
    """Whether a serve with these `slot` and `slots` has its places in boxes alone."""
    places = [place for place in (slot, *slots) if place]
    return bool(places) and all(map(box_of, places))


def box_slots(serves: Iterable[Serve]) -> tuple[Slot, ...]:
    """The slots of boxes that these serves name: no table of the file describes them."""
    places = (place for serve in serves for place in (serve.slots or (serve.slot or "",)))
    names = dict.fromkeys(name for place in places for name in slots_of(place))
    return tuple(Slot(name, box=box) for name in names if (box := box_of(name)))


def in_box(serve: Serve, slot: Slot) -> Serve:
    """The serve, or a replica of it, as it runs in a slot of a box. All that is asked of it is what that Stoker says of
    it; its model and how it is started are in the configuration there.
    """
    there = serve.replica_of or serve.served_name or serve.name
    kept = ("slot", "replicas", "min_replicas", "idle_unload", "stop_grace")
    return replace(
        serve, **_unset(*_here_only(), "key", "key_header", "also", kept=kept), engine="openai", driver=Driver.BOX,
        served_name=there, slot=slot.name, health="/healthz",
        box_place=BoxPlace(slot.box, slot.name.partition(":")[2], there),
    )  # fmt: skip


def share_slot(one: str | None, other: str | None) -> bool:
    """Whether two serves have a slot in common, by their `slot`."""
    return one is not None and other is not None and not set(slots_of(one)).isdisjoint(slots_of(other))


def joined_slot(slot: str, slots: Mapping[str, Slot]) -> Slot | None:
    """What a serve's `slot` names, as one slot: all their devices, and their memory together, if each has a `memory`.
    Everything else is that of the first one. None: one of them does not exist.
    """
    parts = [slots.get(name) for name in slots_of(slot)]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    if len(found) == 1:
        return found[0]
    memory = [part.memory for part in found if part.memory is not None]
    devices = tuple(device for part in found for device in part.devices)
    return replace(found[0], name=slot, devices=devices, memory=sum(memory) if len(memory) == len(found) else None)


MAIN = "main"
"""Stands for the slot in the name of a replica that has none: that of the serve's own entry."""


def replica_name(serve: str, slot: str) -> str:
    """The name of a serve's replica in this slot."""
    return f"{serve}@{slot}"


def replica_names(serve: Serve) -> tuple[str, ...]:
    """The names of its replicas; of a serve with one place, its own name."""
    return tuple(replica.name for replica in replicas_of(serve))


def replicas_of(serve: Serve) -> tuple[Serve, ...]:
    """What the fleet knows instead of a serve with several slots, or with `also`: one Serve for each, named
    `NAME@SLOT`. Outside any slot it is `NAME@main`; elsewhere `NAME@` and the name of the endpoint.

    Any other serve is returned as it is. With `keep_loaded`, the first `replicas` of them are kept loaded.
    """
    if len(serve.slots) < 2 and not serve.also:
        return (serve,)
    own = replace(serve, slots=(), also=(), replica_of=serve.name, served_name=serve.served_name or serve.name)
    here = [
        replace(
            own, name=replica_name(serve.name, slot or MAIN), slot=slot,
            keep_loaded=serve.keep_loaded and place < serve.replicas, preload=serve.preload and not serve.slots,
        )
        for place, slot in enumerate(serve.slots or (serve.slot,))
    ]  # fmt: skip
    return (*here, *(_elsewhere(own, serve.name, one) for one in serve.also))


def _elsewhere(own: Serve, name: str, there: AlsoServed) -> Serve:
    """The replica at an endpoint. What it shows in `/v1/models` is all that is asked of it."""
    return replace(
        own, **_unset(*_here_only(), kept=("replicas",)), name=replica_name(name, there.name), engine="openai",
        served_name=there.model or own.served_name, driver=Driver.EXTERNAL, base_url=there.base_url, key=there.key,
        key_header=there.key_header, health=None, max_active=there.max_active or own.max_active,
        translation=replace(own.translation, cloud=there.is_cloud),
    )  # fmt: skip


@cache
def _here_only() -> frozenset[str]:
    """The fields that mean nothing for a replica on another machine."""
    unused = (key.field for key in keys_of(Serve).values() if "base_url" in key.unused_with)
    return frozenset((*unused, *_FACTS_HERE, "tuning", "identity", "probe", "canary"))


def _unset(*names: str, kept: Collection[str]) -> dict[str, Any]:
    """The defaults of these fields of a Serve, without those that are `kept`."""
    return {
        one.name: one.default if one.default_factory is MISSING else one.default_factory()
        for one in fields(Serve)
        if one.name in names and one.name not in kept
    }
