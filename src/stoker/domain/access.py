"""The whole configuration (`Settings`): the front door, paths, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from stoker.domain.alias_choice import AliasChoice
from stoker.domain.cluster import Cluster
from stoker.domain.gate import Alias, Gate
from stoker.domain.host_port import host_port, reachable
from stoker.domain.key import App, Key
from stoker.domain.kinds import (
    AutoSize,
    Count,
    Duration,
    FilePath,
    HostPattern,
    KeysOrNone,
    LoadingWord,
    OllamaWord,
    Origin,
    PathPrefix,
    Pattern,
    Port,
    ProxyNetwork,
    Size,
    SomeDuration,
    Text,
    UpstreamErrorsWord,
    setting,
)
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Serve, Slot, joined_slot


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on the structure of one request's body."""

    max_messages: Annotated[
        Count,
        setting("Longest list of messages, input items, prompts or documents in a request. A longer one gets 413."),
    ] = 10000
    max_tools: Annotated[Count, setting("Most tools in a request. More get 413.")] = 1000
    max_values: Annotated[Count, setting("Most JSON values in a request, at any depth. More get 413.")] = 500000


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The front door speaks HTTPS with this certificate. The files are read again when they change."""

    cert: Annotated[FilePath, setting("Required. PEM file with the certificate, and those between it and its root.")]
    key: Annotated[FilePath, setting("Required. PEM file with its key, not encrypted.")]
    client_ca: Annotated[
        FilePath | None,
        setting(
            "PEM file with the roots of client certificates. Given: a client without such a certificate is refused."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class CompatPaths:
    """Paths of other programs that Stoker answers, beside its own."""

    llama_swap: Annotated[
        bool,
        setting(
            "Those of llama-swap: `/running`, `/unload`, `/logs` and others. Default: only if `front_door.host` is a "
            "loopback address.",
            derived=True,
        ),
    ] = False
    llama_cpp: Annotated[
        bool,
        setting(
            "Those of llama.cpp's router: `/models/load`, `/models/unload`, `/props` and others, and the `status` of "
            "each model in `/v1/models`. Default: as for `llama_swap`.",
            derived=True,
        ),
    ] = False
    any_upstream_path: Annotated[
        bool,
        setting(
            "Keys of scope admin may use every path below `/upstream/SERVE/`, as with llama-swap; else only those that "
            "change nothing in the engine."
        ),
    ] = False
    upstream_ignore: Annotated[
        tuple[Pattern, ...],
        setting(
            "Regular expressions. A path below `/upstream/SERVE` that one of them matches loads no model: if the model "
            "is not loaded, the answer is 409."
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class ListenSettings(Bounds):
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
        KeysOrNone | None,
        setting(
            "`keys`: callers need a key, from this file or made by `stoker keys create`. `none`: everybody who reaches "
            "the port is admitted. Left out: callers need a key as soon as there is one."
        ),
    ] = None
    keys: Annotated[
        tuple[Key, ...], setting("The keys of callers. If there are none, callers on loopback need no key.")
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
        TlsSettings | None, setting("The certificate, for HTTPS: `[front_door.tls]`. Left out: plain HTTP.")
    ] = None

    @property
    def local_url(self) -> str:
        """Where this machine reaches it; a wildcard address is reached over loopback."""
        return f"{self.scheme}://{host_port(reachable(self.host), self.port)}"

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where files live. Relative paths are relative to the configuration file."""

    state: Annotated[
        FilePath,
        setting(
            "State directory: lock, socket, decisions. Default: `$XDG_STATE_HOME/stoker` or `~/.local/state/stoker`."
        ),
    ]
    logs: Annotated[FilePath, setting("Directory for one log per serve. Default: `logs` in the state directory.")]
    vault: Annotated[FilePath, setting("Directory of `vault:NAME` models. Default: `~/.local/share/stoker/vault`.")]
    decisions: Annotated[Count, setting("How many decision records are kept.")] = 10000
    usage_days: Annotated[Count, setting("How many days usage is kept: `stoker usage`.")] = 400
    log_bytes: Annotated[Size, setting("Size at which a serve's log is rotated. One old file is kept.")] = 10 * 2**20
    placement: Annotated[
        bool,
        setting("Whether weights and caches must be in the vault. Default: true if `vault` is given.", derived=True),
    ] = False


@dataclass(frozen=True, slots=True)
class WarmPool:
    """Host memory for the weights of models that were swapped out."""

    memory: Annotated[
        AutoSize, setting("Most memory. `0B`: none. Auto: half of the memory that is free when Stoker starts.")
    ] = None
    predict: Annotated[bool, setting("Whether to read the model that is likely to be requested next into memory.")] = (
        True
    )


@dataclass(frozen=True, slots=True)
class Watchdog:
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


@dataclass(frozen=True, slots=True)
class Conversations:
    """The saved KV caches of serves with `keep_conversations`."""

    budget: Annotated[Size, setting("Most disk space. The caches unused for longest are deleted first.")] = 4 * 2**30
    age: Annotated[SomeDuration, setting("Time without use after which a cache is deleted.")] = 86400.0
    save_within: Annotated[SomeDuration, setting("How long saving may delay the start of the next serve.")] = 0.5


@dataclass(frozen=True, slots=True)
class Media:
    """Whether Stoker fetches images that requests give by URL, for engines that cannot, and which."""

    fetch: Annotated[
        bool, setting("Whether to fetch them, from public addresses only. Otherwise such a request is refused.")
    ] = False
    hosts: Annotated[
        tuple[HostPattern, ...],
        setting(
            "Hosts that they may come from: `img.example.com`, or `*.example.com` for all subdomains. Empty: any "
            "public host."
        ),
    ] = ()
    max_bytes: Annotated[Size, setting("Largest image.")] = 20 * 2**20
    timeout: Annotated[SomeDuration, setting("How long fetching one image may take, redirects included.")] = 10.0
    max_images: Annotated[int, setting("Most different images in one request.", ge=1, le=64)] = 8


@dataclass(frozen=True, slots=True)
class ResponseStorage:
    """Whether Stoker stores responses, so that requests can continue them by their id. The store holds prompts and
    answers. And whether it speaks the API over WebSocket."""

    store: Annotated[
        bool,
        setting(
            "Whether to store them in the state directory. Otherwise `previous_response_id`, `conversation` and the "
            "paths of stored responses are refused."
        ),
    ] = False
    websocket: Annotated[
        bool, setting("Whether `/v1/responses` is a WebSocket, too. Otherwise its handshake is refused with 426.")
    ] = True
    max_bytes: Annotated[
        Size, setting("Most disk space. The oldest entries of the key that has most are deleted first.")
    ] = 2**30
    keep: Annotated[
        SomeDuration, setting("Time after which a response is deleted, and a conversation that was not used.")
    ] = 2592000.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration: `config` reads it, `app` builds the program from it."""

    front_door: ListenSettings
    paths: Paths
    slots: tuple[Slot, ...]
    serves: tuple[Serve, ...]
    source: str = ""
    """The configuration file's absolute path; empty for the demo."""
    warm: WarmPool = WarmPool()
    watchdog: Watchdog = Watchdog()
    conversations: Conversations = Conversations()
    apps: tuple[App, ...] = ()
    gates: tuple[Gate, ...] = ()
    aliases: tuple[Alias, ...] = ()
    alias_choices: tuple[AliasChoice, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    compat: CompatPaths = CompatPaths()
    media: Media = Media()
    responses: ResponseStorage = ResponseStorage()
    router: RouterSettings | None = None
    """None: no tier is configured, so nothing is routed."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """By name, the tables of the file that extensions brought."""
    unread: Mapping[str, object] = field(default_factory=dict)
    """By name, as written, the tables whose extension comes with Stoker and is missing."""
    renamed_keys: tuple[str, ...] = field(default=(), compare=False)
    """A warning for each key that the file gives under its old name."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What is allowed but probably not meant, if the file was read for a reload."""

    def names_in(self, table: str) -> Sequence[str]:
        """The names of `[TABLE.NAME]` that an extension brings, also where it is missing."""
        found = self.extensions.get(table, self.unread.get(table))
        return tuple(found) if isinstance(found, Mapping) else ()

    def slot(self, slot: str | None) -> Slot | None:
        """What a serve's `slot` names, as one slot: see `joined_slot`. None: it has none."""
        return None if slot is None else joined_slot(slot, {one.name: one for one in self.slots})
