"""What a running Stoker answers to the command line. Unknown fields are ignored: it may be newer than we are."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.serve import Driver, slots_of


class WatchdogFinding(msgspec.Struct, frozen=True):
    """One assertion about a serve. `ok` None: not known."""

    assertion: str
    ok: bool | None = None
    detail: str = ""


class WatchdogReport(msgspec.Struct, frozen=True):
    """What the watchdog says about one serve. Times are Unix; None: never, or not known."""

    health: str = "unknown"
    verified_at: float | None = None
    restarts: int = 0
    parked: str | None = None
    findings: list[WatchdogFinding] = []

    def details(self, ok: bool | None) -> str:
        """The findings with this result, as text."""
        return "; ".join(f"{found.assertion}: {found.detail}" for found in self.findings if found.ok is ok)


class SwapStatus(msgspec.Struct, frozen=True):
    """A swap under way. `elapsed` and `expected` are seconds: of the drain (for which nothing is expected), then from
    its end on.
    """

    phase: str
    target: str | None = None
    stopping: list[str] = []
    elapsed: float = 0.0
    expected: float | None = None
    generation: int = 0


class SlotStatus(msgspec.Struct, frozen=True):
    """A slot, who lives there, and who waits."""

    name: str
    devices: list[str] = []
    cluster: str | None = None
    """The cluster of which it is a share; None: it is on this machine."""
    box: str | None = None
    """The box whose Stoker has it; None: it is no other Stoker's."""
    gpus: int | None = None
    node: dict[str, str] = {}
    """Labels of its node in the cluster; empty: any node."""
    memory: int | None = None
    together: list[list[str]] = []
    """The sets of serves that may be loaded at the same time; empty: its memory alone decides."""
    idle_serve: str | None = None
    idle_serve_after: float | None = None
    evict_costs: dict[str, float] = {}
    """What stopping each of its serves costs; empty: those unused for longest are stopped."""
    resident: list[str] = []
    paused: str | None = None
    """Why nothing is loaded there; None: it is not paused."""
    paused_by: list[str] = []
    """`operator`, `program`."""
    yields_to: list[str] = []
    yields_above: int | None = None
    swap: SwapStatus | None = None
    swaps: int = 0
    waiting: int = 0
    memory_used: int | None = None
    """Bytes that its residents hold, measured or declared; None: unknown."""


class BoxStatus(msgspec.Struct, frozen=True):
    """Another machine with a Stoker, as it was seen last."""

    name: str
    url: str | None = None
    state: str = "unknown"
    """`unknown` (nothing was asked yet), `awake`, `waking`, `unreachable`, `refuses`."""
    problem: str | None = None
    version: str | None = None
    slots: dict[str, list[str]] = {}
    """By slot there: what was loaded, whoever wanted it."""


class ServeTotals(msgspec.Struct, frozen=True):
    """What a serve has done since Stoker started."""

    requests: int = 0
    output_tokens: int = 0
    tokens_per_second: float | None = None
    """The rate of the last streamed reply; None: unknown."""


class RecentEvent(msgspec.Struct, frozen=True):
    """Something that happened; `at` is Unix time."""

    at: float
    kind: str
    serve: str = ""
    text: str = ""


class ServeStatus(msgspec.Struct, frozen=True):
    """A serve as it is now. Times are seconds, sizes bytes."""

    name: str
    state: str
    step: str | None = None
    """What its start waits for, in words after its name; None: nothing special."""
    status: str = ""
    reason: str = ""
    """Why it is rejected or blocked."""
    modalities: list[str] = []
    purpose: str = ""
    engine: str = ""
    model: str = ""
    served_name: str = ""
    aliases: list[str] = []
    slot: str | None = None
    replica_of: str | None = None
    """The serve of which this is one replica; None: it has one place."""
    in_flight: int = 0
    queued: int = 0
    max_active: int = 0
    pid: int | None = None
    port: int | None = None
    uptime: float | None = None
    swap_seconds: float | None = None
    swap_seconds_assumed: bool = True
    memory: int | None = None
    context: int | None = None
    auto_context: bool = False
    """Whether the context is the largest that fits, rather than a number of the configuration."""
    context_problem: str | None = None
    facts: dict[str, Any] = {}
    backoff: float | None = None
    last_error: str | None = None
    dialects: list[str] = []
    identity: str = "models"
    driver: str = ""
    temperature: str | None = None
    """`hot`, `asleep`, `warm`, `cold`; None: unknown."""
    expected: str | None = None
    """Why it is kept warm, where it is expected next: `rule`, `pattern`, `frequency`."""
    measured: int | None = None
    parked: str | None = None
    paused: str | None = None
    """Why its slot is paused; None: it is not."""
    cannot_load: str | None = None
    """Why it is not started before its files or its configuration change; None: it may be."""
    watchdog: WatchdogReport | None = None
    """None: no watchdog."""
    keep_loaded: bool = False
    min_tokens_per_second: float | None = None
    totals: ServeTotals = ServeTotals()
    fallback: str | None = None
    cloud: bool = False

    @property
    def shown_state(self) -> str:
        """For people. Whether an unused cloud runs is not known."""
        if self.parked:
            return "parked"
        if self.cannot_load:
            return "cannot load"
        return "not asked" if self.cloud and self.state == "stopped" else self.state

    @property
    def load_seconds(self) -> float | None:
        """How long a load takes; None: unknown, as it was never measured and its size is not configured."""
        return None if self.swap_seconds_assumed and self.memory is None else self.swap_seconds

    @property
    def how_to_try(self) -> str:
        """What would make Stoker use it, where it never did and nothing else is known; empty: something is."""
        if self.state != "stopped" or self.cloud or self.last_error or self.parked or not self.swap_seconds_assumed:
            return ""
        if self.driver == Driver.EXTERNAL.value:
            return "it is used as soon as it answers a health check"
        return f"a request for {self.replica_of or self.name} starts it when it needs one here"

    @property
    def is_up(self) -> bool:
        """Whether its engine answers."""
        return self.state in ("ready", "held")

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs, not even asleep."""
        return self.is_down and self.temperature != "asleep"

    @property
    def is_down(self) -> bool:
        """Whether it is not loaded, and nothing is being done about it."""
        return self.state in ("stopped", "backoff", "parked", "paused", "cannot_load")


class PauseAnswer(msgspec.Struct, frozen=True):
    """POST /admin/pause and /admin/resume: the slots that are paused, or were. `~NAME`: that of a serve without one."""

    paused: list[str] = []
    resumed: list[str] = []


class FrontDoorStatus(msgspec.Struct, frozen=True):
    base_url: str = ""
    host: str = ""
    port: int = 0
    auth: str = ""
    auth_configured: str | None = None
    """`auth` of the configuration; None: a key is needed as soon as there is one."""
    in_flight: int = 0


class OrchestratorStatus(msgspec.Struct, frozen=True):
    """An orchestrator as it is configured."""

    name: str
    worker: str = ""
    validator: str = ""
    policy: str = ""
    project: str = ""


class EdgeStatus(msgspec.Struct, frozen=True):
    """The worker of an edge that serves are behind."""

    name: str
    address: str | None = None
    """Where it was proved last; None: never."""
    proved_at: float | None = None
    problem: str | None = None
    """What is wrong at the last look."""


class DeviceStatus(msgspec.Struct, frozen=True):
    """An accelerator. None: unknown."""

    name: str
    title: str = ""
    use: float | None = None
    memory_used: int | None = None
    memory: int | None = None
    temperature: int | None = None
    watts: int | None = None
    watts_limit: int | None = None
    core_mhz: int | None = None
    throttled: list[str] | None = None
    suspended: bool = False


class SessionStatus(msgspec.Struct, frozen=True):
    """A session. `ended_at`: when its last answer ended, in Unix seconds; None: it has none yet."""

    id: str
    serve: str = ""
    turns: int = 0
    tokens: int = 0
    waited: float = 0.0
    began_at: float | None = None
    ended_at: float | None = None
    in_loop: bool = False
    key: str | None = None
    parent: str | None = None


class StatusAnswer(msgspec.Struct, frozen=True):
    """GET /status."""

    version: str
    pid: int
    serves: list[ServeStatus] = []
    slots: list[SlotStatus] = []
    sessions: list[SessionStatus] = []
    """The last ones to ask, the latest first."""
    draining: bool = False
    frontdoor: FrontDoorStatus = FrontDoorStatus()
    started_at: float = 0.0
    events: list[RecentEvent] = []
    orchestrators: list[OrchestratorStatus] = []
    edges: list[EdgeStatus] = []
    responses: dict[str, Any] | None = None
    """What is stored of the Responses API; None: nothing is."""
    routing: dict[str, Any] | None = None
    """None: there are no tiers."""
    devices: list[DeviceStatus] = []
    boxes: list[BoxStatus] = []
    capture: dict[str, Any] | None = None
    """What is kept of what requests say; None: nothing is."""

    def serve(self, name: str) -> ServeStatus | None:
        """The serve with this name, served name or alias, or a replica of it, if possible one that is up; a serve's own
        name goes first.
        """
        own = [s for s in self.serves if name in (s.name, s.replica_of) or name in s.aliases]
        found = own or [s for s in self.serves if name == s.served_name]
        return next((s for s in found if s.is_up), None) or next(iter(found), None)

    def known_names(self) -> list[str]:
        """What a command may be given: each serve, and each of its replicas if it has several."""
        return list(dict.fromkeys(name for s in self.serves for name in (s.replica_of or s.name, s.name)))

    def replicas(self, name: str) -> list[ServeStatus]:
        """Every replica of this serve; for any other name at most one serve, as `serve` finds it."""
        several = [s for s in self.serves if s.replica_of == name]
        found = None if several else self.serve(name)
        return several if found is None else [found]

    def slots_of(self, serve: ServeStatus) -> list[SlotStatus]:
        """The slots of its place: one, several if it takes several at once, or none."""
        names = [] if serve.slot is None else slots_of(serve.slot)
        return [slot for slot in self.slots if slot.name in names]


class Refusal(msgspec.Struct, frozen=True):
    message: str = ""
    code: str = ""


class SwitchPreview(msgspec.Struct, frozen=True):
    """POST /admin/preview with a serve: what a switch would do now."""

    serve: str
    """Of a serve with several places, the replica."""
    ready: bool = False
    victims: list[str] = []
    waits: bool = False
    refusal: Refusal | None = None


class LoadableAnswer(msgspec.Struct, frozen=True):
    """POST /admin/preview without a serve: the serves that would stop nothing."""

    serves: list[str] = []


class SwitchAnswer(msgspec.Struct, frozen=True):
    """POST /admin/switch: whole and per-phase seconds (drain, check, stop, start, ready)."""

    serve: str
    seconds: float = 0.0
    phases: dict[str, float | None] = {}


class ReloadAnswer(msgspec.Struct, frozen=True):
    """POST /admin/reload: names of serves."""

    changed: list[str] = []
    added: list[str] = []
    removed: list[str] = []
    routing: bool = False
    """Whether the routing settings or measurements changed."""
    lapsed: list[dict[str, str]] = []
    """Tier and class of what was measured to be good enough, and is not known to be that any more."""
    ended: list[dict[str, str]] = []
    """Promotions whose alias or serve is no longer configured: `alias`, `serve`, and what it points to `now`."""
    settings: list[str] = []
    """The paths of all settings that changed."""
    problems: list[str] = []
    warnings: list[str] = []
    """What is allowed but probably not meant."""
