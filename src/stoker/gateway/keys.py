"""Keys and applications for operators: /admin/keys and /admin/apps.

    GET  /admin/keys            all keys and applications        GET  /admin/keys/NAME   one, with what is left
    POST /admin/keys            make a key                       POST /admin/keys/NAME/VERB
    GET  /admin/apps/NAME       one application                  POST /admin/apps/NAME/set, reset

Verbs of a key: set, reset, disable, enable, rotate, delete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from stoker.access.key_admin import KeyAdmin
from stoker.domain.errors import CapacityError, ClientError
from stoker.gateway.flow import Flow
from stoker.gateway.operations import Operation
from stoker.request.accept.routes import wrong_method


class KeyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body; which fields count depends on the verb."""

    name: str = ""
    app: str = ""
    settings: dict[str, Any] = {}
    expires_in: float | None = None
    """Seconds."""
    grace: float | None = None
    """Seconds for which the old value of a rotated key stays valid."""
    reason: str = ""
    cut: bool = False
    """End the running requests of a key that is disabled or deleted."""


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/admin/keys", "All keys and applications."),
    Operation("GET", "/admin/keys/{key}", "One key, with what is left of its limits."),
    Operation("GET", "/admin/apps/{app}", "One application."),
    Operation("POST", "/admin/keys", "Make a key.", body=KeyRequest,
              fields=("name", "app", "settings", "expires_in"), required=("name",)),
    *(Operation("POST", f"/admin/{kind}s/{{{kind}}}/set", "Override settings.", body=KeyRequest,
                fields=("settings", "reason")) for kind in ("key", "app")),
    *(Operation("POST", f"/admin/{kind}s/{{{kind}}}/reset", "Undo the overrides.", body=KeyRequest)
      for kind in ("key", "app")),
    Operation("POST", "/admin/keys/{key}/disable", "Take a key away.", body=KeyRequest, fields=("reason", "cut")),
    Operation("POST", "/admin/keys/{key}/enable", "Give a key back.", body=KeyRequest, fields=("reason",)),
    Operation("POST", "/admin/keys/{key}/rotate", "Make a new value.", body=KeyRequest, fields=("grace",)),
    Operation("POST", "/admin/keys/{key}/delete", "Remove a key for good.", body=KeyRequest, fields=("cut",)),
)  # fmt: skip


class KeyPages:
    """Answers with documents; `admin` has checked the scope."""

    def __init__(self, keys: KeyAdmin, flow: Flow, forget: Callable[[str], Awaitable[None]] | None = None) -> None:
        """`forget`: deletes the responses that a deleted key has stored: another key may get its name."""
        self._keys = keys
        self._forget = forget
        self._flow = flow

    async def handle(self, kind: str, method: str, rest: str, body: bytes) -> dict[str, Any]:
        """`kind`: `key` or `app`; `rest`: the path behind it. Raises StokerError."""
        name, _, verb = rest.partition("/")
        if method == "GET":
            if kind == "app":
                return self._keys.app(name)
            return self._keys.show(name) if name else self._keys.list()
        if method != "POST":
            raise wrong_method(f"/admin/{kind}s does not accept {method}: use GET or POST", "GET, POST")
        try:
            request = msgspec.json.decode(body or b"{}", type=KeyRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClientError(f"the body of /admin/{kind}s is invalid: {error}", code="bad_json") from None
        if not name and kind == "key":
            return await self._keys.create(request.name, request.app, request.settings, request.expires_in)
        return await self._change(kind, name, verb, request)

    async def _change(self, kind: str, name: str, verb: str, request: KeyRequest) -> dict[str, Any]:
        match kind, verb:
            case _, "set":
                return await self._keys.change(kind, name, request.settings, request.reason)
            case _, "reset":
                return await self._keys.reset(kind, name)
            case "key", "disable" | "enable":
                document = await self._keys.disable(name, verb == "disable", request.reason)
            case "key", "rotate":
                return await self._keys.rotate(name, request.grace)
            case "key", "delete":
                document = await self._keys.delete(name)
                if self._forget is not None:
                    await self._forget(name)
            case _:
                verbs = "set, reset, disable, enable, rotate, delete" if kind == "key" else "set, reset"
                text = f"there is no verb '{verb[:40]}' for /admin/{kind}s; the verbs are {verbs}"
                raise ClientError(text, code="not_found", status=404)
        if request.cut and verb in ("disable", "delete"):
            document["ended_requests"] = self._cut(name)
        return document

    def _cut(self, name: str) -> int:
        calls = [call for call in self._flow.active.values() if call.decision.key == name]
        for call in calls:
            call.end(CapacityError("the request was ended: its key was taken away", code="cut"))
        return len(calls)
