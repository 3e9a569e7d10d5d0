"""What operators and their tools can do: POST /admin/VERB."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from stoker.access.caller import Caller, require
from stoker.domain.deprecation import NewName
from stoker.domain.errors import ClientError, ConfigError
from stoker.domain.key import Scope
from stoker.domain.protocols import Clock
from stoker.domain.serve import Serve
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.decisions import DecisionPages
from stoker.gateway.doctor import DoctorPages
from stoker.gateway.flow import Flow
from stoker.gateway.keys import OPERATIONS as KEY_OPERATIONS
from stoker.gateway.keys import KeyPages
from stoker.gateway.operations import Operation, Page, PagePlace, PageRequest
from stoker.gateway.results import OPERATIONS as RESULT_OPERATIONS
from stoker.gateway.results import ResultPages
from stoker.request.accept.routes import wrong_method

log = logging.getLogger("stoker.admin")
DEPRECATED = {"demote": NewName("reset", "0.2.0")}
"""Old names of verbs, which still work."""


class AdminRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an admin request; which fields count depends on the verb."""

    serve: str | None = None
    force: bool = False
    drain_timeout: float | None = None
    evict: bool = True
    request_id: str | None = None
    dry_run: bool = False
    slot: str | None = None
    reason: str = ""


OPERATIONS: tuple[Operation, ...] = (
    Operation("POST", "/admin/switch", "Make a serve resident.", body=AdminRequest,
              fields=("serve", "force", "drain_timeout", "evict"), required=("serve",)),
    Operation("POST", "/admin/preview", "What a switch would stop; without a serve, which ones would stop nothing.",
              body=AdminRequest, fields=("serve", "force")),
    Operation("POST", "/admin/unload", "Drain and stop a serve.", body=AdminRequest,
              fields=("serve", "drain_timeout"), required=("serve",)),
    Operation("POST", "/admin/drain", "Admit nothing new, on one serve or at the front door.", body=AdminRequest,
              fields=("serve",)),
    Operation("POST", "/admin/undrain", "Undo a drain.", body=AdminRequest, fields=("serve",)),
    Operation("POST", "/admin/pause", "End what is loaded in a slot, or in all, and load nothing there until a resume.",
              body=AdminRequest, fields=("slot", "reason")),
    Operation("POST", "/admin/resume", "End what /admin/pause began.", body=AdminRequest, fields=("slot",)),
    Operation("POST", "/admin/reload", "Apply the configuration again.", body=AdminRequest, fields=("dry_run",)),
    Operation("POST", "/admin/cancel", "End one request.", body=AdminRequest,
              fields=("request_id",), required=("request_id",)),
    Operation("POST", "/admin/hand-over", "Give the listening sockets to a new process. Only over the control socket."),
    Operation("GET", "/admin/doctor", "What `stoker config check` and `doctor` find."),
    Operation("GET", "/admin/decisions", "The newest decisions.", Scope.OBSERVE, query=("limit", "failed")),
    Operation("GET", "/admin/decisions/{request}", "One decision with its explanation.", Scope.OBSERVE),
)  # fmt: skip
"""What is answered here; keys, results and extensions have their own."""
OWN_VERBS = frozenset(one.verb for one in (*OPERATIONS, *KEY_OPERATIONS, *RESULT_OPERATIONS))
"""No page of an extension has one of these."""
_S = TypeVar("_S", bound=msgspec.Struct)


class AdminReply(NamedTuple):
    document: dict[str, Any]
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Admin:
    """Carries out the verbs and returns documents; `front` sends them."""

    def __init__(
        self,
        conductor: Conductor,
        flow: Flow,
        clock: Clock,
        decisions: DecisionPages,
        reload: Callable[[bool], Awaitable[dict[str, Any]]],
        keys: KeyPages | None = None,
        results: ResultPages | None = None,
        doctor: DoctorPages | None = None,
        pages: Mapping[PagePlace, Page] | None = None,
    ) -> None:
        """`reload(dry_run)`: what changed, or would change. `pages`: those of extensions."""
        self._conductor = conductor
        self._flow = flow
        self._clock = clock
        self._decisions = decisions
        self._reload = reload
        self._keys = keys
        self._results = results
        self._doctor = doctor
        self._pages = {place: page for place, page in (pages or {}).items() if place[1] not in OWN_VERBS}
        for method, verb, _ in (pages or {}).keys() - self._pages.keys():
            log.warning("%s /admin/%s of an extension is not used: Stoker itself answers to this verb", method, verb)
        bodies = [one.body for one in (*OPERATIONS, *(page.operation for page in self._pages.values()))]
        self._fields = frozenset(name for kind in bodies if kind is not None for name in _fields_of(kind))
        """Of all verbs."""
        self._verbs: dict[str, Callable[[AdminRequest], Awaitable[dict[str, Any]]]] = {
            "switch": self._switch, "preview": self._preview, "unload": self._unload,
            "drain": self._drain, "undrain": self._undrain, "pause": self._pause, "resume": self._resume,
            "reload": self._reload_configuration, "cancel": self._cancel,
        }  # fmt: skip

    async def handle(self, caller: Caller, method: str, verb: str, body: bytes, query: Mapping[str, str]) -> AdminReply:
        """The answer of /admin/VERB. Raises ClientError 403 (scope), 404 (verb, serve, request), 405, 400."""
        head, _, rest = verb.partition("/")
        if head == "decisions":
            require(caller, Scope.OBSERVE)
            return AdminReply(
                self._decisions.by_id(rest) if rest else await asyncio.to_thread(self._decisions.newest, query)
            )
        if head == "results" and self._results is not None:
            return AdminReply(await self._results.handle(caller, method, rest, query))
        name = DEPRECATED[head].name if head in DEPRECATED else head
        page = self._pages.get((method, name, bool(rest)))
        if page is not None:
            require(caller, page.operation.scope)
            kind = page.operation.body
            request = PageRequest(
                page.operation, rest, query, None if kind is None else self._decoded(head, body, kind)
            )
            return AdminReply(dict(await page.answer(request)), _deprecation(head) if head in DEPRECATED else ())
        require(caller, Scope.ADMIN)
        if verb == "doctor" and method == "GET" and self._doctor is not None:
            return AdminReply(await self._doctor.document())
        if head in ("keys", "apps") and self._keys is not None:
            return AdminReply(await self._keys.handle(head[:-1], method, rest, body))
        verbs = [*self._verbs, *(verb for method, verb, _ in self._pages if method == "POST")]
        if name not in verbs or rest:
            known = ", ".join(verbs)
            raise ClientError(f"there is no admin verb {verb[:60]!r}; the verbs are {known}", status=404)
        if method != "POST":
            raise wrong_method(f"/admin/{head} does not accept {method}: use POST", "POST")
        return AdminReply(await self._verbs[name](self._decoded(head, body, AdminRequest)))

    def _decoded(self, verb: str, body: bytes, kind: type[_S]) -> _S:
        """The body of a request. Fields of other verbs are ignored; one that no verb has is an error."""
        try:
            try:
                return msgspec.json.decode(body or b"{}", type=kind)
            except msgspec.ValidationError:
                others = self._fields.difference(_fields_of(kind))
                document = msgspec.json.decode(body, type=dict[str, Any])
                return msgspec.convert({name: document[name] for name in document if name not in others}, kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClientError(f"the body of /admin/{verb} is invalid: {error}", code="bad_json") from None

    # -- serves --------------------------------------------------------------------------------------------------------

    async def _switch(self, request: AdminRequest) -> dict[str, Any]:
        serve = self._serve(request)
        began = self._clock.now()
        done = await self._conductor.switch(serve.name, request.drain_timeout, request.force, request.evict)
        return {"serve": serve.name, "seconds": self._clock.now() - began, "phases": done.phases}

    async def _preview(self, request: AdminRequest) -> dict[str, Any]:
        if request.serve is None:
            return {"serves": await self._conductor.loadable()}
        found = await self._conductor.preview(self._serve(request).name, request.force)
        refusal = found.refusal
        return {
            "serve": found.name,
            "ready": found.is_ready,
            "victims": list(found.victims),
            "waits": found.waits,
            "refusal": None if refusal is None else {"message": refusal.message, "code": refusal.code},
        }

    async def _unload(self, request: AdminRequest) -> dict[str, Any]:
        serve = self._serve(request)
        began = self._clock.now()
        await self._conductor.unload(serve.name, request.drain_timeout)
        return {"serve": serve.name, "seconds": self._clock.now() - began}

    async def _drain(self, request: AdminRequest) -> dict[str, Any]:
        return self._set_draining(request, True)

    async def _undrain(self, request: AdminRequest) -> dict[str, Any]:
        return self._set_draining(request, False)

    def _set_draining(self, request: AdminRequest, is_draining: bool) -> dict[str, Any]:
        if request.serve is None:
            self._flow.set_draining(is_draining)
        else:
            self._conductor.set_held(self._serve(request).name, is_draining)
        return {"serve": request.serve, "draining": is_draining}

    async def _pause(self, request: AdminRequest) -> dict[str, Any]:
        """Returns at once: what is loaded drains."""
        reason = request.reason.strip()[:200] or "an operator paused it"
        return {"slot": request.slot, "paused": self._conductor.pause_by_operator(self._slot(request), reason)}

    async def _resume(self, request: AdminRequest) -> dict[str, Any]:
        return {"slot": request.slot, "resumed": self._conductor.resume_by_operator(self._slot(request))}

    def _slot(self, request: AdminRequest) -> str | None:
        slots = [name for name in self._conductor.scheduler.slots if not name.startswith("~")]
        if request.slot is not None and request.slot not in slots:
            text = f"there is no slot {request.slot[:60]!r}; the slots are {', '.join(slots) or 'none'}"
            raise ClientError(text, code="no_slot", status=404, param="slot")
        return request.slot

    def _serve(self, request: AdminRequest) -> Serve:
        if not request.serve:
            raise ClientError("'serve' is missing: send the name of a serve", code="bad_field", param="serve")
        running = self._conductor.residency.serve(request.serve)
        if running is not None and running.replica_of and running.name == request.serve:
            return running
        return self._flow.settings.names.resolve(request.serve, lambda serve: True)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _cancel(self, request: AdminRequest) -> dict[str, Any]:
        if not request.request_id:
            raise ClientError(
                "'request_id' is missing: send the id of a request under way", code="bad_field", param="request_id"
            )
        if not self._flow.cancel(request.request_id):
            raise ClientError(f"no request {request.request_id!r} is under way", code="no_request", status=404)
        return {"request_id": request.request_id, "cancelled": True}

    async def _reload_configuration(self, request: AdminRequest) -> dict[str, Any]:
        try:
            return await self._reload(request.dry_run)
        except ConfigError as error:
            text = f"nothing was changed, because the new configuration has problems:\n{error.message}"
            raise ClientError(text, code="config_error") from None


def _deprecation(old: str) -> tuple[tuple[bytes, bytes], ...]:
    new, gone_in = DEPRECATED[old]
    log.warning("/admin/%s is deprecated and goes away in %s: use /admin/%s", old, gone_in, new)
    return (b"deprecation", b"true"), (b"link", f'</admin/{new}>; rel="successor-version"'.encode())


def _fields_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return kind.__struct_encode_fields__
