"""The keys of `stoker.toml`. Every key is optional here; the rules name the line where a required one is missing.

Defaults are written as they would be in the file, so that the JSON schema shows them that way.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.config.tables.also import AlsoTable
from stoker.config.tables.cluster import ClusterTable
from stoker.config.tables.compat import CompatTable
from stoker.config.tables.edge import EdgeTable
from stoker.config.tables.gates import AliasRow, GateTable
from stoker.config.tables.keys import AppTable, KeyTable
from stoker.config.tables.media import MediaTable
from stoker.config.tables.orchestrator import OrchestratorTable
from stoker.config.tables.replicas import ReplicaCount, Replicas
from stoker.config.tables.request import RequestTable, VariantTable
from stoker.config.tables.responses import ResponsesTable
from stoker.config.tables.router import RouterTable, TierTable
from stoker.config.tables.telemetry import TelemetryTable
from stoker.config.tables.tls import TlsTable
from stoker.config.tables.translation import TranslationTable
from stoker.domain.kinds import (
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
    HealthPath,
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
    setting,
)
from stoker.domain.serve import FallbackCause, ServeIdentity, Warmth


class FrontDoorTable(msgspec.Struct, frozen=True):
    """Where Stoker listens, and who may use it."""

    host: Annotated[
        Text, setting('Address to listen on. Any address but loopback needs `keys`, or `auth = "none"`.')
    ] = "127.0.0.1"
    port: Annotated[Port, setting("Port to listen on.")] = 8000
    prefixes: Annotated[
        tuple[PathPrefix, ...],
        setting('Path prefixes below which everything is found again: with `"/llm"` also `/llm/v1/…` and `/llm/ui/`.'),
    ] = ()
    body_limit: Annotated[Size, setting("Largest request body. A larger one gets 413.")] = 32 * 2**20
    upload_limit: Annotated[
        Size,
        setting("Largest form with files (audio, images). Beyond 1 MiB it is kept in a file of the state directory."),
    ] = 200 * 2**20
    body_budget: Annotated[
        AutoSize,
        setting(
            "Memory for all request bodies together. Beyond it, requests get 503. Auto: a tenth of the machine's "
            "memory, at least 64 MiB."
        ),
    ] = None
    queue_bytes: Annotated[
        Size | None,
        setting(
            "Memory for the bodies of all requests that wait for a place or a load. Beyond it, a request that would "
            "have to wait gets 503. Left out: only `body_budget` counts."
        ),
    ] = None
    max_messages: Annotated[
        Count,
        setting("Longest list of messages, input items, prompts or documents in a request. A longer one gets 413."),
    ] = 10000
    max_tools: Annotated[Count, setting("Most tools in a request. More get 413.")] = 1000
    max_values: Annotated[Count, setting("Most JSON values in a request, at any depth. More get 413.")] = 500000
    commit_after: Annotated[
        Duration, setting("Time after which a waiting streamed request gets its 200 and keep-alive pings. `0s`: never.")
    ] = 45.0
    stall_timeout: Annotated[
        Duration, setting("Time without data, after the first byte, that ends a stream with an error. `0s`: never.")
    ] = 300.0
    keep_alive: Annotated[SomeDuration, setting("Time between keep-alive pings in a silent stream.")] = 15.0
    loading: Annotated[
        LoadingWord,
        setting(
            "What a streaming client gets while its model loads. `ping`: pings, after `commit_after`. `reasoning`: "
            "chat streams get lines of thinking that say how far the load is; other dialects get pings. `off`: nothing "
            "until the engine's first byte."
        ),
    ] = "ping"
    auth: Annotated[
        AuthWord | None,
        setting(
            "`keys`: callers need a key, from this file or made by `stoker keys create`. `none`: everybody who reaches "
            "the port is admitted. Left out: callers need a key as soon as there is one."
        ),
    ] = None
    keys: Annotated[
        tuple[KeyTable, ...], setting("The keys of callers. If there are none, callers on loopback need no key.")
    ] = ()
    allowed_hosts: Annotated[
        tuple[Text, ...],
        setting("Values of the `Host` header, without port, that are accepted besides loopback names."),
    ] = ()
    allowed_origins: Annotated[
        tuple[Origin, ...], setting('Origins whose web pages may use the API: `"https://chat.example.com"`.')
    ] = ()
    trusted_proxies: Annotated[
        tuple[ProxyNetwork, ...],
        setting(
            "Addresses and networks of proxies whose `X-Forwarded-For`, `-Proto`, `-Host` and `-Prefix` are believed: "
            '`"10.0.0.0/8"`. `"*"`: everybody, only where `host` is loopback.'
        ),
    ] = ()
    list_aliases: Annotated[
        bool, setting("Whether lists of models have aliases, too. They are answered in any case.")
    ] = True
    ollama_api: Annotated[
        OllamaWord, setting("Requests to Ollama's API: `answer`, or `refuse` with a hint at what to use instead.")
    ] = "answer"
    upstream_errors: Annotated[
        UpstreamErrorsWord,
        setting("An engine's own error message: `show` it to the client, shortened and without secrets, or `hide` it."),
    ] = "show"
    shutdown_grace: Annotated[Duration, setting("How long running requests may take to end after SIGTERM.")] = 30.0
    tls: Annotated[
        TlsTable | None, setting("The certificate, for HTTPS: `[front_door.tls]`. Left out: plain HTTP.")
    ] = None


class PathsTable(msgspec.Struct, frozen=True):
    """Where files live. Relative paths are relative to the configuration file."""

    state: Annotated[
        Text | None,
        setting(
            "State directory: lock, socket, decisions. Default: `$XDG_STATE_HOME/stoker` or `~/.local/state/stoker`."
        ),
    ] = None
    logs: Annotated[
        Text | None, setting("Directory for one log per serve. Default: `logs` in the state directory.")
    ] = None
    vault: Annotated[
        Text | None, setting("Directory of `vault:NAME` models. Default: `~/.local/share/stoker/vault`.")
    ] = None
    decisions: Annotated[Count, setting("How many decision records are kept.")] = 10000
    usage_days: Annotated[Count, setting("How many days usage is kept: `stoker usage`.")] = 400
    log_bytes: Annotated[Size, setting("Size at which a serve's log is rotated. One old file is kept.")] = 10 * 2**20
    placement: Annotated[
        bool | None, setting("Whether weights and caches must be in the vault. Default: true if `vault` is given.")
    ] = None


class SwapTable(msgspec.Struct, frozen=True):
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
            "How long a resident stays at least. Auto: while it is in use, patience × its S; an idle one only lingers."
        ),
    ] = None
    linger: Annotated[
        AutoDuration,
        setting(
            "How long an idle resident is kept before another serve may replace it. Auto: as long as that costs the "
            "waiting requests less than bringing it back, by its S."
        ),
    ] = None
    max_wait: Annotated[
        AutoDuration,
        setting("Waiting time of a request that overrides both. Auto: 2 × patience × S of its model, at least 15 s."),
    ] = None
    swap_after: Annotated[Count, setting("Number of waiting requests that overrides both, too.")] = 8
    drain_timeout: Annotated[
        Duration, setting("How long requests of a serve that must stop may take to end. `0s`: they are cut at once.")
    ] = 30.0
    swap_timeout: Annotated[
        AutoDuration,
        setting("How long a request may wait for a load or a swap. Auto: derived from `max_wait` and the start time."),
    ] = None


class SlotTable(msgspec.Struct, frozen=True):
    """A set of devices that serves share, or a share of a cluster."""

    devices: Annotated[
        Devices,
        setting(
            "Numbers or ids of the devices that serves in this slot may use. Empty: they see all, nothing is "
            "restricted."
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
        dict[str, Text],
        setting('With `cluster`: labels that this node has, all of them: `{ box = "alpha" }`. Left out: any node.'),
    ] = {}
    memory: Annotated[
        Size | None,
        setting("Memory of the slot: as many serves as fit run at once. Left out: one serve at a time, or `together`."),
    ] = None
    together: Annotated[
        tuple[tuple[Name, ...], ...],
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
    swap: Annotated[SwapTable | None, setting("Any key of `[swap]`, for this slot only: `[slots.NAME.swap]`.")] = None


class RequiresTable(msgspec.Struct, frozen=True):
    """What must exist before a swap to this serve begins."""

    files: Annotated[tuple[Text, ...], setting("Files that must exist.")] = ()
    packages: Annotated[
        dict[str, Text], setting('Python packages and their versions: `{ transformers = ">=5,<6" }`.')
    ] = {}
    commands: Annotated[tuple[Text, ...], setting("Commands that must be on PATH.")] = ()


class ServeTable(msgspec.Struct, frozen=True):
    """One model, one way to run it."""

    name: Annotated[Name | None, setting("Required. The logical name: letters, digits, `.`, `_` and `-`.")] = None
    extends: Annotated[Name | None, setting("A serve whose keys this one inherits. Keys given here override them.")] = (
        None
    )
    abstract: Annotated[
        bool, setting("Only a parent for `extends`: it cannot be requested, and need not be complete.")
    ] = False
    engine: Annotated[
        Engine | None,
        setting(
            "`llama.cpp`, `vllm`, `sglang`, or `openai` for anything with an OpenAI-like API. Default: `llama.cpp`; "
            "with a `base_url` or a `container`, `openai`."
        ),
    ] = None
    model: Annotated[
        Text | None,
        setting(
            "Path of the weights (relative to this file, or `~/…`) or `vault:NAME`; with vllm and sglang also a hub "
            "id; with engine `openai`, any text."
        ),
    ] = None
    served_name: Annotated[
        ServedName | None,
        setting(
            "The id that the engine must show in `/v1/models`. Default: `name`; for a container with a `model`, the "
            "`model`."
        ),
    ] = None
    aliases: Annotated[
        tuple[ServedName, ...],
        setting("Further model names that mean this serve, blanks, `:` and `/` included; `*` and `?` are wildcards."),
    ] = ()
    slot: Annotated[
        Place | None,
        setting(
            'The slot that it shares with other serves; `"gpu0+gpu1"`: it takes both at the same time. Left out: it '
            "shares with none, and needs no swap."
        ),
    ] = None
    slots: Annotated[
        tuple[Place, ...],
        setting(
            "Instead of `slot`: the slots that it may run in. It is loaded where there is room, or disturbs least."
        ),
    ] = ()
    replicas: Annotated[
        Replicas,
        setting(
            "With `slots`: how many processes of it may run at the same time. In an empty slot one more is started as "
            "soon as requests wait for it, elsewhere when they have waited, all together, `patience` times its swap "
            "time. `{ min = 1, max = 3 }`: so many are kept loaded, wherever there is room."
        ),
    ] = ReplicaCount()
    also: Annotated[
        tuple[AlsoTable, ...],
        setting(
            "Endpoints elsewhere that serve the same model, as further replicas: another Stoker, or any compatible one."
        ),
    ] = ()
    context: Annotated[
        AutoCount | None,
        setting(
            "Tokens that one request may use; llama.cpp gets this times `parallel`. `auto` (llama.cpp): as many as fit "
            "into the memory of its slot, at most what the model was trained for."
        ),
    ] = None
    parallel: Annotated[int, setting("How many sequences the engine runs at once.", ge=1, le=4096)] = 4
    max_active: Annotated[
        Count | None, setting("Most requests in flight at this serve, of all keys. Default: `parallel`.")
    ] = None
    queue: Annotated[int, setting("Most requests that may wait for a place. More get 503.", ge=0, le=1_000_000)] = 64
    queue_timeout: Annotated[
        Duration,
        setting(
            "How long a request may wait for a place. `0s`: it gets 503 at once. After a load it counts from the end "
            "of the load."
        ),
    ] = 30.0
    first_byte_timeout: Annotated[
        Duration | None,
        setting(
            "How long the first byte of an answer may take, from sending the request; then its `fallback` is asked, or "
            "the client gets 504. An engine that is known to work on the prompt has more time. `0s`: no limit. "
            "Default: five times its usual time, at least 60 s (120 s until that is known), plus time for the prompt "
            "and, if the answer comes in one piece, for the answer."
        ),
    ] = None
    status: Annotated[
        StatusWord,
        setting(
            "`production`, `baseline`, `research`, `experiment`, `rejected-WHY` or `blocked-WHY`; the last two start "
            "only with `--force`."
        ),
    ] = "production"
    reason: Annotated[Text | None, setting("Why it has this status. Default: the text after the dash in `status`.")] = (
        None
    )
    purpose: Annotated[Text | None, setting("What it is for; shown in status.")] = None
    title: Annotated[Text | None, setting("Its name for people, in lists of models.")] = None
    description: Annotated[Text | None, setting("What clients show of it in lists of models.")] = None
    metadata: Annotated[
        dict[Name, str | int | float | bool],
        setting("More for clients: `stoker.metadata` of its entries in `/v1/models`."),
    ] = {}
    listed: Annotated[bool, setting("Whether lists of models have its names. It answers to them in any case.")] = True
    request: Annotated[
        RequestTable, setting("What is set in the bodies of its requests: `set`, `default`, `drop`.")
    ] = RequestTable()
    variant: Annotated[
        tuple[VariantTable, ...],
        setting("Further model names for the same process, each with its own request parameters."),
    ] = ()
    modalities: Annotated[tuple[Name, ...], setting("What kinds of input it takes; shown in status.")] = ("text",)
    driver: Annotated[
        DriverWord | None,
        setting(
            "`process`: Stoker starts and stops it. `compose`: a container. `systemd`: a unit. `external`: something "
            "else runs it. Default: `external` with a `base_url`, `compose` with a `container`, else `process`."
        ),
    ] = None
    cmd: Annotated[
        Command | None,
        setting(
            "Command to start, instead of the engine's own: text or a list, never through a shell. `{port}`, "
            "`{model}`, `{dir}`, `{host}`, `{name}` and `{key}` are filled in."
        ),
    ] = None
    host: Annotated[Text, setting("Address that the engine listens on.")] = "127.0.0.1"
    port: Annotated[Port | None, setting("Port that the engine listens on. Left out: a free one at each start.")] = None
    base_path: Annotated[
        BasePath,
        setting('Path before all paths of the engine, `/v1/…` and `health` too: `"/llm"` for `--api-prefix /llm`.'),
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
    key: Annotated[Text | None, setting("The key for the serve: `env:NAME` or `file:PATH`.")] = None
    dialects: Annotated[
        tuple[DialectWord, ...] | None,
        setting(
            "The dialects that it speaks. Default: `chat`, `completions`, `messages`, `responses`, with vllm and "
            "sglang `embeddings` and `rerank` too; openai `chat`, `completions`. `speech`, `transcription` and `image` "
            "have to be given."
        ),
    ] = None
    key_header: Annotated[
        KeyHeaderWord | None,
        setting(
            "The header for `key`: `authorization` (as a bearer) or `x-api-key`. Default: `x-api-key` for a serve that "
            "speaks `messages` alone."
        ),
    ] = None
    translation: Annotated[TranslationTable, setting("How requests in other dialects are translated for it.")] = (
        TranslationTable()
    )
    memory: Annotated[Size | None, setting("Memory that it needs. Required if its slot has `memory`.")] = None
    keep_loaded: Annotated[
        bool,
        setting("Loaded at the start, and never swapped out: what does not fit beside it is refused. See `preload`."),
    ] = False
    preload: Annotated[
        bool,
        setting(
            "Loaded at the start, if nothing has to be stopped for it; later it may be swapped out. An `idle_serve` "
            "does not replace it before a request has used it."
        ),
    ] = False
    evict_cost: Annotated[
        float | None,
        setting(
            "What stopping it costs, in comparison with the other serves of its slot: those with the least total cost "
            "are stopped to make room. Default: the seconds that its swaps take.",
            gt=0,
            le=1e9,
        ),
    ] = None
    idle_unload: Annotated[NeverDuration, setting("Time without a request after which it is stopped.")] = None
    ready_timeout: Annotated[SomeDuration, setting("How long a start may take.")] = 600.0
    stop: Annotated[
        Command | None,
        setting(
            "Command that stops its process, instead of SIGTERM: text or a list, never through a shell, with the "
            "placeholders of `cmd` and `{pid}`. It has `stop_grace`; if the process still runs then, or the command "
            "fails, SIGTERM follows."
        ),
    ] = None
    stop_grace: Annotated[Duration, setting("Time between SIGTERM and SIGKILL.")] = 10.0
    env: Annotated[
        dict[VariableName, Variable], setting("Environment variables for the process. Not for secrets.")
    ] = {}
    inherit_env: Annotated[
        tuple[VariableName, ...],
        setting(
            "Further variables of Stoker's environment that the process gets, besides `PATH`, `HOME`, `CUDA_...` and "
            "the like. `*`: all but keys, tokens and Stoker's own, which have to be named."
        ),
    ] = ()
    cwd: Annotated[
        Text | None,
        setting("Directory in which the command, `stop` and `up` run. Default: the directory of this file."),
    ] = None
    extra_args: Annotated[tuple[Argument, ...], setting("Further arguments for the engine's command.")] = ()
    threads: Annotated[Count | None, setting("CPU threads. Left out: the engine's choice.")] = None
    gpu_layers: Annotated[
        int | None, setting("Layers on the GPU. Left out: the engine's choice.", ge=0, le=100_000)
    ] = None
    requires: Annotated[RequiresTable, setting("Files, packages and commands without which it is not started.")] = (
        RequiresTable()
    )
    conflicts: Annotated[
        tuple[Text, ...],
        setting(
            "What cannot run at the same time: `unit:NAME`, `container:NAME` (stopped and disabled before it starts), "
            "or a program's name (a start is refused while it runs)."
        ),
    ] = ()
    embedded: Annotated[
        bool | None,
        setting("llama.cpp: true = the built-in one, false = `llama-server` from PATH. Left out: PATH first."),
    ] = None
    container: Annotated[Name | None, setting("The container that runs it; Docker Compose or any other `up`.")] = None
    up: Annotated[
        Command | None,
        setting(
            "Command that creates the container, with the placeholders of `cmd`, never through a shell. Needed if the "
            "container may be missing."
        ),
    ] = None
    unit: Annotated[Text | None, setting("The systemd unit that runs it. Default: `stoker-serve-NAME.service`.")] = None
    fallback: Annotated[
        Name | None, setting("The serve that answers instead if this one cannot; see `fallback_on`.")
    ] = None
    fallback_on: Annotated[
        tuple[FallbackCause, ...],
        setting(
            "When `fallback` answers. `memory`: the serve does not fit on its device, loses it, or has a quantisation "
            "that it cannot run. `unavailable`: it failed, or takes no requests. `busy`: its queue is full, or a "
            "request waited too long."
        ),
    ] = (FallbackCause.MEMORY,)
    warm: Annotated[
        Warmth,
        setting("Whether its weights stay in host memory after it was swapped out: `auto`, `pin` (always), `never`."),
    ] = Warmth.AUTO
    sleep_level: Annotated[
        int | None,
        setting(
            "Put it to sleep instead of stopping it: vllm 1 (weights to host memory) or 2 (weights dropped); sglang 1.",
            ge=1,
            le=2,
        ),
    ] = None
    keep_conversations: Annotated[
        bool,
        setting("llama.cpp: save KV caches to disk, so that conversations survive a swap. The files contain prompts."),
    ] = False
    min_tokens_per_second: Annotated[
        float | None,
        setting(
            "Speed that streamed replies should reach. `stoker watchdog --once` fails for a slower serve.",
            gt=0,
            le=1_000_000,
        ),
    ] = None
    source: Annotated[
        Source | None,
        setting(
            "Where missing weights come from: a path, `https://…`, `rsync:HOST:PATH`, `s3://BUCKET/KEY` or "
            "`hf:ORG/REPO[/FILE]`."
        ),
    ] = None
    sha256: Annotated[
        dict[str, Sha256], setting("Expected digests of the files of the weights: `{ NAME = DIGEST }`.")
    ] = {}
    tensor_parallel: Annotated[Count | None, setting("Number of devices that share each layer.")] = None
    pipeline_parallel: Annotated[Count | None, setting("Number of devices that the layers are divided among.")] = None
    memory_fraction: Annotated[Share | None, setting("Share of each device's memory that the engine may take.")] = None
    batched_tokens: Annotated[Count | None, setting("Most tokens in one step of the engine.")] = None
    dtype: Annotated[Text | None, setting("Type of the weights in memory: `bfloat16`, `float16`.")] = None
    quantization: Annotated[Text | None, setting("Quantisation of the weights: `awq`, `fp8`.")] = None
    kv_cache_type: Annotated[Text | None, setting("Type of the KV cache: `q8_0` (llama.cpp), `fp8`.")] = None
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
        dict[str, float],
        setting(
            "Defaults for parameters that a request leaves out: `temperature`, `top_p`, `top_k`, `min_p`, "
            "`repetition_penalty`."
        ),
    ] = {}
    rendezvous: Annotated[
        Rendezvous | None, setting("`HOST:PORT` where the processes of one engine find each other.")
    ] = None
    trust_remote_code: Annotated[bool, setting("Run code that comes with the model. Such code can do anything.")] = (
        False
    )
    metrics: Annotated[
        bool, setting("Whether the engine's metrics are on. Stoker reads health and progress from them.")
    ] = True


class WarmTable(msgspec.Struct, frozen=True):
    """Host memory for the weights of models that were swapped out."""

    memory: Annotated[
        AutoSize, setting("Most memory. `0B`: none. Auto: half of the memory that is free when Stoker starts.")
    ] = None
    predict: Annotated[bool, setting("Whether to read the model that is likely to be requested next into memory.")] = (
        True
    )


class WatchdogTable(msgspec.Struct, frozen=True):
    """When a serve counts as hung, and how often it is restarted."""

    interval: Annotated[
        Duration,
        setting("Time between two checks of a ready serve. `0s`: it is asked nothing; progress is still watched."),
    ] = 10.0
    stall: Annotated[
        SomeDuration, setting("Time without progress, with requests in flight, after which a serve counts as hung.")
    ] = 120.0
    restarts: Annotated[Count, setting("Restarts within `window`, after which the serve is parked.")] = 5
    window: Annotated[SomeDuration, setting("See `restarts`.")] = 600.0


class ConversationsTable(msgspec.Struct, frozen=True):
    """The saved KV caches of serves with `keep_conversations`."""

    budget: Annotated[Size, setting("Most disk space. The caches unused for longest are deleted first.")] = 4 * 2**30
    age: Annotated[SomeDuration, setting("Time without use after which a cache is deleted.")] = 86400.0
    save_within: Annotated[SomeDuration, setting("How long saving may delay the start of the next serve.")] = 0.5


class File(msgspec.Struct, frozen=True):
    """The whole file."""

    front_door: Annotated[FrontDoorTable, setting("Address, limits and keys of the one endpoint.")] = FrontDoorTable()
    paths: Annotated[PathsTable, setting("Where state, logs and models lie.")] = PathsTable()
    slots: Annotated[dict[str, SlotTable], setting("Sets of devices that serves share: `[slots.NAME]`.")] = {}
    swap: Annotated[SwapTable, setting("How slots swap their residents.")] = SwapTable()
    serve: Annotated[tuple[ServeTable, ...], setting("The model servers: one `[[serve]]` each.")] = ()
    warm: Annotated[WarmTable, setting("Host memory for the weights of models that were swapped out.")] = WarmTable()
    watchdog: Annotated[WatchdogTable, setting("When a serve counts as hung, and how often it is restarted.")] = (
        WatchdogTable()
    )
    conversations: Annotated[ConversationsTable, setting("Saved KV caches.")] = ConversationsTable()
    app: Annotated[
        dict[str, AppTable], setting("Applications, with settings and limits for their keys: `[app.NAME]`.")
    ] = {}
    gate: Annotated[dict[str, GateTable], setting("Conditions for promotions: `[gate.NAME]`.")] = {}
    alias: Annotated[
        dict[str, AliasRow],
        setting(
            'Names that a promotion can move to another serve: `[alias.NAME]`; or names for routing: `fast = "auto"`.'
        ),
    ] = {}
    orchestrator: Annotated[
        dict[str, OrchestratorTable],
        setting("Model names whose answers are written block by block and checked: `[orchestrator.NAME]`."),
    ] = {}
    edge: Annotated[
        dict[str, EdgeTable],
        setting("Workers whose address may change, and the ingress that leads to them: `[edge.NAME]`."),
    ] = {}
    clusters: Annotated[
        dict[str, ClusterTable], setting("Ray clusters whose GPUs slots may name: `[clusters.NAME]`.")
    ] = {}
    compat: Annotated[CompatTable, setting("Paths of other programs that are answered.")] = CompatTable()
    media: Annotated[MediaTable, setting("Images that requests give by URL.")] = MediaTable()
    responses: Annotated[
        ResponsesTable, setting("Responses and conversations that clients of the Responses API store.")
    ] = ResponsesTable()
    telemetry: Annotated[
        TelemetryTable | None, setting("Traces and metrics by OpenTelemetry. Left out: none are sent.")
    ] = None
    router: Annotated[RouterTable, setting("How requests for `auto` are routed.")] = RouterTable()
    tier: Annotated[
        tuple[TierTable, ...], setting("What routing may choose among, the cheapest first: one `[[tier]]` each.")
    ] = ()
