"""What may run where, as configured. Times are seconds, sizes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from stoker.domain.dialect import SPOKEN, Dialect


class Driver(StrEnum):
    """How a serve is started and stopped."""

    PROCESS = "process"
    COMPOSE = "compose"
    """A container, brought up by the serve's own `up` command."""
    SYSTEMD = "systemd"
    EXTERNAL = "external"


class Warmth(StrEnum):
    """Whether a serve that is swapped out may stay in memory: asleep, or with its weights in the page cache."""

    AUTO = "auto"
    PIN = "pin"
    """Never dropped to make room for another."""
    NEVER = "never"


class Status(StrEnum):
    """What its owner thinks of a serve. `rejected` and `blocked` need `--force`."""

    PRODUCTION = "production"
    BASELINE = "baseline"
    RESEARCH = "research"
    EXPERIMENT = "experiment"
    REJECTED = "rejected"
    BLOCKED = "blocked"


class Secret:
    """A value that prints as `***`. `reveal()` is called where the bytes go on the wire, nowhere else."""

    __slots__ = ("_value", "source")

    def __init__(self, value: str, source: str) -> None:
        self._value = value
        self.source = source
        """Where it came from: `env:NAME` or `file:PATH`. Safe to print."""

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.source})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class Requires:
    """What must be there before a running model is touched."""

    files: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    """Package name to version specifier (`">=0.8,<0.9"`), looked up in `python`'s environment."""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """How an engine is to run its model; each adapter says it in its engine's words. None: the engine's own choice."""

    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    memory_fraction: float | None = None
    """Share of each device's memory that the engine may take, above 0 up to 1."""
    batched_tokens: int | None = None
    """Tokens that one step works on at most."""
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_type: str | None = None
    attention_backend: tuple[str, ...] = ()
    """In order of preference: the first whose dependencies are there."""
    prefix_caching: bool | None = None
    graphs: bool | None = None
    """CUDA graphs and compilation."""
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: str | None = None
    thinking: bool | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)
    """Defaults for what a request leaves out: `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty`."""
    rendezvous: str | None = None
    """`host:port` at which the parts of one engine find each other."""
    trust_remote_code: bool = False
    metrics: bool = True


@dataclass(frozen=True, slots=True)
class Translation:
    """How requests are translated for a serve that does not speak the client's dialect."""

    strict: bool = False
    """Refuse requests that would lose something in translation."""
    always: frozenset[Dialect] = frozenset()
    """Dialects that it speaks badly: requests in them are translated anyway."""
    cloud: bool = False
    """It is a cloud: it knows no settings of local engines, and accepts only thinking that it signed itself."""
    traits: Mapping[str, object] = field(default_factory=dict)
    """Overrides, by the field names of `translate.neutral.capabilities.Capabilities`."""


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """How a slot changes its resident. None means: follow the measured swap time (`auto`)."""

    patience: float = 2.0
    min_residency: float | None = None
    linger: float | None = None
    max_wait: float | None = None
    swap_after: int = 8
    drain_timeout: float = 30.0
    swap_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A set of devices. Without `memory` one serve at a time lives here; with it, as many as fit."""

    name: str
    devices: tuple[str, ...] = ()
    memory: int | None = None
    baseline: str | None = None
    """The known-good serve to fall back to when a switch and its rollback both failed."""
    swap: SwapPolicy = SwapPolicy()


IN_PLACE = frozenset(
    ("aliases", "max_active", "queue", "queue_timeout", "idle_unload", "keep_loaded", "status", "reason", "purpose",
     "ready_timeout", "stop_grace", "conflicts", "modalities", "fallback", "warm", "source", "sha256",
     "min_tokens_per_second", "translation", "from_tier")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Serve:
    """One model, one way to run it."""

    name: str
    engine: str = "llama.cpp"
    """`llama.cpp`, `vllm`, `sglang`, or `openai` (anything that speaks an OpenAI-like API)."""
    model: str = ""
    """Absolute path of the weights for llama.cpp; whatever `{model}` is to stand for in `cmd`."""
    served_name: str = ""
    """What the engine's /v1/models must show; also what is written into upstream requests."""
    aliases: tuple[str, ...] = ()
    slot: str | None = None
    """None: a companion that shares no slot with anyone."""
    context: int | None = None
    """Tokens that one request may use."""
    parallel: int = 4
    max_active: int = 4
    queue: int = 64
    queue_timeout: float = 30.0
    status: Status = Status.PRODUCTION
    reason: str = ""
    purpose: str = ""
    modalities: tuple[str, ...] = ("text",)
    driver: Driver = Driver.PROCESS
    cmd: tuple[str, ...] | None = None
    """Argument list with `{port}`, `{model}`, `{dir}`, `{host}`, `{name}`, `{key}` to fill in."""
    host: str = "127.0.0.1"
    port: int | None = None
    """None: a free one is picked at each start."""
    health: str = "/health"
    canary: bool = False
    """Ready only after a one-token completion was answered too."""
    base_url: str | None = None
    """External serves: `http://host:port/v1`."""
    key: Secret | None = None
    key_header: str = "authorization"
    """Which header carries the key: `authorization` (as a bearer) or `x-api-key`."""
    dialects: frozenset[Dialect] = SPOKEN
    asks_dialects: bool = False
    """What it speaks was not said: `dialects` is what its kind usually does, and it is asked when it is ready."""
    translation: Translation = Translation()
    memory: int | None = None
    keep_loaded: bool = False
    idle_unload: float | None = None
    ready_timeout: float = 600.0
    stop_grace: float = 10.0
    env: Mapping[str, str] = field(default_factory=dict)
    extra_args: tuple[str, ...] = ()
    threads: int | None = None
    gpu_layers: int | None = None
    requires: Requires = Requires()
    conflicts: tuple[str, ...] = ()
    directory: str = "."
    """Absolute: where the configuration file lies; `{dir}`, and the child's working directory."""
    embedded: bool | None = None
    """llama.cpp: True = the xllamacpp wheel, False = llama-server from PATH, None = PATH first."""
    die_with_parent: bool = False
    """The demo's engines only."""
    tuning: Tuning = Tuning()
    container: str | None = None
    """Driver compose: the container's name."""
    up: tuple[str, ...] | None = None
    """Driver compose: the command that creates the container; `{dir}`, `{port}`, `{model}` are filled in."""
    unit: str | None = None
    """Driver systemd: the unit's name."""
    fallback: str | None = None
    """The serve to use instead when this one runs out of memory."""
    warm: Warmth = Warmth.AUTO
    sleep_level: int | None = None
    """vLLM: 1 = weights to host memory, 2 = weights dropped and read again. SGLang: 1. None: stopped instead."""
    keep_conversations: bool = False
    """llama.cpp: the KV cache of conversations is saved before a stop and restored after the next start."""
    min_tokens_per_second: float | None = None
    """What a streamed reply should reach after its first token; below it the watchdog's command says so."""
    source: str | None = None
    """Where missing weights come from: a path, `https://…`, `rsync:HOST:PATH`, `s3://BUCKET/KEY`, `hf:ORG/REPO`."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """File name (of `model` or its parts) to the hex digest that it must have."""

    from_tier: bool = False
    """It was written as a cloud tier: its served name is its vendor's word, which two tiers may share."""

    def names(self) -> tuple[str, ...]:
        """Every model name that means this serve: its own, the served one (not of a cloud tier), the aliases."""
        served = self.name if self.from_tier else self.served_name or self.name
        return tuple(dict.fromkeys((self.name, served, *self.aliases)))

    def launches_like(self, other: Serve) -> bool:
        """Whether a running `other` is still right for this configuration."""
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(self) if f.name not in IN_PLACE)

    @property
    def needs_force(self) -> bool:
        return self.status in (Status.REJECTED, Status.BLOCKED)


def on_devices(serve: Serve, slot: Slot) -> Serve:
    """The serve, seeing only its slot's devices. Its own `env` wins; a slot without devices changes nothing."""
    if not slot.devices:
        return serve
    listed = ",".join(slot.devices)
    seen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": listed, "HIP_VISIBLE_DEVICES": listed}
    return replace(serve, env={**seen, **serve.env})
