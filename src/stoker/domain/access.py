"""The whole configuration (`Settings`): the front door, paths, limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from stoker.domain.alias_choice import AliasChoice
from stoker.domain.cluster import Cluster
from stoker.domain.edge import Edge
from stoker.domain.gate import Alias, Gate
from stoker.domain.host_port import host_port, reachable
from stoker.domain.key import App, Key
from stoker.domain.orchestrator import Orchestrator
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Serve, Slot, joined_slot
from stoker.domain.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on the structure of one request's body."""

    max_messages: int = 10_000
    """Messages, input items, prompts or documents."""
    max_tools: int = 1_000
    max_values: int = 500_000
    """JSON members and elements, at any depth."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Paths of PEM files, absolute. `client_ca`: clients need a certificate of these roots."""

    cert: str
    key: str
    client_ca: str | None = None


@dataclass(frozen=True, slots=True)
class CompatPaths:
    """Which paths of other programs are answered: those by which their clients load and unload models."""

    llama_swap: bool = False
    llama_cpp: bool = False
    any_upstream_path: bool = False
    """Whether `/upstream/SERVE/PATH` passes on more than the listed paths, for keys of scope admin."""
    upstream_ignore: tuple[str, ...] = ()
    """Regular expressions of paths below `/upstream/SERVE` that load no model."""


@dataclass(frozen=True, slots=True)
class FrontDoor(Bounds):
    """Where Stoker listens, and who may use it."""

    host: str = "127.0.0.1"
    port: int = 8000
    prefixes: tuple[str, ...] = ()
    body_limit: int = 32 * 2**20
    upload_limit: int = 200 * 2**20
    """Of forms with files, which are kept on disk."""
    body_budget: int | None = None
    """Bytes of all request bodies held at once; None: a tenth of the machine's memory, at least 64 MiB."""
    commit_after: float = 45.0
    """Seconds of silence after which a streamed request gets its 200 and pings; 0: never."""
    stall_timeout: float = 300.0
    """Seconds without a byte from the serve, after its first byte, that end a stream; 0: no limit."""
    keep_alive: float = 15.0
    """Seconds between pings once a stream is committed and silent."""
    loading: str = "ping"
    """What a streaming client gets while its model loads: `ping`, `reasoning` (chat: lines of thinking) or `off`."""
    auth: bool | None = None
    """Whether a key is required; None: if there is one. False only with an explicit `auth = "none"`."""
    keys: tuple[Key, ...] = ()
    queue_bytes: int | None = None
    """Bytes of the bodies of all requests that wait for a place or a load; None: `body_budget` alone limits them."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose `X-Forwarded-*` headers are believed; `*`: of everybody, on loopback only."""
    list_aliases: bool = True
    """Whether lists of models have aliases, too."""
    ollama_api: str = "answer"
    """`answer` or `refuse` requests of Ollama's API."""
    upstream_errors: str = "show"
    """`show` or `hide` the engine's own error message when it fails."""
    shutdown_grace: float = 30.0
    """Seconds that running streams get to end after SIGTERM."""
    tls: TlsSettings | None = None
    """None: plain HTTP."""

    @property
    def local_url(self) -> str:
        """Where this machine reaches it; a wildcard address is reached over loopback."""
        return f"{self.scheme}://{host_port(reachable(self.host), self.port)}"

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where files live; all absolute."""

    state: str
    logs: str
    vault: str
    decisions: int = 10_000
    usage_days: int = 400
    """Days for which usage is kept."""
    log_bytes: int = 10 * 2**20
    """Size at which a serve's log is rotated; one old file is kept."""
    placement: bool = False
    """Whether weights and caches may lie only in the vault; true if a vault is configured."""


@dataclass(frozen=True, slots=True)
class WarmPool:
    """How models that are not in a slot may stay in host memory."""

    memory: int | None = None
    """Bytes; None: half of what is available when Stoker starts; 0: nothing stays warm."""
    predict: bool = True
    """Read the weights of the model that is probably needed next into the page cache ahead of time."""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """When a serve counts as wedged, and how often it is started again."""

    interval: float = 10.0
    """Seconds between two probes of a ready serve; 0: no probes, only its process and its requests are watched."""
    stall: float = 120.0
    """Seconds without any progress while requests are in flight."""
    restarts: int = 5
    """Restarts allowed within `window` seconds; the serve is parked instead of the next one."""
    window: float = 600.0


@dataclass(frozen=True, slots=True)
class Conversations:
    """Saved KV caches (of serves with `keep_conversations`)."""

    budget: int = 4 * 2**30
    """Bytes on disk, for all conversations together."""
    age: float = 86_400.0
    """Seconds after which a saved conversation is removed."""
    save_within: float = 0.5
    """Seconds by which saving may delay the swap."""


@dataclass(frozen=True, slots=True)
class Media:
    """Which images, given by URL, Stoker fetches for models that cannot fetch them."""

    fetch: bool = False
    hosts: tuple[str, ...] = ()
    """Host names in lower case, exact or `*.example.com`; empty: every host whose addresses are public."""
    max_bytes: int = 20 * 2**20
    """Size of one image."""
    timeout: float = 10.0
    """Seconds for one image, redirects included."""
    max_images: int = 8
    """Different images per request."""


@dataclass(frozen=True, slots=True)
class ResponseStorage:
    """Whether responses of the Responses API are stored, so that later requests can refer to them."""

    store: bool = False
    websocket: bool = True
    """Whether the API is spoken over WebSocket, too."""
    max_bytes: int = 2**30
    """Bytes on disk, of all keys together."""
    keep: float = 30 * 86_400.0
    """Seconds after which a response is deleted, and a conversation that was not used."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration: `config` reads it, `app` builds the program from it."""

    front_door: FrontDoor
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
    orchestrators: tuple[Orchestrator, ...] = ()
    edges: tuple[Edge, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    compat: CompatPaths = CompatPaths()
    media: Media = Media()
    responses: ResponseStorage = ResponseStorage()
    telemetry: Telemetry | None = None
    """None: nothing is sent."""
    router: RouterSettings | None = None
    """None: no tier is configured, so nothing is routed."""
    renamed_keys: tuple[str, ...] = field(default=(), compare=False)
    """A warning for each key that the file gives under its old name."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What is allowed but probably not meant, if the file was read for a reload."""

    def slot(self, slot: str | None) -> Slot | None:
        """What a serve's `slot` names, as one slot: see `joined_slot`. None: it has none."""
        return None if slot is None else joined_slot(slot, {one.name: one for one in self.slots})
