"""What may run where, as configured. Times are seconds, sizes are bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from stoker.domain.dialect import MEDIA, TEXT, Dialect
from stoker.domain.errors import ConfigError
from stoker.domain.request_parameters import NO_PARAMETERS, RequestParameters


class Driver(StrEnum):
    """How a serve is started and stopped."""

    PROCESS = "process"
    COMPOSE = "compose"
    """A container, with or without Compose: the serve's own `up` command creates it."""
    SYSTEMD = "systemd"
    RAY = "ray"
    """A job of a Ray cluster: what a process serve becomes in a slot with a cluster."""
    EXTERNAL = "external"


class Warmth(StrEnum):
    """Whether a serve that is swapped out may stay in memory: asleep, or with its weights in the page cache."""

    AUTO = "auto"
    PIN = "pin"
    """Never removed from memory to make room for another one."""
    NEVER = "never"


class ServeIdentity(StrEnum):
    """What a serve has to show before Stoker believes that it is the configured one."""

    MODELS = "models"
    """GET /v1/models shows the exact served name."""
    NONE = "none"
    """Its probe path answers; which model answers is not proved."""


IDENTITY_NOT_PROVED = 'which model answers is not proved (identity = "none")'


@dataclass(frozen=True, slots=True)
class AlsoServed:
    """An endpoint elsewhere that serves the same model: another Stoker, or any with a compatible API."""

    base_url: str
    name: str
    """Its replica is named `SERVE@NAME`."""
    model: str = ""
    """The model's name there; empty: the serve's `served_name`."""
    key: Secret | None = None
    key_header: str = "authorization"
    max_active: int | None = None
    """Most requests that Stoker sends there at the same time; None: as the serve."""
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


@dataclass(frozen=True, slots=True)
class Requires:
    """What has to be installed or present before the serve starts; checked before another one is stopped for it."""

    files: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    """Package name to version specifier (`">=0.8,<0.9"`), looked up in `python`'s environment."""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """How an engine runs its model. Each engine's adapter writes it as that engine's options. None: the engine's
    default.
    """

    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    memory_fraction: float | None = None
    """Share of each device's memory that the engine may take, above 0 up to 1."""
    batched_tokens: int | None = None
    """Tokens that one step processes, at most."""
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_type: str | None = None
    attention_backend: tuple[str, ...] = ()
    """In order of preference: the first one whose dependencies are installed is used."""
    prefix_caching: bool | None = None
    graphs: bool | None = None
    """CUDA graphs and compilation."""
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: str | None = None
    thinking: bool | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)
    """Defaults for the settings that a request leaves out: `temperature`, `top_p`, `top_k`, `min_p`,
    `repetition_penalty`.
    """
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
    """Dialects that it speaks badly: requests in them are translated nevertheless."""
    cloud: bool = False
    """The serve is a cloud: it accepts no settings of local engines, and only thinking that it signed itself."""
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
    """A set of devices, or a share of a cluster. Holds one serve at a time; with `memory` as many as fit, with
    `together` those of one set.
    """

    name: str
    devices: tuple[str, ...] = ()
    cluster: str | None = None
    """The cluster whose GPUs it is; None: this machine's."""
    gpus: int = 1
    """How many GPUs of one node, in a cluster."""
    node: Mapping[str, str] = field(default_factory=dict)
    """Labels that this node has, in a cluster; empty: any node."""
    memory: int | None = None
    together: tuple[frozenset[str], ...] = ()
    """The sets of serves that may be loaded at the same time, in whole or in part; empty: `memory` alone decides."""
    baseline: str | None = None
    """The serve to start if a start failed and restoring the previous resident failed, too."""
    idle_serve: str | None = None
    """The serve that the slot returns to when it was idle for `idle_serve_after` seconds."""
    idle_serve_after: float = 60.0
    swap: SwapPolicy = SwapPolicy()

    def allows(self, names: Collection[str]) -> bool:
        """Whether `together` permits these serves to be loaded at the same time. Says nothing about memory."""
        return len(names) < 2 or not self.together or any(group.issuperset(names) for group in self.together)

    def can_hold(self, names: Collection[str]) -> bool:
        """Whether these serves may be loaded at the same time, if their sizes permit it."""
        return len(names) < 2 or ((self.memory is not None or bool(self.together)) and self.allows(names))


IN_PLACE = frozenset(
    ("aliases", "alias_patterns", "replicas", "min_replicas", "max_active", "queue", "queue_timeout", "idle_unload",
     "first_byte_timeout", "keep_loaded", "status", "reason", "purpose", "ready_timeout", "stop_grace", "conflicts",
     "modalities", "fallback", "fallback_on", "warm", "source", "sha256", "min_tokens_per_second", "translation",
     "from_tier", "auto_context", "context_problem", "title", "description", "metadata", "listed", "preload",
     "evict_cost", "request", "variants", "is_served_name_public")
)  # fmt: skip
"""Fields of a Serve that may change while it runs: a reload does not restart it for them."""


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
class ServeVariant:
    """Another model name of a serve, for the same process with other request parameters."""

    name: str
    request: RequestParameters = NO_PARAMETERS
    """They apply after the serve's own."""
    title: str = ""
    description: str = ""
    """Empty: that of the serve."""
    listed: bool | None = None
    """None: as the serve."""


@dataclass(frozen=True, slots=True)
class Serve:
    """A configured serve: one model, and one way to run it."""

    name: str
    engine: str = "llama.cpp"
    """`llama.cpp`, `vllm`, `sglang`, or `openai` (anything that speaks an OpenAI-like API)."""
    model: str = ""
    """For llama.cpp the absolute path of the weights; else whatever `{model}` stands for in `cmd`."""
    served_name: str = ""
    """The model name that the engine's /v1/models must show, and that Stoker writes into requests to it."""
    aliases: tuple[str, ...] = ()
    """Further model names, without wildcards."""
    alias_patterns: tuple[str, ...] = ()
    """Aliases with wildcards. They are no names: lists of models do not show them."""
    slot: str | None = None
    """None: the serve shares no slot with another one. With several `slots`: the first."""
    slots: tuple[str, ...] = ()
    """The slots that it may run in, if there are several: see `replicas_of`."""
    replicas: int = 1
    """With several `slots`: how many processes of it may run at the same time."""
    min_replicas: int = 0
    """How many of them are kept loaded, wherever there is room."""
    also: tuple[AlsoServed, ...] = ()
    """Where else it is served."""
    replica_of: str = ""
    """The configured serve of which this is one replica; empty: it is the configured one."""
    context: int | None = None
    """Tokens that one request may use."""
    auto_context: bool = False
    """`context = "auto"`: `context` is what was chosen, or None as long as the weights are missing."""
    context_problem: str = ""
    """Why no context could be chosen, and what to do; empty: no problem."""
    parallel: int = 4
    max_active: int = 4
    queue: int = 64
    queue_timeout: float = 30.0
    first_byte_timeout: float | None = None
    """Seconds from sending a request to the first byte of its answer; 0: no limit; None: follows measurements."""
    status: Status = Status.PRODUCTION
    reason: str = ""
    purpose: str = ""
    title: str = ""
    """Its name for people; empty: it has none of its own."""
    description: str = ""
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """For clients, in lists of models; Stoker reads nothing in it."""
    listed: bool = True
    """Whether lists of models have its names."""
    request: RequestParameters = NO_PARAMETERS
    variants: tuple[ServeVariant, ...] = ()
    modalities: tuple[str, ...] = ("text",)
    driver: Driver = Driver.PROCESS
    cmd: tuple[str, ...] | None = None
    """Argument list; `{port}`, `{model}`, `{dir}`, `{host}`, `{name}` and `{key}` are filled in."""
    host: str = "127.0.0.1"
    port: int | None = None
    """None: each start picks a free one."""
    base_path: str = ""
    """The path before `/v1/...`, `health` and every other path of a started serve; without a trailing slash."""
    identity: ServeIdentity = ServeIdentity.MODELS
    health: str | None = "/health"
    """What answers 200 when the engine is up; None: nothing does, and a start asks `probe` or waits for the port."""
    probe: str | None = None
    """With identity `none`: what is asked of a ready serve, too. None: `health`."""
    canary: bool = False
    """Whether the serve is ready only after it has answered a completion of one token, too."""
    base_url: str | None = None
    """External serves: `http://host:port/v1`."""
    key: Secret | None = None
    key_header: str = "authorization"
    """Which header carries the key: `authorization` (as a bearer) or `x-api-key`."""
    dialects: frozenset[Dialect] = TEXT
    asks_dialects: bool = False
    """The file does not say which dialects the serve speaks: `dialects` is the usual set of its engine, and a ready
    serve is tested for them.
    """
    translation: Translation = Translation()
    memory: int | None = None
    keep_loaded: bool = False
    preload: bool = False
    evict_cost: float | None = None
    """What stopping it costs, in comparison with others of its slot; None: the seconds of its measured swap."""
    """Loaded at the start, if nothing has to be stopped for it."""
    idle_unload: float | None = None
    ready_timeout: float = 600.0
    stop: tuple[str, ...] | None = None
    """What is run to stop the process, before any signal; None: SIGTERM is sent."""
    stop_grace: float = 10.0
    env: Mapping[str, str] = field(default_factory=dict)
    extra_args: tuple[str, ...] = ()
    threads: int | None = None
    gpu_layers: int | None = None
    requires: Requires = Requires()
    conflicts: tuple[str, ...] = ()
    cwd: str = ""
    """The absolute path of the directory in which its commands run; empty: `directory`."""
    inherit_env: tuple[str, ...] = ()
    """Variables of Stoker's environment that its process gets besides the usual ones; `*`: all but secrets."""
    directory: str = "."
    """Absolute path of the configuration file's directory: `{dir}`, and the working directory of the process."""
    embedded: bool | None = None
    """llama.cpp: True = the xllamacpp wheel, False = llama-server from PATH, None = PATH first."""
    die_with_parent: bool = False
    """Whether the engine ends with Stoker, even if Stoker is killed. Only for the demo's engines."""
    tuning: Tuning = Tuning()
    container: str | None = None
    """Driver `compose`: the container's name."""
    up: tuple[str, ...] | None = None
    """Driver `compose`: the command that creates the container; `{dir}`, `{port}`, `{model}` are filled in."""
    unit: str | None = None
    """Driver `systemd`: the unit's name."""
    job_place: JobPlace | None = None
    """Driver `ray`: where its job runs."""
    fallback: str | None = None
    """The serve that answers if this one cannot, for one of the causes in `fallback_on`."""
    fallback_on: tuple[FallbackCause, ...] = (FallbackCause.MEMORY,)
    warm: Warmth = Warmth.AUTO
    sleep_level: int | None = None
    """vLLM: 1 moves the weights to host memory, 2 drops them. SGLang: 1. None: the serve is stopped instead of put to
    sleep.
    """
    keep_conversations: bool = False
    """llama.cpp: the KV cache of conversations is saved before a stop and restored after the next start."""
    min_tokens_per_second: float | None = None
    """The expected rate of a streamed reply after its first token; `stoker watchdog` reports a lower one."""
    source: str | None = None
    """Where missing weights are fetched from: a path, `https://…`, `rsync:HOST:PATH`, `s3://BUCKET/KEY`, `hf:ORG/REPO`.
    """
    sha256: Mapping[str, str] = field(default_factory=dict)
    """The required hex digest of each file, by the file name of `model` or of one of its parts."""

    from_tier: bool = False
    """The serve was made from a cloud tier."""
    is_served_name_public: bool = True
    """Whether clients may ask for it by its served name, because that means nothing else."""

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
        """Whether a serve that runs as `other` need not restart for this configuration: see IN_PLACE.

        A context that was chosen at the start, when the weights arrived, is no change.
        """
        if self.auto_context and other.auto_context and None in (self.context, other.context):
            return replace(self, context=other.context)._launches_like(other)
        return self._launches_like(other)

    def _launches_like(self, other: Serve) -> bool:
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(self) if f.name not in IN_PLACE)

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


def slots_of(slot: str) -> tuple[str, ...]:
    """The slots that a serve's `slot` names: one, or several that it takes at the same time (`gpu0+gpu1`)."""
    return tuple(slot.split("+"))


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
    return Serve(
        name=replica_name(name, there.name), engine="openai", served_name=there.model or own.served_name,
        driver=Driver.EXTERNAL, base_url=there.base_url, key=there.key, key_header=there.key_header, health=None,
        replica_of=name, max_active=there.max_active or own.max_active, queue=own.queue, dialects=own.dialects,
        queue_timeout=own.queue_timeout, first_byte_timeout=own.first_byte_timeout, context=own.context,
        replicas=own.replicas, status=own.status, reason=own.reason, modalities=own.modalities,
        translation=replace(own.translation, cloud=there.is_cloud),
    )  # fmt: skip


def on_devices(serve: Serve, slot: Slot | None) -> Serve:
    """The serve, restricted to its slot's devices by environment variables, unless its own `env` sets them.

    No slot, and one without devices, changes nothing.
    """
    if slot is None or not slot.devices:
        return serve
    listed = ",".join(slot.devices)
    visible = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": listed, "HIP_VISIBLE_DEVICES": listed}
    return replace(serve, env={**visible, **serve.env})
