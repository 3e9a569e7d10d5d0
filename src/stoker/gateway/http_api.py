"""The front door: dispatches each request by its method and path.

1. an ambiguous head is refused
2. health and preflight requests of browsers are answered without a key
3. Host, Origin and key are checked before the path, so that a refusal does not reveal which paths exist
4. the route is found; web pages of other sites may not use routes with side effects
5. inference goes to `flow`, everything else to one of the `Endpoints`
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec

from stoker.access.access_control import AccessControl, refuse_repeated
from stoker.access.caller import Caller, require
from stoker.access.refusals import Refusals
from stoker.domain.dialect import ApiFamily, Dialect
from stoker.domain.errors import ClientError, ClientLeft, OurBug, StokerError
from stoker.domain.key import Scope
from stoker.domain.serve import Serve
from stoker.domain.server_tools import ServerToolKind
from stoker.exchange.planner import ToolPlanner
from stoker.exchange.request_context import RequestContext
from stoker.gateway.admin import Admin
from stoker.gateway.compat.endpoints import CompatEndpoints, refuse_unless_offered
from stoker.gateway.events.streams import EventStreams
from stoker.gateway.flow import Flow
from stoker.gateway.hand_over import HandOverRequests
from stoker.gateway.image_options import DONE, check_options
from stoker.gateway.models import ModelList
from stoker.gateway.ollama import OllamaEndpoints
from stoker.gateway.openapi import openapi_json
from stoker.gateway.realtime import RealtimeSessions
from stoker.gateway.response_sockets import ResponseSockets
from stoker.gateway.responses import StoredResponses, owner_of
from stoker.gateway.status import StatusReport
from stoker.gateway.upstream import UpstreamRequests
from stoker.gateway.usage import UsagePages
from stoker.gateway.web.page import WebPage, redirect
from stoker.request.accept.bodies import ReadTurns
from stoker.request.accept.connection import HttpExchange, IdleConnections, read_body
from stoker.request.accept.routes import PUBLIC, Route, RouteKind, Routes
from stoker.request.codec.websocket import subprotocols
from stoker.request.outbox import Outbox
from stoker.store.metrics import CONTENT_TYPE

log = logging.getLogger("stoker.front")
JSON: Final = [(b"content-type", b"application/json")]
_OLLAMA: Final = ApiFamily.OLLAMA
"""To read it from its class would take five times as long."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The parts that answer everything but inference."""

    admin: Admin
    status: StatusReport
    models: ModelList
    ollama: OllamaEndpoints = field(default_factory=OllamaEndpoints)
    usage: UsagePages | None = None
    responses: StoredResponses | None = None
    compat: CompatEndpoints | None = None
    events: EventStreams | None = None
    page: WebPage | None = None


class HttpApi:
    """Answers requests. Every answer is written to the request's `HttpExchange`."""

    def __init__(
        self,
        flow: Flow,
        door: AccessControl,
        endpoints: Endpoints,
        on_refused: Callable[[str, str], None] = lambda reason, origin: None,
    ) -> None:
        """`on_refused(reason, origin)`: a request was refused before it reached a serve or an admin verb."""
        self.flow = flow
        self.door = door
        self._loop = asyncio.get_running_loop()
        self.outbox = Outbox(self._loop)
        self.bodies = flow.bodies
        self.idle = IdleConnections()
        self.read_turns = ReadTurns(self._loop)
        self.hand_over = HandOverRequests(self.idle, lambda: flow.settings.front_door)
        self.routes = Routes(flow.settings.front_door.prefixes)
        self.upstream = UpstreamRequests(flow)
        self.realtime = RealtimeSessions(flow)
        self.response_sockets = ResponseSockets(flow, self.handle, endpoints.responses)
        self._endpoints = endpoints
        self._refusals = Refusals(on_refused, self._loop.time)
        page = () if endpoints.page is None else endpoints.page.paths
        self._public = {**PUBLIC, **dict.fromkeys(page, self.routes.match("GET", "/ui"))}

    def handle(self, exchange: HttpExchange) -> Coroutine[Any, Any, None] | None:
        """Answer now, or return the coroutine that will. Raises nothing."""
        call = self.flow.open(exchange)
        try:
            _check_head(exchange)  # 1
            if self.routes.has_prefixes:
                exchange.path = self.routes.inside(exchange.path)
            if self.door.proxies is not None and not exchange.is_local:
                self.door.proxies.apply(exchange)
            pages = self.door.pages
            if pages.has_allowed_origins and not exchange.is_local:
                call.reply.headers.update(pages.reply_headers(exchange.headers))
            if exchange.path in self._public and exchange.method in ("GET", "HEAD"):  # 2
                self._simple(call, self._public[exchange.path])
                return None
            if exchange.method == "OPTIONS" and not exchange.is_local and self._cors_preflight(call):
                return None
            if exchange.offers_websocket:
                _use_subprotocol_key(exchange)
            caller = self.door.admit(exchange.headers, exchange.is_local, exchange.scheme)  # 3
            route = self.routes.match(exchange.method, exchange.path)  # 4
            if route.has_side_effects and not exchange.is_local:
                pages.refuse_embedding(exchange.headers)
            _check_coding(exchange)
            if route.endpoint is not None and route.endpoint.dialect.spec.api is _OLLAMA:
                self._endpoints.ollama.admit(caller, route.endpoint.path, self.flow.settings.front_door.ollama_api)
        except StokerError as error:
            self._turn_away(call, error)
            return None
        except Exception:
            self._broke(call)
            return None
        if route.endpoint is not None:  # 5
            return self.flow.serve(call, caller, route.endpoint)
        return self._other(call, caller, route)

    def _cors_preflight(self, context: RequestContext) -> bool:
        """Answer a preflight request for an allowed page. False: it is no such request. Raises as `check_page`.

        The path is not checked: without a key, a reply must not reveal which paths exist.
        """
        headers = self.door.pages.preflight(context.exchange.method, context.exchange.headers)
        if headers is None:
            return False
        self.door.check_page(context.exchange.headers, context.exchange.scheme)
        context.reply.headers.update(headers)
        self._whole(context, 204, [], b"")
        return True

    async def _other(self, context: RequestContext, caller: Caller, route: Route) -> None:
        """Everything but inference. Raises nothing but CancelledError."""
        wire = context.exchange
        try:
            match route.kind:
                case RouteKind.UPSTREAM:
                    await self.upstream.handle(context, caller, route.rest)
                case RouteKind.ADMIN if route.rest == "hand-over":
                    require(caller, Scope.ADMIN)
                    if not wire.is_local or wire.method != "POST":
                        problem = "a new process asks for the sockets over the control socket: `stoker up --replace`"
                        raise ClientError(problem, code="local_only", status=403)
                    accepted = self.hand_over.accept(wire.connection, await read_body(wire, 1 << 20))
                    context.reply.send_whole(200, JSON, msgspec.json.encode(accepted))
                case RouteKind.ADMIN:
                    body = await read_body(wire, 1 << 20)
                    _require_json(wire)
                    work = self._endpoints.admin.handle(caller, wire.method, route.rest, body, _query(wire))
                    # A verb may use asyncio.timeout and the like, which need a real task, and not an InlineTask.
                    answer = await self._loop.create_task(work, name=f"admin-{route.rest}")
                    context.reply.send_whole(200, [*JSON, *answer.headers], msgspec.json.encode(answer.document))
                case RouteKind.MODELS:
                    self._json(context, self._models(caller, route.rest))
                case RouteKind.OLLAMA:
                    self._endpoints.ollama.admit(caller, route.rest, self.flow.settings.front_door.ollama_api)
                    body = await read_body(wire, 1 << 20)
                    if route.rest.rpartition("/")[2] in tuple(ServerToolKind):
                        found = await self._run_tool(context, caller, route.rest, body)
                        context.reply.send_whole(200, JSON, msgspec.json.encode(found))
                    else:
                        kind, text = self._ollama_answer(caller, route.rest, body)
                        context.reply.send_whole(200, [(b"content-type", kind)], text)
                case RouteKind.RESPONSES | RouteKind.CONVERSATIONS if self._endpoints.responses is not None:
                    body = await read_body(wire, self.flow.settings.front_door.body_limit)
                    document = await self._endpoints.responses.handle(
                        owner_of(context, caller), wire.method, route.kind, route.rest, _query(wire), body
                    )
                    context.reply.send_whole(200, JSON, msgspec.json.encode(document))
                case RouteKind.REALTIME:
                    await self.realtime.handle(context, caller)
                case RouteKind.RESPONSE_SOCKET:
                    await self.response_sockets.handle(context)
                case RouteKind.COMPAT if self._endpoints.compat is not None:
                    refuse_unless_offered(route.rest, caller, self.flow.settings.compat)
                    if route.rest == "/models":
                        self._json(context, self._models(caller, ""))
                    else:
                        await self._endpoints.compat.handle(context, caller, route.rest, _query(wire))
                case RouteKind.IMAGE_OPTIONS:
                    check_options(await read_body(wire, 1 << 20), caller, self.flow.settings.names)
                    context.reply.send_whole(200, JSON, DONE)
                case RouteKind.STATUS:
                    require(caller, Scope.OBSERVE)
                    self._json(context, self._endpoints.status.document())
                case RouteKind.EVENTS if self._endpoints.events is not None:
                    admit = partial(self.door.admit, wire.headers, wire.is_local, wire.scheme)
                    await self._endpoints.events.handle(context, admit, _query(wire))
                case RouteKind.SESSION if self._endpoints.page is not None:
                    body = await read_body(wire, 1 << 20)
                    _require_json(wire)
                    session = self._endpoints.page.session(wire, caller, body)
                    context.reply.send_whole(200, [*JSON, *session.headers], msgspec.json.encode(session.document))
                case RouteKind.USAGE if self._endpoints.usage is not None:
                    self._json(context, await self._endpoints.usage.report(caller, _query(wire)))
                case RouteKind.METRICS:
                    require(caller, Scope.OBSERVE)
                    text = await asyncio.to_thread(self._endpoints.status.metrics, self._endpoints.status.document())
                    self._whole(context, 200, [(b"content-type", CONTENT_TYPE.encode())], text)
                case _:
                    self._simple(context, route)
        except StokerError as error:
            self._refuse(context, error)
        except ClientLeft:
            context.reply.abandon()
        except asyncio.CancelledError:
            context.reply.break_off()
            raise
        except Exception:
            self._broke(context)

    def _turn_away(self, context: RequestContext, error: StokerError) -> None:
        """Refuse a request at the front door. The replies to guessed keys are delayed."""
        error, seconds = self._refusals.record(error, context.exchange.address)
        if seconds <= 0:
            self._refuse(context, error)
            return
        if _has_body(context.exchange):
            context.exchange.refuse_body()  # else it would be read without a limit during the delay
        self._loop.call_later(seconds, self._refuse_late, context, error)

    def _refuse_late(self, context: RequestContext, error: StokerError) -> None:
        self._refusals.answered()
        self._refuse(context, error)

    def _refuse(self, context: RequestContext, error: StokerError) -> None:
        dialect = context.reply.dialect or self.routes.dialect(context.exchange.path)
        if dialect is None and b"anthropic-version" in context.exchange.headers:
            dialect = Dialect.MESSAGES  # both APIs have paths such as /v1/models and /v1/files
        context.reply.set_dialect(dialect)
        context.reply.fail(error, close=_has_body(context.exchange))

    def _broke(self, context: RequestContext) -> None:
        log.exception("%s %s broke inside Stoker", context.exchange.method, context.exchange.path)
        context.reply.fail(OurBug(f"a bug in Stoker: its log has the details under {context.decision.id}"), close=True)

    def _simple(self, context: RequestContext, route: Route) -> None:
        draining = self.flow.is_draining
        if route.kind is RouteKind.PAGE and self._endpoints.page is not None:
            self._whole(context, *self._endpoints.page.file(context.exchange))
        elif route.kind is RouteKind.ROOT and self._endpoints.page is not None and _is_browser(context.exchange):
            self._whole(context, *redirect(context.exchange.raw_path))
        elif route.kind is RouteKind.ROOT:
            prefix = context.exchange.raw_path.decode("latin-1").rstrip("/")
            self._json(context, {"name": "stoker", "models": f"{prefix}/v1/models", "status": f"{prefix}/status"})
        elif route.kind is RouteKind.OPENAPI:
            self._whole(context, 200, JSON, openapi_json())
        elif route.kind is RouteKind.READY and draining:
            self._whole(context, 503, JSON, b'{"status":"draining"}')
        elif context.exchange.path == "/health" and not draining and self._answers_as_llama_swap():
            self._whole(context, 200, [(b"content-type", b"text/plain")], b"OK")
        else:
            self._json(context, {"status": "draining" if draining else "ok"})

    def _answers_as_llama_swap(self) -> bool:
        """Whether a path that llama-swap and llama.cpp both have is answered as the first does."""
        compat = self.flow.settings.compat
        return compat.llama_swap and not compat.llama_cpp

    def _models(self, caller: Caller, wanted: str) -> dict[str, Any]:
        """The list in a form that OpenAI and Anthropic clients both read; or one entry of it."""
        settings = self.flow.settings
        names = settings.names
        if wanted and (about := settings.describe(wanted, caller)) is not None:
            return self._endpoints.models.planned(wanted, about)
        if wanted:
            return self._endpoints.models.serve(wanted, names.resolve(wanted, caller.may_use))
        data = [self._endpoints.models.serve(name, serve) for name, serve in names.listed(caller.may_use)]
        for name in settings.listed(caller, settings.front_door.list_aliases):
            if (about := settings.describe(name, caller)) is not None:
                data.append(self._endpoints.models.planned(name, about))
        if self.flow.settings.compat.llama_cpp:
            data = [self._endpoints.models.with_load_status(entry) for entry in data]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return {"object": "list", "data": data, "has_more": False, **ends}

    async def _run_tool(self, context: RequestContext, caller: Caller, path: str, body: bytes) -> dict[str, Any]:
        """It ends if the client leaves. Raises as `OllamaEndpoints.web`."""
        wire, tools = context.exchange, self.flow.settings.tool_planner or ToolPlanner()
        wire.on_lost = context.leave
        try:
            return await context.run_cancellable(self._endpoints.ollama.web(path, body, caller, tools))
        finally:
            wire.on_lost = None

    def _ollama_answer(self, caller: Caller, path: str, body: bytes) -> tuple[bytes, bytes]:
        """Content type and body."""
        settings = self.flow.settings
        names = settings.names

        def find(name: str) -> Serve | None:
            is_without_serve = settings.describe(name, caller) is not None
            return None if is_without_serve else names.resolve(name, caller.may_use)

        if path == "/api/pull":
            return self._endpoints.ollama.pull(body, find)
        serves, tasks = names.listed(caller.may_use), settings.listed(caller, settings.front_door.list_aliases)
        answer = self._endpoints.ollama.handle(path, body, serves, tasks, find, self._endpoints.models.is_up)
        return b"application/json", msgspec.json.encode(answer)

    def _json(self, context: RequestContext, answer: Mapping[str, Any]) -> None:
        self._whole(context, 200, JSON, msgspec.json.encode(answer))

    def _whole(self, context: RequestContext, status: int, kind: list[tuple[bytes, bytes]], body: bytes) -> None:
        if _has_body(context.exchange):  # the body of a GET is never read: it must not be parsed as the next request
            context.exchange.close_after()
        context.reply.send_whole(status, kind, body)


def _is_browser(exchange: HttpExchange) -> bool:
    return b"text/html" in exchange.headers.get(b"accept", b"")


def _has_body(exchange: HttpExchange) -> bool:
    return b"transfer-encoding" in exchange.headers or exchange.headers.get(b"content-length", b"0") != b"0"


def _check_head(exchange: HttpExchange) -> None:
    """Raises ClientError 400: a header that decides something occurs twice, or there is no Host."""
    if exchange.has_repeated_headers:
        refuse_repeated(exchange.raw_headers)
    if b"host" not in exchange.headers and exchange.version != "1.0":
        raise ClientError("the request has no Host header, which HTTP/1.1 requires", code="no_host")


def _check_coding(exchange: HttpExchange) -> None:
    """Raises ClientError 415 for a compressed body."""
    coding = exchange.headers.get(b"content-encoding")
    if coding is not None and coding.strip().lower() not in (b"", b"identity"):
        text = f"the body's Content-Encoding is {coding[:40].decode('latin-1')!r}: send it uncompressed"
        raise ClientError(text, code="content_encoding", status=415, headers={"accept-encoding": "identity"})


def _use_subprotocol_key(exchange: HttpExchange) -> None:
    """A browser's page cannot set Authorization in a handshake."""
    _, key = subprotocols(exchange.headers)
    if key and b"authorization" not in exchange.headers:
        exchange.headers[b"authorization"] = b"Bearer " + key


def _require_json(exchange: HttpExchange) -> None:
    """Raises ClientError 415. A form in a page of another site cannot send this type without a preflight request."""
    kind = exchange.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if exchange.method != "GET" and kind != b"application/json":
        text = "a request that changes state needs 'Content-Type: application/json'"
        raise ClientError(text, code="content_type", status=415)


def _query(exchange: HttpExchange) -> dict[str, str]:
    pairs = (part.partition("=") for part in exchange.query.decode("latin-1").split("&") if part)
    return {unquote_plus(name): unquote_plus(value) for name, _, value in pairs}
