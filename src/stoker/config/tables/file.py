"""What may stand in `stoker.toml`. Every key is optional here: what must be there is a rule, with a line of its own.

Defaults are written as they would be in the file, so that the JSON schema shows them that way.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from stoker.config.tables.gates import AliasRow, GateTable
from stoker.config.tables.media import MediaTable
from stoker.config.tables.router import RouterTable, TierTable
from stoker.config.tables.section import Section, setting
from stoker.config.tables.translation import TranslationTable
from stoker.config.tables.value_types import (
    Argument,
    AuthWord,
    AutoDuration,
    AutoSize,
    BaseUrl,
    Command,
    Count,
    Devices,
    DialectWord,
    DriverWord,
    Duration,
    Engine,
    KeyHeaderWord,
    LegacyWord,
    Name,
    NeverDuration,
    Origin,
    PathPrefix,
    Port,
    Rendezvous,
    ScopeWord,
    ServedName,
    Sha256,
    Share,
    Size,
    SlashPath,
    SomeDuration,
    Source,
    StatusWord,
    Text,
    UpstreamErrorsWord,
    Variable,
    VariableName,
    WarmthWord,
)


class KeyTable(Section):
    """A caller's key."""

    name: Name | None = setting(None, "Required. What logs, metrics and decisions call this key.")
    value: Text | None = setting(
        None, "Required. `env:NAME` or `file:PATH`; the key itself never stands in this file. At least 16 characters."
    )
    scope: ScopeWord = setting("inference", "What the key permits; each scope includes the ones before it.")
    max_active: Count | None = setting(None, "Requests that it may have in flight; no bound of its own if left out.")
    models: list[Text] = setting(["*"], 'Names that it may ask for and sees listed; `"*"` is all of them.')
    legacy: LegacyWord | None = setting(
        None, "Requests of Ollama's API: `answer` or `refuse`. Default: as `[front_door]`."
    )
    cloud: bool = setting(True, "Whether its requests may go to clouds.")


class FrontDoorTable(Section):
    """Where Stoker listens and whom it lets in."""

    host: Text = setting(
        "127.0.0.1", 'Address to listen on. Beyond loopback needs `keys`, or an explicit `auth = "none"`.'
    )
    port: Port = setting(8000, "Port to listen on.")
    prefixes: list[PathPrefix] = setting([], 'Paths under which the API is served too: `"/llm"` gives `/llm/v1/…`.')
    body_limit: Size = setting("32MiB", "Largest request body; above it the answer is 413.")
    body_budget: AutoSize = setting(
        "auto",
        "All request bodies held at once; above it the answer is 503. Auto: a tenth of the machine's memory, at least "
        "64 MiB.",
    )
    max_messages: Count = setting(
        10_000, "Longest list of messages, input items, prompts or documents in a request; above it the answer is 413."
    )
    max_tools: Count = setting(1_000, "Most tools in a request; above it the answer is 413.")
    max_values: Count = setting(500_000, "Most JSON values in a request, at any depth; above it the answer is 413.")
    commit_after: Duration = setting(
        "45s", "Silence after which a streamed request gets its 200 and keep-alive pings; `0s` = never."
    )
    stall_timeout: Duration = setting(
        "5m", "Silence of a serve, after its first byte, that ends the stream with an error; `0s` = never."
    )
    keep_alive: SomeDuration = setting("15s", "Time between pings in a stream that is open and silent.")
    auth: AuthWord = setting("keys", "`none` admits every caller, even if `keys` are given.")
    keys: list[KeyTable] = setting([], "Callers' keys. Without any, loopback needs no key.")
    allowed_hosts: list[Text] = setting(
        [], "Values of the `Host` header, without port, to accept beside loopback names."
    )
    allowed_origins: list[Origin] = setting(
        [], 'Origins whose web pages may use the API: `"https://chat.example.com"`.'
    )
    legacy: LegacyWord = setting(
        "answer", "Requests of Ollama's API: `answer`, or `refuse` with what to use instead. Each is counted."
    )
    upstream_errors: UpstreamErrorsWord = setting(
        "show",
        "What a serve says about its failure: `show` it to the client, shortened and without secrets, or `hide`.",
    )
    shutdown_grace: Duration = setting("30s", "Time that streams in flight get to end after SIGTERM.")


class PathsTable(Section):
    """Where files live. Relative paths are relative to the configuration file."""

    state: Text | None = setting(
        None, "Lock, socket, decisions. Default: `$XDG_STATE_HOME/stoker` or `~/.local/state/stoker`."
    )
    logs: Text | None = setting(None, "One log per serve. Default: `logs` under the state directory.")
    vault: Text | None = setting(None, "Where `vault:NAME` models lie. Default: `~/.local/share/stoker/vault`.")
    decisions: Count = setting(10_000, "Decision records kept.")
    log_bytes: Size = setting("10MiB", "Log kept per serve before it is rotated; one old file is kept.")
    placement: bool | None = setting(
        None, "Weights and caches only under the vault; anything else is refused. Default: true once `vault` is given."
    )


class SwapTable(Section):
    """How a slot changes its resident. `auto` follows the measured swap time S."""

    patience: Annotated[float, Field(ge=0, le=1000)] = setting(
        2.0, "Throughput (higher) against waiting (lower), in measured swap times."
    )
    min_residency: AutoDuration = setting("auto", "A resident keeps its place at least this long. Auto: patience × S.")
    linger: AutoDuration = setting("auto", "A resident may go once it has been idle this long. Auto: S/4, at most 2 s.")
    max_wait: AutoDuration = setting(
        "auto", "A request this old overrides both. Auto: 2 × patience × S, at least 15 s."
    )
    swap_after: Count = setting(8, "A queue of this length overrides both, too.")
    drain_timeout: Duration = setting("30s", "Time that streams of a serve that must go get to end; `0s` cuts at once.")
    swap_timeout: AutoDuration = setting(
        "auto", "Longest wait for a load or a swap. Auto: follows `max_wait` and the start time."
    )


class SlotTable(Section):
    """A set of devices that serves share."""

    devices: Devices = setting([], "Device numbers or ids that serves of this slot see.")
    memory: Size | None = setting(None, "Without it one serve at a time lives here; with it, as many as fit.")
    baseline: Name | None = setting(
        None, "The known-good serve to come back to when a switch and its rollback both failed."
    )
    swap: SwapTable | None = setting(None, "Any key of `[swap]`, for this slot alone: `[slots.NAME.swap]`.")


class RequiresTable(Section):
    """What must be there before a running model is touched."""

    files: list[Text] = setting([], "Files that must exist.")
    packages: dict[str, Text] = setting({}, 'Python packages and their versions: `{ transformers = ">=5,<6" }`.')
    commands: list[Text] = setting([], "Commands that must be on PATH.")


class ServeTable(Section):
    """One model, one way to run it."""

    name: Name | None = setting(None, "Required. The logical name: letters, digits, `.`, `_` and `-`.")
    extends: Name | None = setting(None, "Another serve whose keys hold here unless they are given here too.")
    abstract: bool = setting(False, "Only a parent for `extends`; it cannot be asked for and need not be complete.")
    engine: Engine | None = setting(
        None,
        "`llama.cpp`, `vllm`, `sglang`, or `openai` for anything with an OpenAI-like API. "
        "Default: `llama.cpp`; with a `base_url` or a `container`, `openai`.",
    )
    model: Text | None = setting(
        None,
        "Path of the weights (relative to this file, or `~/…`) or `vault:NAME`; with vllm and sglang also a hub id; "
        "with engine `openai`, any text.",
    )
    served_name: ServedName | None = setting(
        None,
        "The id that the engine must show in `/v1/models`. Default: `name`; of a container that gives a `model`, that.",
    )
    aliases: list[ServedName] = setting([], "Further model names that mean this serve.")
    slot: Name | None = setting(None, "The slot that it lives in. Left out: it shares with nobody and needs no swap.")
    context: Count | None = setting(None, "Tokens that one request may use; llama.cpp gets this times `parallel`.")
    parallel: Annotated[int, Field(ge=1, le=4096)] = setting(4, "Sequences that the engine runs at once.")
    max_active: Count | None = setting(None, "Requests in flight at most. Default: `parallel`.")
    queue: Annotated[int, Field(ge=0, le=1_000_000)] = setting(
        64, "Requests that may wait for a place; beyond it, 503."
    )
    queue_timeout: Duration = setting(
        "30s", "How long one may wait for a place; `0s` answers 503 at once. Not for loads."
    )
    status: StatusWord = setting(
        "production",
        "`production`, `baseline`, `research`, `experiment`, `rejected-WHY` or `blocked-WHY`; "
        "the last two need `--force`.",
    )
    reason: Text | None = setting(None, "Why it has this status. Default: what follows the dash in `status`.")
    purpose: Text | None = setting(None, "What it is for; shown in status.")
    modalities: list[Name] = setting(["text"], "What it takes in; shown in status.")
    driver: DriverWord | None = setting(
        None,
        "`process`: Stoker starts and stops it. `compose`: a container. `systemd`: a unit. `external`: it runs by "
        "itself. Default: `external` with a `base_url`, `compose` with a `container`, else `process`.",
    )
    cmd: Command | None = setting(
        None,
        "Command instead of the engine's own, as one text or a list; never through a shell. `{port}`, `{model}`, "
        "`{dir}`, `{host}`, `{name}` and `{key}` are filled in.",
    )
    host: Text = setting("127.0.0.1", "Address that the engine listens on.")
    port: Port | None = setting(None, "Port that the engine listens on. Left out: a free one at each start.")
    health: SlashPath = setting("/health", "Path that answers 200 once the engine is up.")
    canary: bool = setting(False, "Ready only after a one-token completion was answered too.")
    base_url: BaseUrl | None = setting(None, 'Where an external serve answers: `"http://10.0.0.7:30000/v1"`.')
    key: Text | None = setting(None, "The key that the serve wants: `env:NAME` or `file:PATH`.")
    dialects: list[DialectWord] | None = setting(
        None,
        "What it speaks. Default: `chat`, `completions`, `messages`, `responses`, with vllm and sglang `embeddings` "
        "and `rerank` too; openai `chat`, `completions`.",
    )
    key_header: KeyHeaderWord | None = setting(
        None,
        "Which header carries `key`: `authorization` (as a bearer) or `x-api-key`. Default: `x-api-key` for a serve "
        "that speaks `messages` alone.",
    )
    translation: TranslationTable = setting(TranslationTable(), "How other dialects are written for it.")
    memory: Size | None = setting(None, "Its share of the slot's `memory`; required if the slot has one.")
    keep_loaded: bool = setting(False, "Started at once and never swapped out.")
    idle_unload: NeverDuration = setting("never", "Stopped after this long without a request.")
    ready_timeout: SomeDuration = setting("10m", "How long a start may take.")
    stop_grace: Duration = setting("10s", "Time from SIGTERM to SIGKILL.")
    env: dict[VariableName, Variable] = setting({}, "Environment variables for the process. Not for secrets.")
    extra_args: list[Argument] = setting([], "Arguments after the engine's own.")
    threads: Count | None = setting(None, "CPU threads. Left out: the engine's choice.")
    gpu_layers: Annotated[int, Field(ge=0, le=100_000)] | None = setting(
        None, "Layers on the GPU. Left out: the engine's choice."
    )
    requires: RequiresTable = setting(RequiresTable(), "Files, packages and commands without which it is not started.")
    conflicts: list[Text] = setting(
        [],
        "What cannot run beside it: `unit:NAME`, `container:NAME` (stopped and disabled before it starts), or a "
        "program's name (a start is refused while it runs).",
    )
    embedded: bool | None = setting(
        None, "llama.cpp: true = the built-in one, false = `llama-server` from PATH. Left out: PATH first."
    )
    container: Name | None = setting(None, "The container that runs it; Docker Compose or any other `up`.")
    up: Command | None = setting(
        None, "Command that creates the container, without a shell; filled in like `cmd`. Needed once it is missing."
    )
    unit: Text | None = setting(None, "The systemd unit that runs it. Default: `stoker-serve-NAME.service`.")
    fallback: Name | None = setting(None, "The serve that answers instead when this one runs out of memory.")
    warm: WarmthWord = setting(
        "auto", "Whether it stays in host memory when it leaves its slot: `auto`, `pin` (always), `never`."
    )
    sleep_level: Annotated[int, Field(ge=1, le=2)] | None = setting(
        None, "Sleeps instead of stopping: vllm 1 (weights to host memory) or 2 (weights dropped); sglang 1."
    )
    keep_conversations: bool = setting(
        False, "llama.cpp: conversations survive a swap; their KV cache is saved to disk, which holds prompt content."
    )
    min_tokens_per_second: Annotated[float, Field(gt=0, le=1_000_000)] | None = setting(
        None, "What streamed replies should reach; `stoker watchdog --once` fails for a serve that is slower."
    )
    source: Source | None = setting(
        None,
        "Where missing weights come from: a path, `https://…`, `rsync:HOST:PATH`, `s3://BUCKET/KEY` or "
        "`hf:ORG/REPO[/FILE]`.",
    )
    sha256: dict[str, Sha256] = setting({}, "Digest that each file of the weights must have: `{ NAME = DIGEST }`.")
    tensor_parallel: Count | None = setting(None, "Devices that share each layer.")
    pipeline_parallel: Count | None = setting(None, "Devices that share the layers among them.")
    memory_fraction: Share | None = setting(None, "Share of each device's memory that the engine may take.")
    batched_tokens: Count | None = setting(None, "Tokens that one step works on at most.")
    dtype: Text | None = setting(None, "Type of the weights in memory: `bfloat16`, `float16`.")
    quantization: Text | None = setting(None, "Quantisation of the weights: `awq`, `fp8`.")
    kv_cache_type: Text | None = setting(None, "Type of the KV cache: `q8_0` (llama.cpp), `fp8`.")
    attention_backend: list[Text] = setting([], "Attention backends in order of preference; the first that can run.")
    prefix_caching: bool | None = setting(None, "Whether prompts' common beginnings are kept.")
    graphs: bool | None = setting(None, "Whether CUDA graphs and compilation are used.")
    tool_parser: Text | None = setting(None, "How tool calls are read from the model's text.")
    reasoning_parser: Text | None = setting(None, "How thinking is read from the model's text.")
    chat_template: Text | None = setting(None, "Chat template instead of the model's own: a file, or a known name.")
    thinking: bool | None = setting(None, "Whether the model thinks before it answers, where it can be switched.")
    sampling: dict[str, float] = setting(
        {}, "Defaults for what a request leaves out: `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty`."
    )
    rendezvous: Rendezvous | None = setting(None, "`HOST:PORT` at which the parts of one engine find each other.")
    trust_remote_code: bool = setting(False, "Run code that comes with the model. It may do anything.")
    metrics: bool = setting(True, "Whether the engine's own metrics are on; the watchdog reads progress from them.")


class WarmTable(Section):
    """What may stay in host memory for models that are in no slot."""

    memory: AutoSize = setting("auto", "Bytes at most; `0B` = nothing. Auto: half of what is free when Stoker starts.")
    predict: bool = setting(True, "Bring the model that is likely to be wanted next into memory ahead of time.")


class WatchdogTable(Section):
    """When a serve counts as wedged, and how often it is started again."""

    interval: Duration = setting("10s", "Time between two proofs of a ready serve; `0s` = none.")
    stall: SomeDuration = setting("2m", "Time without progress, while requests are in flight, that means wedged.")
    restarts: Count = setting(5, "Restarts within `window`, after which the serve is parked.")
    window: SomeDuration = setting("10m", "See `restarts`.")


class ConversationsTable(Section):
    """The saved KV caches of serves with `keep_conversations`."""

    budget: Size = setting("4GiB", "Disk space at most; the longest unused goes first.")
    age: SomeDuration = setting("24h", "Removed after this long without use.")
    save_within: SomeDuration = setting("500ms", "Saving may delay the next serve's start by this much.")


class File(Section):
    """The whole file."""

    front_door: FrontDoorTable = setting(FrontDoorTable(), "Address, limits and keys of the one endpoint.")
    paths: PathsTable = setting(PathsTable(), "Where state, logs and models lie.")
    slots: dict[str, SlotTable] = setting({}, "Sets of devices that serves share: `[slots.NAME]`.")
    swap: SwapTable = setting(SwapTable(), "How slots change their residents.")
    serve: list[ServeTable] = setting([], "What may run: one `[[serve]]` each.")
    warm: WarmTable = setting(WarmTable(), "What stays in host memory for models that are in no slot.")
    watchdog: WatchdogTable = setting(WatchdogTable(), "When a serve counts as wedged, and how often it is restarted.")
    conversations: ConversationsTable = setting(ConversationsTable(), "Saved KV caches.")
    gate: dict[str, GateTable] = setting({}, "What a model has to prove: `[gate.NAME]`.")
    alias: dict[str, AliasRow] = setting(
        {}, 'Names that a promotion moves from serve to serve: `[alias.NAME]`; or that name a task: `fast = "auto"`.'
    )
    media: MediaTable = setting(MediaTable(), "Images that requests give by their address.")
    router: RouterTable = setting(RouterTable(), "How a request that names a task instead of a model is routed.")
    tier: list[TierTable] = setting([], "Ways to have a task done, the cheapest first: one `[[tier]]` each.")
