"""The keys of `stoker.toml`. Every key is optional here; the rules name the line where a required one is missing.

Defaults are written as they would be in the file, so that the JSON schema shows them that way.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from stoker.config.tables.also import AlsoTable
from stoker.config.tables.cluster import ClusterTable
from stoker.config.tables.compat import CompatTable
from stoker.config.tables.edge import EdgeTable
from stoker.config.tables.gates import AliasRow, GateTable
from stoker.config.tables.keys import AppTable, KeyTable
from stoker.config.tables.media import MediaTable
from stoker.config.tables.orchestrator import OrchestratorTable
from stoker.config.tables.replicas import Replicas
from stoker.config.tables.request import RequestTable, VariantTable
from stoker.config.tables.responses import ResponsesTable
from stoker.config.tables.router import RouterTable, TierTable
from stoker.config.tables.section import Section, setting
from stoker.config.tables.telemetry import TelemetryTable
from stoker.config.tables.tls import TlsTable
from stoker.config.tables.translation import TranslationTable
from stoker.config.tables.value_types import (
    Argument,
    AuthWord,
    AutoCount,
    AutoDuration,
    AutoSize,
    BasePath,
    Command,
    Count,
    Devices,
    DialectWord,
    DriverWord,
    Duration,
    Engine,
    FallbackWord,
    HealthPath,
    IdentityWord,
    KeyHeaderWord,
    LoadingWord,
    Name,
    NeverDuration,
    OllamaWord,
    Origin,
    PathPrefix,
    Place,
    Port,
    ProxyNetwork,
    Rendezvous,
    ServedName,
    ServeUrl,
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
from stoker.engines.registry import those


class FrontDoorTable(Section):
    """Where Stoker listens, and who may use it."""

    host: Text = setting(
        "127.0.0.1", 'Address to listen on. Any address but loopback needs `keys`, or `auth = "none"`.'
    )
    port: Port = setting(8000, "Port to listen on.")
    prefixes: list[PathPrefix] = setting(
        [], 'Path prefixes below which everything is found again: with `"/llm"` also `/llm/v1/…` and `/llm/ui/`.'
    )
    body_limit: Size = setting("32MiB", "Largest request body. A larger one gets 413.")
    upload_limit: Size = setting(
        "200MiB", "Largest form with files (audio, images). Beyond 1 MiB it is kept in a file of the state directory."
    )
    body_budget: AutoSize = setting(
        "auto",
        "Memory for all request bodies together. Beyond it, requests get 503. Auto: a tenth of the machine's memory, "
        "at least "
        "64 MiB.",
    )
    queue_bytes: Size | None = setting(
        None,
        "Memory for the bodies of all requests that wait for a place or a load. Beyond it, a request that would have "
        "to wait gets 503. Left out: only `body_budget` counts.",
    )
    max_messages: Count = setting(
        10_000, "Longest list of messages, input items, prompts or documents in a request. A longer one gets 413."
    )
    max_tools: Count = setting(1_000, "Most tools in a request. More get 413.")
    max_values: Count = setting(500_000, "Most JSON values in a request, at any depth. More get 413.")
    commit_after: Duration = setting(
        "45s", "Time after which a waiting streamed request gets its 200 and keep-alive pings. `0s`: never."
    )
    stall_timeout: Duration = setting(
        "5m", "Time without data, after the first byte, that ends a stream with an error. `0s`: never."
    )
    keep_alive: SomeDuration = setting("15s", "Time between keep-alive pings in a silent stream.")
    loading: LoadingWord = setting(
        "ping",
        "What a streaming client gets while its model loads. `ping`: pings, after `commit_after`. `reasoning`: chat "
        "streams get lines of thinking that say how far the load is; other dialects get pings. `off`: nothing until "
        "the engine's first byte.",
    )
    auth: AuthWord | None = setting(
        None,
        "`keys`: callers need a key, from this file or made by `stoker keys create`. `none`: everybody who reaches the "
        "port is admitted. Left out: callers need a key as soon as there is one.",
    )
    keys: list[KeyTable] = setting([], "The keys of callers. If there are none, callers on loopback need no key.")
    allowed_hosts: list[Text] = setting(
        [], "Values of the `Host` header, without port, that are accepted besides loopback names."
    )
    allowed_origins: list[Origin] = setting(
        [], 'Origins whose web pages may use the API: `"https://chat.example.com"`.'
    )
    trusted_proxies: list[ProxyNetwork] = setting(
        [],
        "Addresses and networks of proxies whose `X-Forwarded-For`, `-Proto`, `-Host` and `-Prefix` are believed: "
        '`"10.0.0.0/8"`. `"*"`: everybody, only where `host` is loopback.',
    )
    list_aliases: bool = setting(True, "Whether lists of models have aliases, too. They are answered in any case.")
    ollama_api: OllamaWord = setting(
        "answer", "Requests to Ollama's API: `answer`, or `refuse` with a hint at what to use instead."
    )
    upstream_errors: UpstreamErrorsWord = setting(
        "show",
        "An engine's own error message: `show` it to the client, shortened and without secrets, or `hide` it.",
    )
    shutdown_grace: Duration = setting("30s", "How long running requests may take to end after SIGTERM.")
    tls: TlsTable | None = setting(None, "The certificate, for HTTPS: `[front_door.tls]`. Left out: plain HTTP.")


class PathsTable(Section):
    """Where files live. Relative paths are relative to the configuration file."""

    state: Text | None = setting(
        None, "State directory: lock, socket, decisions. Default: `$XDG_STATE_HOME/stoker` or `~/.local/state/stoker`."
    )
    logs: Text | None = setting(None, "Directory for one log per serve. Default: `logs` in the state directory.")
    vault: Text | None = setting(None, "Directory of `vault:NAME` models. Default: `~/.local/share/stoker/vault`.")
    decisions: Count = setting(10_000, "How many decision records are kept.")
    usage_days: Count = setting(400, "How many days usage is kept: `stoker usage`.")
    log_bytes: Size = setting("10MiB", "Size at which a serve's log is rotated. One old file is kept.")
    placement: bool | None = setting(
        None, "Whether weights and caches must be in the vault. Default: true if `vault` is given."
    )


class SwapTable(Section):
    """How a slot swaps its resident. `auto` follows the measured swap time S."""

    patience: Annotated[float, Field(ge=0, le=1000)] = setting(
        2.0, "Dial between throughput (higher) and short waits (lower), in units of the measured swap time S."
    )
    min_residency: AutoDuration = setting(
        "auto",
        "How long a resident stays at least. Auto: while it is in use, patience × its S; an idle one only lingers.",
    )
    linger: AutoDuration = setting(
        "auto",
        "How long an idle resident is kept before another serve may replace it. Auto: as long as that costs the "
        "waiting requests less than bringing it back, by its S.",
    )
    max_wait: AutoDuration = setting(
        "auto", "Waiting time of a request that overrides both. Auto: 2 × patience × S of its model, at least 15 s."
    )
    swap_after: Count = setting(8, "Number of waiting requests that overrides both, too.")
    drain_timeout: Duration = setting(
        "30s", "How long requests of a serve that must stop may take to end. `0s`: they are cut at once."
    )
    swap_timeout: AutoDuration = setting(
        "auto", "How long a request may wait for a load or a swap. Auto: derived from `max_wait` and the start time."
    )


class SlotTable(Section):
    """A set of devices that serves share, or a share of a cluster."""

    devices: Devices = setting(
        [],
        "Numbers or ids of the devices that serves in this slot may use. Empty: they see all, nothing is restricted.",
    )
    cluster: Name | None = setting(
        None, "The cluster whose GPUs this slot is: a process serve runs there as a job. Left out: this machine."
    )
    gpus: Count = setting(1, "With `cluster`: how many GPUs of one node are reserved for the serve in this slot.")
    node: dict[str, Text] = setting(
        {}, 'With `cluster`: labels that this node has, all of them: `{ box = "alpha" }`. Left out: any node.'
    )
    memory: Size | None = setting(
        None, "Memory of the slot: as many serves as fit run at once. Left out: one serve at a time, or `together`."
    )
    together: list[list[Name]] = setting(
        [],
        'Sets of serves that may be loaded at the same time: `[["a", "c"], ["b", "c"]]`. A part of a set may be, too, '
        "and each serve alone; nothing else. With `memory` both must hold.",
    )
    baseline: Name | None = setting(None, "The known-good serve that is loaded if a switch and its rollback both fail.")
    idle_serve: Name | None = setting(
        None,
        "The serve that the slot returns to when it is idle, after a request used another one. An operator's "
        "`slot switch` or `serves down` cancels the return.",
    )
    idle_serve_after: SomeDuration = setting(
        "60s", "Time without a request in the slot after which it returns to `idle_serve`."
    )
    swap: SwapTable | None = setting(None, "Any key of `[swap]`, for this slot only: `[slots.NAME.swap]`.")


class RequiresTable(Section):
    """What must exist before a swap to this serve begins."""

    files: list[Text] = setting([], "Files that must exist.")
    packages: dict[str, Text] = setting({}, 'Python packages and their versions: `{ transformers = ">=5,<6" }`.')
    commands: list[Text] = setting([], "Commands that must be on PATH.")


class ServeTable(Section):
    """One model, one way to run it."""

    name: Name | None = setting(None, "Required. The logical name: letters, digits, `.`, `_` and `-`.")
    extends: Name | None = setting(None, "A serve whose keys this one inherits. Keys given here override them.")
    abstract: bool = setting(False, "Only a parent for `extends`: it cannot be requested, and need not be complete.")
    engine: Engine | None = setting(
        None,
        f"{', '.join(f'`{name}`' for name in those(lambda engine: engine.launch))}, or `openai` for anything with an "
        "OpenAI-like API. "
        "Default: `llama.cpp`; with a `base_url` or a `container`, `openai`.",
    )
    model: Text | None = setting(
        None,
        "Path of the weights (relative to this file, or `~/…`) or `vault:NAME`; with vllm and sglang also a hub id; "
        "with engine `openai`, any text.",
    )
    served_name: ServedName | None = setting(
        None,
        "The id that the engine must show in `/v1/models`. Default: `name`; for a container with a `model`, the "
        "`model`.",
    )
    aliases: list[ServedName] = setting(
        [], "Further model names that mean this serve, blanks, `:` and `/` included; `*` and `?` are wildcards."
    )
    slot: Place | None = setting(
        None,
        'The slot that it shares with other serves; `"gpu0+gpu1"`: it takes both at the same time. Left out: it shares '
        "with none, and needs no swap.",
    )
    slots: list[Place] = setting(
        [], "Instead of `slot`: the slots that it may run in. It is loaded where there is room, or disturbs least."
    )
    replicas: Replicas = setting(
        1,
        "With `slots`: how many processes of it may run at the same time. In an empty slot one more is started "
        "as soon as requests wait for it, elsewhere when they have waited, all together, `patience` times its swap "
        "time. `{ min = 1, max = 3 }`: so many are kept loaded, wherever there is room.",
    )
    also: list[AlsoTable] = setting(
        [], "Endpoints elsewhere that serve the same model, as further replicas: another Stoker, or any compatible one."
    )
    context: AutoCount | None = setting(
        None,
        "Tokens that one request may use; llama.cpp gets this times `parallel`. `auto` (llama.cpp): as many as fit "
        "into the memory of its slot, at most what the model was trained for.",
    )
    parallel: Annotated[int, Field(ge=1, le=4096)] = setting(4, "How many sequences the engine runs at once.")
    max_active: Count | None = setting(None, "Most requests in flight at this serve, of all keys. Default: `parallel`.")
    queue: Annotated[int, Field(ge=0, le=1_000_000)] = setting(
        64, "Most requests that may wait for a place. More get 503."
    )
    queue_timeout: Duration = setting(
        "30s",
        "How long a request may wait for a place. `0s`: it gets 503 at once. After a load it counts "
        "from the end of the load.",
    )
    first_byte_timeout: Duration | None = setting(
        None,
        "How long the first byte of an answer may take, from sending the request; then its `fallback` is asked, or the "
        "client gets 504. An engine that is known to work on the prompt has more time. `0s`: no limit. Default: five "
        "times its usual time, at least 60 s (120 s until that is known), plus time for the prompt and, if the answer "
        "comes in one piece, for the answer.",
    )
    status: StatusWord = setting(
        "production",
        "`production`, `baseline`, `research`, `experiment`, `rejected-WHY` or `blocked-WHY`; "
        "the last two start only with `--force`.",
    )
    reason: Text | None = setting(None, "Why it has this status. Default: the text after the dash in `status`.")
    purpose: Text | None = setting(None, "What it is for; shown in status.")
    title: Text | None = setting(None, "Its name for people, in lists of models.")
    description: Text | None = setting(None, "What clients show of it in lists of models.")
    metadata: dict[Name, str | int | float | bool] = setting(
        {}, "More for clients: `stoker.metadata` of its entries in `/v1/models`."
    )
    listed: bool = setting(True, "Whether lists of models have its names. It answers to them in any case.")
    request: RequestTable = setting(
        RequestTable(), "What is set in the bodies of its requests: `set`, `default`, `drop`."
    )
    variant: list[VariantTable] = setting(
        [], "Further model names for the same process, each with its own request parameters."
    )
    modalities: list[Name] = setting(["text"], "What kinds of input it takes; shown in status.")
    driver: DriverWord | None = setting(
        None,
        "`process`: Stoker starts and stops it. `compose`: a container. `systemd`: a unit. `external`: something else "
        "runs it. Default: `external` with a `base_url`, `compose` with a `container`, else `process`.",
    )
    cmd: Command | None = setting(
        None,
        "Command to start, instead of the engine's own: text or a list, never through a shell. `{port}`, `{model}`, "
        "`{dir}`, `{host}`, `{name}` and `{key}` are filled in.",
    )
    host: Text = setting("127.0.0.1", "Address that the engine listens on.")
    port: Port | None = setting(None, "Port that the engine listens on. Left out: a free one at each start.")
    base_path: BasePath = setting(
        "", 'Path before all paths of the engine, `/v1/…` and `health` too: `"/llm"` for `--api-prefix /llm`.'
    )
    identity: IdentityWord = setting(
        "models",
        "What proves that the configured model answers: `models` = its `served_name` in the engine's `/v1/models`; "
        "`none` = nothing does: the engine has no such list, and only `health` or `probe` and its process are checked.",
    )
    health: HealthPath = setting(
        "/health",
        "Path that answers 200 when the engine is up. `none`: it has no such path. Default with a `probe`: `none`.",
    )
    probe: SlashPath | None = setting(
        None,
        'With `identity = "none"`: path that answers 200 when the engine is up, and which the watchdog asks. Default: '
        "`health`; without either, the engine's port has to accept connections.",
    )
    canary: bool = setting(
        False, "Whether a start also has to answer a one-token completion before the serve is ready."
    )
    base_url: ServeUrl | None = setting(
        None, 'Where an external serve answers: `"http://10.0.0.7:30000/v1"`, or `"edge:NAME"`: where `[edge.NAME]` is.'
    )
    key: Text | None = setting(None, "The key for the serve: `env:NAME` or `file:PATH`.")
    dialects: list[DialectWord] | None = setting(
        None,
        "The dialects that it speaks. Default: `chat`, `completions`, `messages`, `responses`, with vllm and sglang "
        "`embeddings` and `rerank` too; openai `chat`, `completions`. `speech`, `transcription` and `image` have to be "
        "given.",
    )
    key_header: KeyHeaderWord | None = setting(
        None,
        "The header for `key`: `authorization` (as a bearer) or `x-api-key`. Default: `x-api-key` for a serve "
        "that speaks `messages` alone.",
    )
    translation: TranslationTable = setting(TranslationTable(), "How requests in other dialects are translated for it.")
    memory: Size | None = setting(None, "Memory that it needs. Required if its slot has `memory`.")
    keep_loaded: bool = setting(
        False,
        "Loaded at the start, and never swapped out: what does not fit beside it is refused. See `preload`.",
    )
    preload: bool = setting(
        False,
        "Loaded at the start, if nothing has to be stopped for it; later it may be swapped out. An `idle_serve` does "
        "not replace it before a request has used it.",
    )
    evict_cost: Annotated[float, Field(gt=0, le=1e9)] | None = setting(
        None,
        "What stopping it costs, in comparison with the other serves of its slot: those with the least total cost are "
        "stopped to make room. Default: the seconds that its swaps take.",
    )
    idle_unload: NeverDuration = setting("never", "Time without a request after which it is stopped.")
    ready_timeout: SomeDuration = setting("10m", "How long a start may take.")
    stop: Command | None = setting(
        None,
        "Command that stops its process, instead of SIGTERM: text or a list, never through a shell, with the "
        "placeholders of `cmd` and `{pid}`. It has `stop_grace`; if the process still runs then, or the command fails, "
        "SIGTERM follows.",
    )
    stop_grace: Duration = setting("10s", "Time between SIGTERM and SIGKILL.")
    env: dict[VariableName, Variable] = setting({}, "Environment variables for the process. Not for secrets.")
    inherit_env: list[VariableName] = setting(
        [],
        "Further variables of Stoker's environment that the process gets, besides `PATH`, `HOME`, `CUDA_...` and the "
        "like. `*`: all but keys, tokens and Stoker's own, which have to be named.",
    )
    cwd: Text | None = setting(
        None, "Directory in which the command, `stop` and `up` run. Default: the directory of this file."
    )
    extra_args: list[Argument] = setting([], "Further arguments for the engine's command.")
    threads: Count | None = setting(None, "CPU threads. Left out: the engine's choice.")
    gpu_layers: Annotated[int, Field(ge=0, le=100_000)] | None = setting(
        None, "Layers on the GPU. Left out: the engine's choice."
    )
    requires: RequiresTable = setting(RequiresTable(), "Files, packages and commands without which it is not started.")
    conflicts: list[Text] = setting(
        [],
        "What cannot run at the same time: `unit:NAME`, `container:NAME` (stopped and disabled before it starts), or a "
        "program's name (a start is refused while it runs).",
    )
    embedded: bool | None = setting(
        None, "llama.cpp: true = the built-in one, false = `llama-server` from PATH. Left out: PATH first."
    )
    container: Name | None = setting(None, "The container that runs it; Docker Compose or any other `up`.")
    up: Command | None = setting(
        None,
        "Command that creates the container, with the placeholders of `cmd`, never through a shell. Needed if the "
        "container may be missing.",
    )
    unit: Text | None = setting(None, "The systemd unit that runs it. Default: `stoker-serve-NAME.service`.")
    fallback: Name | None = setting(None, "The serve that answers instead if this one cannot; see `fallback_on`.")
    fallback_on: list[FallbackWord] = setting(
        ["memory"],
        "When `fallback` answers. `memory`: the serve does not fit on its device, loses it, or has a quantisation that "
        "it cannot run. `unavailable`: it failed, or takes no requests. `busy`: its queue is full, or a request waited "
        "too long.",
    )
    warm: WarmthWord = setting(
        "auto", "Whether its weights stay in host memory after it was swapped out: `auto`, `pin` (always), `never`."
    )
    sleep_level: Annotated[int, Field(ge=1, le=2)] | None = setting(
        None,
        "Put it to sleep instead of stopping it: vllm 1 (weights to host memory) or 2 (weights dropped); sglang 1.",
    )
    keep_conversations: bool = setting(
        False, "llama.cpp: save KV caches to disk, so that conversations survive a swap. The files contain prompts."
    )
    min_tokens_per_second: Annotated[float, Field(gt=0, le=1_000_000)] | None = setting(
        None, "Speed that streamed replies should reach. `stoker watchdog --once` fails for a slower serve."
    )
    source: Source | None = setting(
        None,
        "Where missing weights come from: a path, `https://…`, `rsync:HOST:PATH`, `s3://BUCKET/KEY` or "
        "`hf:ORG/REPO[/FILE]`.",
    )
    sha256: dict[str, Sha256] = setting({}, "Expected digests of the files of the weights: `{ NAME = DIGEST }`.")
    tensor_parallel: Count | None = setting(None, "Number of devices that share each layer.")
    pipeline_parallel: Count | None = setting(None, "Number of devices that the layers are divided among.")
    memory_fraction: Share | None = setting(None, "Share of each device's memory that the engine may take.")
    batched_tokens: Count | None = setting(None, "Most tokens in one step of the engine.")
    dtype: Text | None = setting(None, "Type of the weights in memory: `bfloat16`, `float16`.")
    quantization: Text | None = setting(None, "Quantisation of the weights: `awq`, `fp8`.")
    kv_cache_type: Text | None = setting(None, "Type of the KV cache: `q8_0` (llama.cpp), `fp8`.")
    attention_backend: list[Text] = setting(
        [], "Attention backends in order of preference. The first that can run is used."
    )
    prefix_caching: bool | None = setting(None, "Whether common beginnings of prompts are cached.")
    graphs: bool | None = setting(None, "Whether CUDA graphs and compilation are used.")
    tool_parser: Text | None = setting(None, "The engine's parser for tool calls in the model's text.")
    reasoning_parser: Text | None = setting(None, "The engine's parser for thinking in the model's text.")
    chat_template: Text | None = setting(None, "Chat template instead of the model's own: a file, or a known name.")
    thinking: bool | None = setting(None, "Whether the model thinks before it answers, if that can be switched.")
    sampling: dict[str, float] = setting(
        {},
        "Defaults for parameters that a request leaves out: `temperature`, `top_p`, `top_k`, `min_p`, "
        "`repetition_penalty`.",
    )
    rendezvous: Rendezvous | None = setting(None, "`HOST:PORT` where the processes of one engine find each other.")
    trust_remote_code: bool = setting(False, "Run code that comes with the model. Such code can do anything.")
    metrics: bool = setting(True, "Whether the engine's metrics are on. Stoker reads health and progress from them.")


class WarmTable(Section):
    """Host memory for the weights of models that were swapped out."""

    memory: AutoSize = setting(
        "auto", "Most memory. `0B`: none. Auto: half of the memory that is free when Stoker starts."
    )
    predict: bool = setting(True, "Whether to read the model that is likely to be requested next into memory.")


class WatchdogTable(Section):
    """When a serve counts as hung, and how often it is restarted."""

    interval: Duration = setting(
        "10s", "Time between two checks of a ready serve. `0s`: it is asked nothing; progress is still watched."
    )
    stall: SomeDuration = setting(
        "2m", "Time without progress, with requests in flight, after which a serve counts as hung."
    )
    restarts: Count = setting(5, "Restarts within `window`, after which the serve is parked.")
    window: SomeDuration = setting("10m", "See `restarts`.")


class ConversationsTable(Section):
    """The saved KV caches of serves with `keep_conversations`."""

    budget: Size = setting("4GiB", "Most disk space. The caches unused for longest are deleted first.")
    age: SomeDuration = setting("24h", "Time without use after which a cache is deleted.")
    save_within: SomeDuration = setting("500ms", "How long saving may delay the start of the next serve.")


class File(Section):
    """The whole file."""

    front_door: FrontDoorTable = setting(FrontDoorTable(), "Address, limits and keys of the one endpoint.")
    paths: PathsTable = setting(PathsTable(), "Where state, logs and models lie.")
    slots: dict[str, SlotTable] = setting({}, "Sets of devices that serves share: `[slots.NAME]`.")
    swap: SwapTable = setting(SwapTable(), "How slots swap their residents.")
    serve: list[ServeTable] = setting([], "The model servers: one `[[serve]]` each.")
    warm: WarmTable = setting(WarmTable(), "Host memory for the weights of models that were swapped out.")
    watchdog: WatchdogTable = setting(WatchdogTable(), "When a serve counts as hung, and how often it is restarted.")
    conversations: ConversationsTable = setting(ConversationsTable(), "Saved KV caches.")
    app: dict[str, AppTable] = setting({}, "Applications, with settings and limits for their keys: `[app.NAME]`.")
    gate: dict[str, GateTable] = setting({}, "Conditions for promotions: `[gate.NAME]`.")
    alias: dict[str, AliasRow] = setting(
        {}, 'Names that a promotion can move to another serve: `[alias.NAME]`; or names for routing: `fast = "auto"`.'
    )
    orchestrator: dict[str, OrchestratorTable] = setting(
        {}, "Model names whose answers are written block by block and checked: `[orchestrator.NAME]`."
    )
    edge: dict[str, EdgeTable] = setting(
        {}, "Workers whose address may change, and the ingress that leads to them: `[edge.NAME]`."
    )
    clusters: dict[str, ClusterTable] = setting({}, "Ray clusters whose GPUs slots may name: `[clusters.NAME]`.")
    compat: CompatTable = setting(CompatTable(), "Paths of other programs that are answered.")
    media: MediaTable = setting(MediaTable(), "Images that requests give by URL.")
    responses: ResponsesTable = setting(
        ResponsesTable(), "Responses and conversations that clients of the Responses API store."
    )
    telemetry: TelemetryTable | None = setting(None, "Traces and metrics by OpenTelemetry. Left out: none are sent.")
    router: RouterTable = setting(RouterTable(), "How requests for `auto` are routed.")
    tier: list[TierTable] = setting([], "What routing may choose among, the cheapest first: one `[[tier]]` each.")
