"""What operators and their tools ask: status, switch, unload, drain, reload, cancel, decisions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from stoker import __version__
from stoker.domain.access import Scope
from stoker.domain.errors import ClientError, ConfigError
from stoker.domain.protocols import Clock
from stoker.domain.serve import Serve
from stoker.fleet.conversations import keeper as conversations
from stoker.fleet.supervision.serve_registry import ServeStatistics
from stoker.fleet.swapping import status_report
from stoker.fleet.swapping.conductor import Conductor
from stoker.fleet.warm import statistics as warm
from stoker.gateway.flow import Flow
from stoker.promotion.promotions import Promotions
from stoker.request.accept.door import Caller, require
from stoker.request.accept.routes import wrong_method
from stoker.request.lease.state import Phase
from stoker.store.decisions import DecisionLog
from stoker.store.metrics import Metrics

EVENTS = 50
"""How many of the last events /status shows."""


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an admin request; which fields count depends on the verb."""

    serve: str | None = None
    force: bool = False
    drain_timeout: float | None = None
    alias: str | None = None
    evidence: str = ""
    reason: str = ""
    request_id: str | None = None
    prompt: str | None = None
    model: str = "auto"
    task: str | None = None


@dataclass(frozen=True, slots=True)
class StatusSources:
    """Where /status gets what only single parts know."""

    events: Callable[[int], list[dict[str, Any]]] = lambda limit: []
    watchdog: Callable[[str], dict[str, Any]] = lambda serve: {}
    statistics: Callable[[], Mapping[str, ServeStatistics]] = dict
    warm: Callable[[], warm.WarmStatistics | None] = lambda: None
    conversations: Callable[[], conversations.ConversationStatistics | None] = lambda: None
    shadow: Callable[[], dict[str, Any] | None] = lambda: None
    graded: Callable[[str], str] = lambda request_id: ""
    classifier: Callable[[], dict[str, Any] | None] = lambda: None


class Admin:
    """Answers in records; `front` puts them on the wire."""

    def __init__(
        self,
        conductor: Conductor,
        flow: Flow,
        store: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        reload: Callable[[], dict[str, Any]],
        sources: StatusSources = StatusSources(),
        promotions: Promotions | None = None,
    ) -> None:
        self._conductor = conductor
        self._flow = flow
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._reload = reload
        self._sources = sources
        self._promotions = promotions
        self._started = time.time()

    # -- looking -----------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The status document; docs/http.md has its fields."""
        door = self._flow.settings.front_door
        now = self._clock.now()
        kept = self._store.statistics()
        bodies = self._flow.bodies
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started_at": self._started,
            "draining": self._flow.is_draining,
            "frontdoor": {
                "auth": "keys" if door.auth and door.keys else "none",
                "host": door.host,
                "port": door.port,
                "base_url": f"http://{_host(door.host)}:{door.port}/v1",
                "max_active_generations": sum(s.max_active for s in self._flow.settings.names.serves),
                "in_flight": len(self._flow.active),
                "bodies": {"held": bodies.held, "budget": bodies.limit, "refused": bodies.refused},
            },
            "model_slot": status_report.model_slot(self._conductor),
            "slots": status_report.slots(self._conductor, now),
            "serves": self._serves(now),
            "aliases": [] if self._promotions is None else self._promotions.status(),
            "routing": self._routing(),
            "warm": _warm(self._sources.warm()),
            "conversations": _conversations(self._sources.conversations()),
            "events": self._sources.events(EVENTS),
            "decisions": {"kept": kept.kept, "dropped": kept.dropped, "unrecorded": kept.unrecorded},
        }

    def _routing(self) -> dict[str, Any] | None:
        dispatcher = self._flow.settings.dispatcher
        if dispatcher is None:
            return None
        return {
            **dispatcher.router.status(),
            "shadow": self._sources.shadow(),
            "classifier": self._sources.classifier(),
        }

    def _serves(self, now: float) -> list[dict[str, Any]]:
        held = self._sources.statistics()
        kept = self._sources.warm()
        resident = {one.serve: one for one in kept.warm} if kept is not None else {}
        found = status_report.serves(self._conductor, now)
        for one in found:
            name = one["name"]
            measured = held[name].measured if name in held else None
            one["measured_by"] = measured.source.value if measured is not None else None
            one["watchdog"] = self._sources.watchdog(name)
            one["totals"] = self._metrics.totals(name)
            one["temperature"] = _temperature(one["state"], held[name].state if name in held else "", name in resident)
            one["expected"] = (resident[name].why or None) if name in resident else None
        return found

    def metrics(self, status: Mapping[str, Any]) -> bytes:
        """Prometheus text. May run in a thread of its own: the first call imports for some 70 ms."""
        from stoker.store.exposition import expose

        return expose(self._metrics, status)

    def is_up(self, serve: Serve) -> bool:
        """Whether it can answer at once."""
        seat = self._conductor.scheduler.seats.get(serve.name)
        return seat is not None and seat.phase is Phase.READY

    def model(self, name: str, serve: Serve) -> dict[str, Any]:
        """One entry of /v1/models, in a form that OpenAI and Anthropic clients both read."""
        seat = self._conductor.scheduler.seats.get(serve.name)
        about = {
            "serve": serve.name,
            "state": seat.phase.value if seat is not None else "stopped",
            "dialects": sorted(serve.dialects),
            "modalities": list(serve.modalities),
        }
        return {**self._entry(name), "context_length": serve.context, "stoker": about}

    def task(self, name: str) -> dict[str, Any]:
        """The entry of a name that means a task: each request has its serve chosen."""
        return {**self._entry(name), "context_length": None, "stoker": {"serve": None, "state": "routed"}}

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": int(self._started),
            "owned_by": "stoker",
            "type": "model",
            "display_name": name,
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started)),
        }

    # -- doing -------------------------------------------------------------------------------------------------------

    async def answer(
        self, caller: Caller, method: str, verb: str, body: bytes, query: Mapping[str, str]
    ) -> tuple[int, dict[str, Any]]:
        """(status, answer) for /admin/VERB. Raises ClientError 403 (scope), 404 (verb, serve, request), 405, 400."""
        head, _, rest = verb.partition("/")
        if head == "decisions":
            require(caller, Scope.OBSERVE)
            return 200, self._decisions(rest, query)
        require(caller, Scope.ADMIN)
        verbs = {
            "switch": self._switch, "unload": self._unload, "drain": self._drain, "undrain": self._undrain,
            "reload": self._do_reload, "cancel": self._cancel, "promote": self._promote, "demote": self._demote,
            "route": self._route,
        }  # fmt: skip
        if head not in verbs or rest:
            raise ClientError(f"no such admin verb: {verb[:60]!r}; there are {', '.join(verbs)}", status=404)
        if method != "POST":
            raise wrong_method(f"{method} is not for /admin/{head}: use POST", "POST")
        try:
            ask = msgspec.json.decode(body or b"{}", type=Ask)
        except msgspec.DecodeError as error:
            raise ClientError(f"the body of /admin/{head} is wrong: {error}", code="bad_json") from None
        return 200, await verbs[head](ask)

    async def _promote(self, ask: Ask) -> dict[str, Any]:
        return await self._moving(ask).promote(
            _named(ask.alias, "alias"), _named(ask.serve, "serve"), ask.evidence, ask.reason, ask.force
        )

    async def _demote(self, ask: Ask) -> dict[str, Any]:
        return await self._moving(ask).reset(_named(ask.alias, "alias"))

    def _moving(self, ask: Ask) -> Promotions:
        """Raises ClientError 404: no alias is moved here, or not this one."""
        dispatcher = self._flow.settings.dispatcher
        aliases = {} if dispatcher is None else dispatcher.router.settings.aliases
        meant = None if ask.alias is None else aliases.get(ask.alias)
        if meant is not None:
            text = (
                f"alias '{ask.alias}' names a task, '{meant}': it changes with the configuration, nothing promotes it"
            )
            raise ClientError(text, code="unknown_alias", status=404, param="alias")
        if self._promotions is None:
            raise ClientError("this Stoker has no aliases that move", code="unknown_alias", status=404)
        return self._promotions

    async def _route(self, ask: Ask) -> dict[str, Any]:
        dispatcher = self._flow.settings.dispatcher
        if dispatcher is None:
            text = "no tiers are configured: add [[tier]] to the configuration, then `stoker reload`"
            raise ClientError(text, code="no_tiers", status=404)
        router, classes = dispatcher.router, dispatcher.router.classes
        if classes.model_name(ask.model) is None:
            text = f"'{ask.model[:80]}' names no task; there are {', '.join(classes.names)}"
            raise ClientError(text, code="unknown_model", param="model")
        if ask.task is not None and classes.class_name(ask.task) is None:
            text = f"there is no class '{ask.task[:80]}'; there are {', '.join(router.settings.known)}"
            raise ClientError(text, code="unknown_class", param="class")
        outline = router.outline_of(_named(ask.prompt, "prompt"))
        task = classes.task(outline, ask.model, ask.task)
        other = dispatcher.second_opinion
        if other is not None and other.wants(task):
            task = await other.settle(task, outline, False)  # a preview sends no prompt to a cloud
        return router.preview(outline, task)

    async def _switch(self, ask: Ask) -> dict[str, Any]:
        serve = self._named(ask)
        began = self._clock.now()
        done = await self._conductor.switch(serve.name, ask.drain_timeout, ask.force)
        return {"serve": serve.name, "seconds": self._clock.now() - began, "phases": done.phases}

    async def _unload(self, ask: Ask) -> dict[str, Any]:
        serve = self._named(ask)
        began = self._clock.now()
        await self._conductor.unload(serve.name, ask.drain_timeout)
        return {"serve": serve.name, "seconds": self._clock.now() - began}

    async def _drain(self, ask: Ask) -> dict[str, Any]:
        return self._hold(ask, True)

    async def _undrain(self, ask: Ask) -> dict[str, Any]:
        return self._hold(ask, False)

    def _hold(self, ask: Ask, held: bool) -> dict[str, Any]:
        if ask.serve is None:
            self._flow.drain(held)
        else:
            self._conductor.hold(self._named(ask).name, held)
        return {"serve": ask.serve, "draining": held}

    async def _do_reload(self, ask: Ask) -> dict[str, Any]:
        try:
            return self._reload()
        except ConfigError as error:
            text = f"nothing was changed, the new configuration has problems:\n{error.message}"
            raise ClientError(text, code="config_error") from None

    async def _cancel(self, ask: Ask) -> dict[str, Any]:
        if not ask.request_id:
            raise ClientError("'request_id' is missing: which one?", code="bad_field", param="request_id")
        if not self._flow.cancel(ask.request_id):
            raise ClientError(f"no request {ask.request_id!r} is under way", code="no_request", status=404)
        return {"request_id": ask.request_id, "cancelled": True}

    def _decisions(self, request_id: str, query: Mapping[str, str]) -> dict[str, Any]:
        if request_id:
            found = self._store.find(request_id)
            if found is None:
                text = f"no decision is kept under {request_id[:80]!r}: it is too old, or one of many like refusals"
                raise ClientError(text, code="no_decision", status=404)
            if found.routed is not None and (graded := self._sources.graded(found.id)):
                found = replace(found, routed=replace(found.routed, graded=graded))
            return {"decision": msgspec.to_builtins(found)}
        limit = query.get("limit", "50")
        if not (limit.isascii() and limit.isdigit()):
            raise ClientError("limit must be a number", code="bad_field", param="limit")
        return {"decisions": [msgspec.to_builtins(d) for d in self._store.recent(min(int(limit), 10_000))]}

    def _named(self, ask: Ask) -> Serve:
        if not ask.serve:
            raise ClientError("'serve' is missing: which one?", code="bad_field", param="serve")
        return self._flow.settings.names.resolve(ask.serve, lambda serve: True)


def _temperature(state: str, held: str, is_kept: bool) -> str | None:
    """`hot` on its device, `asleep` or `warm` in host memory, `cold`; None while it is on its way."""
    if held == "asleep":
        return "asleep"
    if state in ("ready", "draining", "held"):
        return "hot"
    if state in ("starting", "stopping"):
        return None
    return "warm" if is_kept else "cold"


def _warm(kept: warm.WarmStatistics | None) -> dict[str, Any] | None:
    """The warm pool as /status shows it. Bytes."""
    if kept is None:
        return None
    return {
        "budget": kept.budget,
        "used": kept.size,
        "holder": kept.holder,
        "holder_restarts": kept.restarts,
        "paused": kept.is_paused,
        "predictions": dict(kept.predictions),
        "models": [
            {"name": one.serve, "how": one.how, "bytes": one.size, "read": one.read, "locked": one.locked,
             "pinned": one.pinned, "why": one.why or None, "problem": one.problem or None}
            for one in kept.warm
        ],
    }  # fmt: skip


def _conversations(kept: conversations.ConversationStatistics | None) -> dict[str, Any] | None:
    """What is saved of conversations, as /status shows it, and what came of it since the start."""
    if kept is None:
        return None
    return {
        "files": kept.files,
        "bytes": kept.size,
        "saved": kept.saved,
        "not_saved": kept.not_saved,
        "restored": kept.restored,
        "not_restored": kept.not_restored,
    }


def _named(value: str | None, field: str) -> str:
    if not value:
        raise ClientError(f"'{field}' is missing", code="bad_field", param=field)
    return value


def _host(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host
