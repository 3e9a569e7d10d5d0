"""Sessions of the web page: a cookie that stands for a key, so that the browser need not keep the key.

A session lives in memory only, and holds the key's keyed hash: it ends when the key is disabled, replaced, expired or
deleted. The cookie counts only in requests that carry the header `x-stoker-page`, which a page of another origin cannot
add without being asked (CORS), and never beside a key.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stoker.access.caller import Caller
from stoker.domain.errors import ClientError

LASTS = 12 * 3600.0
"""Seconds until a session ends, used or not."""
MAX_SESSIONS = 1000
"""Beyond this the oldest one ends."""
PAGE_HEADER = b"x-stoker-page"
_PATH = re.compile(r"/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/){0,16}", re.ASCII)


class _Session(NamedTuple):
    key_digest: bytes
    ends: float


class Sessions:
    """`caller_of(digest)`: the caller whose key has this hash, or None; raises ClientError 401."""

    def __init__(self, caller_of: Callable[[bytes], Caller | None], now: Callable[[], float]) -> None:
        """`now`: seconds of a clock that is never set."""
        self._caller_of = caller_of
        self._now = now
        self._sessions: dict[bytes, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key_digest: bytes) -> str:
        """A new session's token."""
        self._forget_old()
        token = secrets.token_urlsafe(32)
        self._sessions[_hashed(token.encode())] = _Session(key_digest, self._now() + LASTS)
        return token

    def caller(self, headers: Mapping[bytes, bytes], name: bytes) -> Caller | None:
        """Whose session the request belongs to; None: it names none, or one that has ended."""
        token = _token(headers, name)
        session = self._sessions.get(_hashed(token)) if token and PAGE_HEADER in headers else None
        if session is None or session.ends <= self._now():
            return None
        try:
            return self._caller_of(session.key_digest)
        except ClientError:
            return None  # disabled or expired: the page asks for a key again

    def end(self, headers: Mapping[bytes, bytes], name: bytes) -> None:
        """Sign out; nothing happens if there is no session."""
        self._sessions.pop(_hashed(_token(headers, name)), None)

    def _forget_old(self) -> None:
        now = self._now()
        for token in [token for token, session in self._sessions.items() if session.ends <= now]:
            del self._sessions[token]
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]


def cookie(name: bytes, token: str, path: str, is_secure: bool) -> bytes:
    """The value of Set-Cookie; an empty token deletes it. Raises ClientError 400 for a path that is none."""
    if not _PATH.fullmatch(path):
        raise ClientError("'path' must be the page's base path: '/' or '/PREFIX/'", code="bad_field", param="path")
    ends = f"; Max-Age={LASTS:.0f}" if token else "; Max-Age=0"
    secure = "; Secure" if is_secure else ""
    return name + f"={token}; Path={path}; HttpOnly; SameSite=Strict{ends}{secure}".encode()


def _token(headers: Mapping[bytes, bytes], name: bytes) -> bytes:
    for pair in headers.get(b"cookie", b"").split(b";"):
        key, _, value = pair.strip().partition(b"=")
        if key == name:
            return value
    return b""


def _hashed(token: bytes) -> bytes:
    return hashlib.blake2b(token, digest_size=32).digest()
