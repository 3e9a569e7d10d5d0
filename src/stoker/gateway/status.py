"""The status document and the metrics: what /status, /metrics and `stoker status` show."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker import __version__
from stoker.domain.alias_choice import AliasChoice
from stoker.domain.build import IS_COMPILED
from stoker.domain.protocols import Clock
from stoker.domain.serve import Serve
from stoker.domain.session import Session
from stoker.fleet.conversations import keeper as conversations
from stoker.fleet.supervision.serve_registry import ServeStatistics
from stoker.fleet.swapping import status_report
from stoker.fleet.swapping.conductor import Conductor
from stoker.fleet.warm import pool as warm
from stoker.gateway.flow import Flow
from stoker.store.decisions import DecisionLog
from stoker.store.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SESSIONS = 32
"""How many of the last sessions /status shows."""
EVENTS = 50
"""How many of the last events /status shows."""


@dataclass(frozen=True, slots=True)
class StatusSources:
    """The parts that contribute to /status. The defaults stand for parts that are not configured."""

    events: Callable[[int], list[dict[str, Any]]] = lambda limit: []
    watchdog: Callable[[str], dict[str, Any]] = lambda serve: {}
    statistics: Callable[[], Mapping[str, ServeStatistics]] = dict
    warm: Callable[[], warm.WarmStatistics | None] = lambda: None
    conversations: Callable[[], conversations.ConversationStatistics | None] = lambda: None
    responses: Callable[[], dict[str, Any] | None] = lambda: None
    aliases: Callable[[], list[dict[str, Any]]] = list
    asks_for_keys: Callable[[], bool] = lambda: False
    memory: Callable[[], Mapping[str, int | None]] = dict
    """May block: asked only for /metrics, in a thread."""
    extensions: Callable[[], Mapping[str, object]] = dict
    extension_metrics: Callable[[], Sequence[Metric]] = tuple
    """Asked in a thread."""


class StatusReport:
    def __init__(
        self,
        conductor: Conductor,
        flow: Flow,
        store: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        sources: StatusSources = StatusSources(),
    ) -> None:
        self._conductor = conductor
        self._flow = flow
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._sources = sources
        self._started = time.time()

    def document(self) -> dict[str, Any]:
        """The status document; docs/reference/http.md describes its fields."""
        door = self._flow.settings.front_door
        now = self._clock.now()
        decisions = self._store.statistics()
        bodies, waiting = self._flow.bodies, self._flow.waiting_bodies
        document = {
            "version": __version__,
            "compiled": IS_COMPILED,
            "pid": os.getpid(),
            "started_at": self._started,
            "draining": self._flow.is_draining,
            "frontdoor": {
                "auth": "keys" if self._sources.asks_for_keys() else "none",
                "auth_configured": None if door.auth is None else "keys" if door.auth else "none",
                "host": door.host,
                "port": door.port,
                "base_url": f"{door.local_url}/v1",
                "max_active_generations": sum(s.max_active for s in self._flow.settings.names.serves),
                "in_flight": len(self._flow.active),
                "bodies": {"held": bodies.held, "budget": bodies.limit, "refused": bodies.refused},
                "waiting_bodies": {"held": waiting.held, "limit": waiting.limit, "refused": waiting.refused},
            },
            "model_slot": status_report.model_slot(self._conductor),
            "slots": status_report.slots(self._conductor, now),
            "serves": self._serves(now),
            "sessions": self._sessions(now),
            "aliases": self._aliases(),
            "warm": _warm(self._sources.warm()),
            "conversations": _conversations(self._sources.conversations()),
            "responses": self._sources.responses(),
            "events": self._sources.events(EVENTS),
            "decisions": {
                "kept": decisions.kept, "dropped": decisions.dropped, "unrecorded": decisions.unrecorded,
                "problem": decisions.problem or None,
            },
        }  # fmt: skip
        return {"routing": None, **self._sources.extensions(), **document}

    def metrics(self, document: Mapping[str, Any]) -> bytes:
        """Prometheus text. May run in a thread: the first call takes about 70 ms, for imports."""
        from stoker.store.exposition import expose

        return expose(self._metrics, {**document, **self._sources.memory()}, self._sources.extension_metrics())

    def _aliases(self) -> list[dict[str, Any]]:
        """Aliases that can be moved, then aliases for several serves, with the serve that answers now."""
        names = self._flow.settings.names
        moved = [one | {"serves": None, "pick": None} for one in self._sources.aliases()]
        return moved + [_show_choice(choice, names.find(choice.name)) for choice in names.choices]

    def _sessions(self, now: float) -> list[dict[str, Any]]:
        """The last sessions to ask, the latest first. No field changes but when one of their requests comes or ends."""
        wall = self._clock.wall() - now
        return [_show_session(one, wall) for one in self._flow.sessions.latest(SESSIONS)]

    def _serves(self, now: float) -> list[dict[str, Any]]:
        statistics = self._sources.statistics()
        pool = self._sources.warm()
        warm_models = {one.serve: one for one in pool.warm} if pool is not None else {}
        found = status_report.serves(self._conductor, now)
        for one in found:
            name = one["name"]
            measured = statistics[name].measured if name in statistics else None
            engine_state = statistics[name].state if name in statistics else ""
            one["measured_by"] = measured.source.value if measured is not None else None
            one["watchdog"] = self._sources.watchdog(name)
            one["totals"] = self._metrics.totals(name)
            one["temperature"] = _temperature(one["state"], engine_state, name in warm_models)
            one["expected"] = (warm_models[name].why or None) if name in warm_models else None
        return found


def _show_session(session: Session, wall: float) -> dict[str, Any]:
    """`wall`: Unix time less monotonic time."""
    parent, began, ended = session.parent, session.began_at, session.ended_at
    return {
        "id": session.id,
        "key": session.key or None,
        "source": session.source or None,
        "parent": None if parent is None else parent.id,
        "serve": session.serve,
        "turns": session.turns,
        "tokens": session.tokens,
        "waited": round(session.waited, 3),
        "began_at": None if began is None else round(began + wall, 1),
        "ended_at": None if ended is None else round(ended + wall, 1),
        "in_loop": session.in_loop,
    }


def _show_choice(choice: AliasChoice, serve: Serve | None) -> dict[str, Any]:
    return {
        "alias": choice.name, "serve": None if serve is None else serve.name, "configured": choice.serves[0],
        "gate": None, "promoted_at": None, "evidence": None, "reason": None, "watched_for": None,
        "serves": list(choice.serves), "pick": choice.pick.value,
    }  # fmt: skip


def _temperature(state: str, engine_state: str, is_warm: bool) -> str | None:
    """`hot`: on its device; `asleep` or `warm`: in host memory; `cold`; None while it starts or stops."""
    if engine_state == "asleep":
        return "asleep"
    if state in ("ready", "draining", "held"):
        return "hot"
    if state in ("starting", "stopping"):
        return None
    return "warm" if is_warm else "cold"


def _warm(pool: warm.WarmStatistics | None) -> dict[str, Any] | None:
    """The warm pool. Sizes are bytes."""
    if pool is None:
        return None
    return {
        "budget": pool.budget,
        "used": pool.size,
        "holder": pool.holder,
        "holder_restarts": pool.restarts,
        "paused": pool.is_paused,
        "predictions": dict(pool.predictions),
        "models": [
            {"name": one.serve, "how": one.how, "bytes": one.size, "read": one.read, "locked": one.locked,
             "pinned": one.pinned, "why": one.why or None, "problem": one.problem or None}
            for one in pool.warm
        ],
    }  # fmt: skip


def _conversations(saved: conversations.ConversationStatistics | None) -> dict[str, Any] | None:
    if saved is None:
        return None
    return {
        "files": saved.files,
        "bytes": saved.size,
        "saved": saved.saved,
        "not_saved": saved.not_saved,
        "restored": saved.restored,
        "not_restored": saved.not_restored,
    }
