"""The front door: what a method and a path lead to.

1. a head that can be read in two ways is refused
2. health is answered to everybody, and so is a browser that asks whether a page may come in
3. Host, Origin, key: refused before it is said whether the path exists
4. the route; what acts is not for pages of somebody else
5. inference goes to `flow`, the rest is answered here or in `admin`
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from stoker.domain.access import Scope
from stoker.domain.decision import Candidate
from stoker.domain.dialect import OLLAMA
from stoker.domain.errors import ClientError, ClientLeft, OurBug, StokerError
from stoker.domain.serve import Serve
from stoker.exchange.call import Call
from stoker.gateway.admin import Admin
from stoker.gateway.flow import Flow
from stoker.gateway.ollama import OllamaEndpoints
from stoker.request.accept.body import read_body
from stoker.request.accept.door import Caller, Door, refuse_repeated, require
from stoker.request.accept.refusals import Refusals
from stoker.request.accept.routes import Kind, Route, Routes
from stoker.request.accept.wire import Wire
from stoker.request.outbox import Outbox
from stoker.store.metrics import CONTENT_TYPE

log = logging.getLogger("stoker.front")
JSON = [(b"content-type", b"application/json")]
_HEALTH = Route(Kind.HEALTH)

UPSTREAM: dict[str, dict[tuple[str, str], bool]] = {
    "llama.cpp": {
        ("GET", "health"): False, ("GET", "v1/models"): False, ("GET", "props"): False, ("GET", "metrics"): False,
        ("POST", "tokenize"): False, ("POST", "detokenize"): False, ("POST", "apply-template"): False,
        ("POST", "v1/responses/input_tokens"): False, ("POST", "v1/chat/completions/input_tokens"): False,
        ("POST", "infill"): True, ("POST", "completion"): True, ("POST", "embedding"): True,
        ("POST", "rerank"): True,
    },
    "openai": {
        ("GET", "health"): False, ("GET", "v1/models"): False, ("GET", "version"): False, ("GET", "metrics"): False,
        ("POST", "tokenize"): False, ("POST", "detokenize"): False, ("POST", "v1/score"): True,
    },
}  # fmt: skip
"""What `/upstream/SERVE/PATH` lets through, exactly, per engine; True: the request takes one of the serve's places.
Nothing here changes a serve's state: no slot save, sleep, load, or writing of props."""


class Front:
    """Answers requests. Everything goes out over the request's `Wire`."""

    def __init__(
        self,
        flow: Flow,
        door: Door,
        admin: Admin,
        ollama: OllamaEndpoints | None = None,
        on_refused: Callable[[str, str], None] = lambda reason, origin: None,
    ) -> None:
        """`on_refused(reason, origin)`: something was refused before it came to a serve or an operator's verb."""
        self.flow = flow
        self.door = door
        self._loop = asyncio.get_running_loop()
        self.outbox = Outbox(self._loop)
        self.bodies = flow.bodies
        self.routes = Routes(flow.settings.front_door.prefixes)
        self._admin = admin
        self._ollama = ollama or OllamaEndpoints(flow.settings.front_door, lambda key, path, answer: None)
        self._refusals = Refusals(on_refused, self._loop.time)

    def answer(self, wire: Wire) -> Coroutine[Any, Any, None] | None:
        """Answer, or return what will. Raises nothing."""
        call = self.flow.open(wire)
        try:
            _check_head(wire)  # 1
            pages = self.door.pages
            if pages.are_allowed and not wire.is_local:
                call.reply.headers.update(pages.reply_headers(wire.headers))
            if wire.path == "/healthz" and wire.method in ("GET", "HEAD"):  # 2
                self._simple(call, _HEALTH)
                return None
            if wire.method == "OPTIONS" and not wire.is_local and self._preflight(call):
                return None
            caller = self.door.admit(wire.headers, wire.is_local)  # 3
            route = self.routes.match(wire.method, wire.path)  # 4
            if route.acts and not wire.is_local:
                pages.refuse_embedding(wire.headers)
            _check_coding(wire)
            if route.endpoint is not None and route.endpoint.dialect in OLLAMA:
                self._ollama.admit(caller, route.endpoint.path)
        except StokerError as error:
            self._turn_away(call, error)
            return None
        except Exception:
            self._broke(call)
            return None
        if route.endpoint is not None:  # 5
            return self.flow.serve(call, caller, route.endpoint)
        return self._other(call, caller, route)

    def _preflight(self, call: Call) -> bool:
        """Whether this was a browser's question about an allowed page; it is answered. Raises what `check_page` does.

        The path is not looked at: who has no key is not told which ones there are.
        """
        told = self.door.pages.preflight(call.wire.method, call.wire.headers)
        if told is None:
            return False
        self.door.check_page(call.wire.headers)
        call.reply.headers.update(told)
        self._whole(call, 204, [], b"")
        return True

    async def _other(self, call: Call, caller: Caller, route: Route) -> None:
        """Whatever is no inference. Never raises but CancelledError."""
        wire = call.wire
        try:
            match route.kind:
                case Kind.UPSTREAM:
                    await self._upstream(call, caller, route)
                case Kind.ADMIN:
                    body = await read_body(wire, 1 << 20)
                    _require_json(wire)
                    asked = self._admin.answer(caller, wire.method, route.rest, body, _query(wire))
                    # What an operator asks for may need to know its task; a Turn is none.
                    status, answer = await asyncio.get_running_loop().create_task(asked, name=f"admin-{route.rest}")
                    call.reply.whole(status, JSON, msgspec.json.encode(answer))
                case Kind.MODELS:
                    self._json(call, self._models(caller, route.rest))
                case Kind.OLLAMA:
                    self._ollama.admit(caller, route.rest)
                    self._json(call, self._ollama_answer(caller, route.rest, await read_body(wire, 1 << 20)))
                case Kind.STATUS:
                    require(caller, Scope.OBSERVE)
                    self._json(call, self._admin.status())
                case Kind.METRICS:
                    require(caller, Scope.OBSERVE)
                    text = await asyncio.to_thread(self._admin.metrics, self._admin.status())
                    self._whole(call, 200, [(b"content-type", CONTENT_TYPE.encode())], text)
                case _:
                    self._simple(call, route)
        except StokerError as error:
            self._refuse(call, error)
        except ClientLeft:
            call.reply.abandon()
        except asyncio.CancelledError:
            call.reply.break_off()
            raise
        except Exception:
            self._broke(call)

    def _turn_away(self, call: Call, error: StokerError) -> None:
        """Refuse what came no further than the front door; keys that are guessed are answered late."""
        error, seconds = self._refusals.note(error, call.wire.address)
        if seconds <= 0:
            self._refuse(call, error)
            return
        if _has_body(call.wire):
            call.wire.refuse_body()  # nobody would bound it while the answer waits
        self._loop.call_later(seconds, self._refuse_late, call, error)

    def _refuse_late(self, call: Call, error: StokerError) -> None:
        self._refusals.answered()
        self._refuse(call, error)

    def _refuse(self, call: Call, error: StokerError) -> None:
        call.reply.dialect = call.reply.dialect or self.routes.dialect(call.wire.path)
        call.reply.fail(error, close=_has_body(call.wire))

    def _broke(self, call: Call) -> None:
        log.exception("%s %s broke inside Stoker", call.wire.method, call.wire.path)
        call.reply.fail(OurBug(f"Stoker failed; its log has the details under {call.decision.id}"), close=True)

    def _simple(self, call: Call, route: Route) -> None:
        draining = self.flow.is_draining
        if route.kind is Kind.ROOT:
            self._json(call, {"name": "stoker", "models": "/v1/models", "status": "/status"})
        elif route.kind is Kind.READY and draining:
            self._whole(call, 503, JSON, b'{"status":"draining"}')
        else:
            self._json(call, {"status": "draining" if draining else "ok"})

    def _models(self, caller: Caller, wanted: str) -> dict[str, Any]:
        """The list in a form that OpenAI and Anthropic clients both read; or one entry of it."""
        names = self.flow.settings.names
        if wanted and self._is_task(caller, wanted):
            return self._admin.task(wanted)
        if wanted:
            return self._admin.model(wanted, names.resolve(wanted, caller.may_use))
        data = [self._admin.model(name, serve) for name, serve in names.listed(caller.may_use)]
        data += [self._admin.task(name) for name in self._tasks(caller)]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return {"object": "list", "data": data, "has_more": False, **ends}

    def _tasks(self, caller: Caller) -> list[str]:
        """Names that ask Stoker to choose, as a list of models shows them."""
        dispatcher = self.flow.settings.dispatcher
        listed = () if dispatcher is None else dispatcher.router.settings.listed
        return [name for name in listed if caller.may_choose(name)]

    def _is_task(self, caller: Caller, name: str) -> bool:
        """Whether a model name asks Stoker to choose, and the caller may use it."""
        dispatcher = self.flow.settings.dispatcher
        is_known = dispatcher is not None and dispatcher.router.classes.model_name(name) is not None
        return is_known and caller.may_choose(name)

    def _ollama_answer(self, caller: Caller, path: str, body: bytes) -> dict[str, Any]:
        names = self.flow.settings.names

        def find(name: str) -> Serve | None:
            return None if self._is_task(caller, name) else names.resolve(name, caller.may_use)

        serves, tasks = names.listed(caller.may_use), self._tasks(caller)
        return self._ollama.answer(path, body, serves, tasks, find, self._admin.is_up)

    async def _upstream(self, call: Call, caller: Caller, route: Route) -> None:
        name, _, rest = route.rest.partition("/")
        serve = self.flow.settings.names.resolve(name, caller.may_use)
        method = call.wire.method
        allowed = UPSTREAM.get(serve.engine, {})
        counted = allowed.get((method, rest))
        if counted is None:
            listed = ", ".join(f"{m} /{p}" for m, p in allowed)
            text = f"{method} /{rest[:100]} is not passed on to serve '{serve.name}'; what is: {listed}"
            raise ClientError(text, code="not_listed", status=404)
        if counted and serve.keep_conversations:
            text = f"POST /{rest} is not passed on to serve '{serve.name}', which keeps conversations: use /v1/..."
            raise ClientError(text, code="not_listed", status=404)
        if method == "GET":
            require(caller, Scope.OBSERVE)
        body = await read_body(call.wire, self.flow.settings.front_door.body_limit)
        call.decision.candidates = [Candidate(serve.name)]
        call.decision.serve = serve.name
        query = call.wire.query.decode("latin-1")
        full = f"/{rest}?{query}" if query else f"/{rest}"
        await self.flow.pass_through(call, caller, serve, counted, method, full, body)

    def _json(self, call: Call, answer: Mapping[str, Any]) -> None:
        self._whole(call, 200, JSON, msgspec.json.encode(answer))

    def _whole(self, call: Call, status: int, kind: list[tuple[bytes, bytes]], body: bytes) -> None:
        if _has_body(call.wire):  # a GET with a body nobody reads: it must not be taken for the next request
            call.wire.close_after()
        call.reply.whole(status, kind, body)


def _has_body(wire: Wire) -> bool:
    return b"transfer-encoding" in wire.headers or wire.headers.get(b"content-length", b"0") != b"0"


def _check_head(wire: Wire) -> None:
    """Raises ClientError 400: a header that something is decided by is there twice, or Host is not there."""
    if wire.has_repeated_headers:
        refuse_repeated(wire.given)
    if b"host" not in wire.headers and wire.version != "1.0":
        raise ClientError("the request has no Host header, which HTTP/1.1 asks for", code="no_host")


def _check_coding(wire: Wire) -> None:
    """Raises ClientError 415 for a body that was compressed."""
    coding = wire.headers.get(b"content-encoding")
    if coding is not None and coding.strip().lower() not in (b"", b"identity"):
        text = f"the body's Content-Encoding is {coding[:40].decode('latin-1')!r}: send it without one"
        raise ClientError(text, code="content_encoding", status=415, headers={"accept-encoding": "identity"})


def _require_json(wire: Wire) -> None:
    """A form in a foreign page cannot send this type without asking first."""
    kind = wire.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if wire.method != "GET" and kind != b"application/json":
        text = "state changes need 'Content-Type: application/json'"
        raise ClientError(text, code="content_type", status=415)


def _query(wire: Wire) -> dict[str, str]:
    pairs = (part.partition("=") for part in wire.query.decode("latin-1").split("&") if part)
    return {name: value for name, _, value in pairs}
