"""The web page below /ui/: its files for everybody, and the session of whoever signs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from stoker.access.access_control import AccessControl, presented_key
from stoker.access.caller import Caller, require
from stoker.access.sessions import cookie
from stoker.domain.errors import ClientError
from stoker.domain.key import Scope
from stoker.gateway.web.files import PageFiles, PageReply
from stoker.request.accept.connection import HttpExchange

NOWHERE = "/ui"
"""Without the slash at its end, the page's relative addresses would miss."""
NO_STORE = (b"cache-control", b"no-store")


class SessionAnswer(NamedTuple):
    document: dict[str, Any]
    headers: list[tuple[bytes, bytes]]


class _SignIn(msgspec.Struct, forbid_unknown_fields=True):
    path: str = "/"
    """Where the page and the API are for the browser: a proxy may have put a prefix in front."""


class WebPage:
    """`is_encrypted()`: whether Stoker itself speaks TLS."""

    def __init__(self, door: AccessControl, is_encrypted: Callable[[], bool] = lambda: False) -> None:
        self._door = door
        self._is_encrypted = is_encrypted
        self._files = PageFiles()

    @property
    def paths(self) -> list[str]:
        """Every path that is answered without a key."""
        return [NOWHERE, *self._files.paths]

    def file(self, exchange: HttpExchange) -> PageReply:
        """Raises ClientError 404."""
        if exchange.path == NOWHERE:
            return redirect(b"")
        return self._files.reply(exchange.path, exchange.headers)

    def session(self, exchange: HttpExchange, caller: Caller, body: bytes) -> SessionAnswer:
        """Who asks (GET); sign in with the key that the request has (POST); sign out (DELETE).

        Raises ClientError 400, 403 (scope), 405.
        """
        headers = [NO_STORE]
        name = self._door.session_cookie
        if exchange.method == "DELETE":
            self._door.sessions.end(exchange.headers, name)
            headers.append(self._cookie(exchange, "", _read(body)))
        if exchange.method == "POST" and (key := presented_key(exchange.headers)) and self._door.asks_for_keys:
            require(caller, Scope.OBSERVE)
            path = _read(body)
            headers.append(self._cookie(exchange, self._door.sessions.begin(self._door.keyring.digest(key)), path))
        document = {
            "key": caller.key.name,
            "scope": caller.key.scope.name.lower(),
            "may_call": bool(caller.key.models),
            "asks_for_keys": self._door.asks_for_keys,
        }
        return SessionAnswer(document, headers)

    def _cookie(self, exchange: HttpExchange, token: str, path: str) -> tuple[bytes, bytes]:
        is_secure = exchange.scheme == "https" or self._is_encrypted()
        return b"set-cookie", cookie(self._door.session_cookie, token, path, is_secure)


def redirect(root: bytes) -> PageReply:
    """To the page, from `root`, the path of `/` as it was sent; empty: from `/ui`. The address is relative, because a
    proxy may have put a prefix in front.
    """
    folder = root.rpartition(b"/")[2]  # of "/llm", which stands for "/llm/"
    location = folder + b"/ui/" if folder else b"ui/"
    return PageReply(303, [(b"location", location), (b"vary", b"accept"), (b"cache-control", b"no-cache")], b"")


def _read(body: bytes) -> str:
    try:
        return msgspec.json.decode(body or b"{}", type=_SignIn).path
    except msgspec.DecodeError as error:
        raise ClientError(f"the body of /ui/session is invalid: {error}", code="bad_json") from None
