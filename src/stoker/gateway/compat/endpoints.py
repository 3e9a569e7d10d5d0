"""Answers the paths of llama-swap and of llama.cpp's router.

Their answers are those of llama-swap v250 (internal/server/api.go, apigroup.go, log.go) and of llama.cpp's router
(tools/server/server-models.cpp). Reading needs scope observe, acting on serves needs scope admin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stoker import __version__
from stoker.access.caller import Caller, require
from stoker.domain.access import CompatPaths
from stoker.domain.errors import ClientError
from stoker.domain.key import Scope
from stoker.domain.serve import Serve
from stoker.exchange.request_context import RequestContext
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.compat.log_tail import LogTail
from stoker.gateway.compat.model_control import ModelControl
from stoker.gateway.compat.streams import OpenStreams
from stoker.gateway.flow import Flow
from stoker.gateway.upstream import UpstreamRequests
from stoker.request.accept.connection import read_body
from stoker.request.decide.names import Names

UNLOAD_ONE = "/api/models/unload/"
STREAM_OF = "/logs/stream/"
_SMALL = 1 << 20
"""Bytes of a body that only names a model."""
_JSON, _TEXT, _EVENTS = b"application/json", b"text/plain; charset=utf-8", b"text/event-stream"


class PathRule(NamedTuple):
    """Which program has a path, and what its callers need."""

    llama_swap: bool
    llama_cpp: bool
    scope: Scope = Scope.INFERENCE


PATHS = {
    "/running": PathRule(True, False, Scope.OBSERVE),
    "/unload": PathRule(True, False, Scope.ADMIN),
    "/api/models/unload": PathRule(True, False, Scope.ADMIN),
    UNLOAD_ONE: PathRule(True, False, Scope.ADMIN),
    "/logs": PathRule(True, False, Scope.ADMIN),
    "/logs/stream": PathRule(True, False, Scope.ADMIN),
    STREAM_OF: PathRule(True, False, Scope.ADMIN),
    "/models": PathRule(True, True),
    "/models/load": PathRule(False, True, Scope.ADMIN),
    "/models/unload": PathRule(False, True, Scope.ADMIN),
    "/models/sse": PathRule(False, True, Scope.OBSERVE),
    "/props": PathRule(True, True),
    "/infill": PathRule(True, True),
    "/completion": PathRule(True, True),
}
"""Every path, or the beginning of paths that end with a name."""


def refuse_unless_offered(path: str, caller: Caller, enabled: CompatPaths) -> None:
    """Raises ClientError 404 if the path is switched off, 403 if the caller's scope is too small."""
    rule = PATHS[next((start for start in (UNLOAD_ONE, STREAM_OF) if path.startswith(start)), path)]
    if not ((rule.llama_swap and enabled.llama_swap) or (rule.llama_cpp and enabled.llama_cpp)):
        setting = "llama_swap" if rule.llama_swap else "llama_cpp"
        text = f"there is no path {path[:100]!r} here; set {setting} = true under [compat], then `stoker reload`"
        raise ClientError(text, code="no_route", status=404)
    require(caller, rule.scope)


class CompatEndpoints:
    """Answers everything but `/models`, which is `/v1/models`."""

    def __init__(self, flow: Flow, conductor: Conductor, upstream: UpstreamRequests, logs: Path) -> None:
        """`logs`: the directory with the log of each serve."""
        self._flow = flow
        self._conductor = conductor
        self._upstream = upstream
        self._logs = logs
        self._control = ModelControl(conductor, asyncio.get_running_loop())
        self._streams = OpenStreams(lambda: conductor.is_closing)

    async def handle(self, context: RequestContext, caller: Caller, path: str, query: Mapping[str, str]) -> None:
        """Answer a request that `refuse_unless_offered` let through. Raises StokerError, and what `read_body` raises.

        On cancel, loads and unloads that began go on.
        """
        names = self._flow.settings.names
        if path in ("/infill", "/completion"):
            body = await read_body(context.exchange, self._flow.settings.front_door.body_limit)
            serve = names.resolve(_model_of(body), caller.may_use)
            await self._upstream.pass_on(context, caller, serve, path[1:], self._passes_to_any_engine, body)
        elif path == "/props":
            await self._props(context, caller, query)
        elif path == "/models/sse":
            await self._send_events(context, caller)
        elif path.startswith("/logs"):
            await self._send_logs(context, caller, path, query)
        else:
            body = b"" if context.exchange.method == "GET" else await read_body(context.exchange, _SMALL)
            kind, text = await self._act(caller, path, body, names)
            if context.exchange.method == "GET":
                context.exchange.close_after()  # it may have a body, which is not read
            context.reply.send_whole(200, [(b"content-type", kind)], text)

    async def _act(self, caller: Caller, path: str, body: bytes, names: Names) -> tuple[bytes, bytes]:
        """Content type and body."""
        if path == "/running":
            return _JSON, msgspec.json.encode({"running": self._control.running(names.serves)})
        if path == "/unload":
            await self._control.unload_all(names.serves)
            return _TEXT, b"OK"
        if path == "/api/models/unload":
            await self._control.unload_all(names.serves)
            return _JSON, b'{"msg":"ok"}'
        if path.startswith(UNLOAD_ONE):
            await self._control.unload(names.resolve(path[len(UNLOAD_ONE) :], caller.may_use))
            return _TEXT, b"OK"
        serve = names.resolve(_model_of(body), caller.may_use)
        if path == "/models/load":
            await self._control.begin_load(serve)
        else:
            await self._control.begin_unload(serve)
        return _JSON, b'{"success":true}'

    @property
    def _passes_to_any_engine(self) -> bool:
        """Whether llama.cpp's paths are passed on to engines that may not have them."""
        return self._flow.settings.compat.llama_swap

    # -- llama.cpp -----------------------------------------------------------------------------------------------

    async def _props(self, context: RequestContext, caller: Caller, query: Mapping[str, str]) -> None:
        model = query.get("model", "")
        if not model:
            context.reply.send_whole(200, [(b"content-type", _JSON)], msgspec.json.encode(_router_props()))
            return
        serve = self._flow.settings.names.resolve(model, caller.may_use)
        if query.get("autoload", "true") not in ("true", "1") and not self._conductor.residency.is_loaded(serve.name):
            raise ClientError("model is not loaded", code="not_loaded", param="model")
        await self._upstream.pass_on(context, caller, serve, "props", self._passes_to_any_engine)

    async def _send_events(self, context: RequestContext, caller: Caller) -> None:
        seen: dict[str, tuple[str, int | None]] = {}

        async def poll() -> bytes:
            usable = (one for one in self._flow.settings.names.serves if caller.may_use(one))
            return self._control.status_events(usable, seen)

        await poll()
        await self._streams.send(context, _EVENTS, poll, ping=b": ping\n\n")

    # -- llama-swap ----------------------------------------------------------------------------------------------

    async def _send_logs(self, context: RequestContext, caller: Caller, path: str, query: Mapping[str, str]) -> None:
        tail = self._tail(path[len(STREAM_OF) :], caller)
        if path == "/logs":
            context.reply.send_whole(200, [(b"content-type", _TEXT)], await asyncio.to_thread(tail.history))
            return
        first = b""
        if "no-history" in query:
            await asyncio.to_thread(tail.skip)
        else:
            first = await asyncio.to_thread(tail.history)

        async def poll() -> bytes:
            nonlocal first
            text, first = first or await asyncio.to_thread(tail.read), b""
            return text

        await self._streams.send(context, _TEXT, poll)

    def _tail(self, name: str, caller: Caller) -> LogTail:
        """`name`: `proxy` (Stoker's own log), `upstream` (the serves'), a model, or empty for all of them."""
        own = self._logs / "stoker.log"
        if name == "proxy":
            return LogTail(lambda: [own])
        if name == "upstream":
            return LogTail(lambda: self._serve_logs(self._flow.settings.names.serves))
        if not name:
            return LogTail(lambda: [own, *self._serve_logs(self._flow.settings.names.serves)])
        serve = self._flow.settings.names.find(name, caller.may_use)
        if serve is None or not caller.may_use(serve):
            text = f"no log is named {name[:100]!r}: use 'proxy', 'upstream' or the name of a model"
            raise ClientError(text, code="unknown_log")
        return LogTail(lambda: self._serve_logs((serve,)))

    def _serve_logs(self, serves: Iterable[Serve]) -> list[Path]:
        return [path for one in serves if (path := self._logs / f"{one.name}.log").exists()]


class _ModelRequest(msgspec.Struct):
    model: str


def _model_of(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_ModelRequest).model
    except msgspec.DecodeError:
        text = 'the body has to name the model: {"model": "NAME"}'
        raise ClientError(text, code="bad_json", param="model") from None


def _router_props() -> dict[str, Any]:
    """The answer of llama.cpp's router without a model: its `role` tells clients that they can load and unload."""
    return {
        "role": "router", "max_instances": 0, "models_autoload": True, "model_alias": "stoker", "model_path": "none",
        "default_generation_settings": {"params": {}, "n_ctx": 0}, "build_info": f"stoker {__version__}",
    }  # fmt: skip
