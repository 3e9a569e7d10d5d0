"""What this Stoker asks of another one."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlsplit

from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker.domain.serve import BoxPlace
from stoker.http import client
from stoker.http.client import HttpResponse, KeptConnection, NoResponse
from stoker_boxes.table import Box
from stoker_boxes.there import ServeThere, Unfit, refusal, serve_there

ASK_WITHIN = 5.0
STATUS_LIMIT = 8 * 2**20
BUSY = "box_busy"
"""The code of a refusal that passes."""


class BoxRefused(StartFailed):
    """It answers, and nothing can be loaded there now. `retry_after`: as it said itself."""


class BoxSilent(StartFailed):
    """It does not answer. `is_awake`: it did, but not so that its certificate could be believed."""

    def __init__(self, message: str, is_awake: bool) -> None:
        super().__init__(message, code="box_unreachable")
        self.is_awake = is_awake


class BoxApi:
    """One box. Each question has its limit in time; on cancel its connection is closed."""

    def __init__(self, name: str, box: Box) -> None:
        self.name = name
        self.box = box
        url = urlsplit(box.url or "")
        tls = url.scheme == "https"
        self._target = Target(
            url.hostname or "", url.port or (443 if tls else 80), url.path.rstrip("/"),
            key=None if box.key is None else box.key.reveal(), tls=tls, is_replica_elsewhere=True,
        )  # fmt: skip

    def target(self, serve: str) -> Target:
        """Where requests for a serve go."""
        at = self._target
        return Target(at.host, at.port, at.base_path, serve, at.key, at.tls, is_replica_elsewhere=True)

    async def status(self, connection: KeptConnection | None = None) -> Any:
        """Its status document. Raises BoxSilent and BoxRefused."""
        try:
            if connection is not None:
                answer = await connection.ask(self._target, "/status", timeout=ASK_WITHIN)
            else:
                answer = await client.ask(self._target, "/status", timeout=ASK_WITHIN, limit=STATUS_LIMIT)
        except NoResponse as failure:
            raise self._silent(failure) from failure
        self._check_key(answer, "observe")
        document = answer.json() if answer.status == 200 else None
        if answer.status == 429 or answer.status >= 500:
            why = "too many requests" if answer.status == 429 else "it starts, ends or has a fault"
            raise self._refused(BUSY, f"answered {answer.status} to GET /status: {why}", answer)
        return document

    async def serve(self, place: BoxPlace, connection: KeptConnection | None = None) -> tuple[ServeThere, Any]:
        """What it says of a serve, with the whole document. Raises BoxSilent and BoxRefused."""
        document = await self.status(connection)
        found = serve_there(document, place)
        if isinstance(found, Unfit):
            raise self._refused(found.code, found.message)
        return found, document

    async def load(self, serve: str, within: float) -> None:
        """A request that only loads: it waits there as any other of this key does, by the rules and limits of that
        Stoker. Raises BoxSilent and BoxRefused, with what it said.
        """
        try:
            answer = await client.ask(self._target, "/api/generate", {"model": serve, "stream": False}, within)
        except NoResponse as failure:
            raise self._silent(failure) from failure
        self._check_key(answer, "inference")
        if answer.status != 200:
            code, message = refusal(answer.json(), answer.status)
            raise self._refused(BUSY, f"does not load serve '{serve}' now: {message} ({code or answer.status})",
                                answer)  # fmt: skip

    async def unload(self, serve: str, within: float) -> str:
        """Ends it there. Why not; empty: it is gone."""
        try:
            answer = await client.ask(self._target, "/admin/unload", {"serve": serve}, within)
        except NoResponse as failure:
            return str(failure)
        if answer.status in (401, 403):
            return "the key has no scope admin there"
        return "" if answer.status == 200 else refusal(answer.json(), answer.status)[1]

    def _check_key(self, answer: HttpResponse, scope: str) -> None:
        if answer.status == 401:
            key = "its `key` is not one of that Stoker's" if self._target.key else "it asks for a key"
            text = f"refuses this Stoker: {key}; set `key` of [boxes.{self.name}] to one of scope observe"
            raise self._refused("box_key_refused", text)
        if answer.status == 403:
            message = refusal(answer.json(), 403)[1]
            text = f"refuses this Stoker: {message}; the key of [boxes.{self.name}] needs scope {scope} there"
            raise self._refused("box_key_refused", text)

    def _refused(self, code: str, text: str, answer: HttpResponse | None = None) -> BoxRefused:
        seconds = "" if answer is None else answer.headers.get("retry-after", "")
        after = float(seconds) if seconds.isdecimal() and len(seconds) < 6 else None
        return BoxRefused(f"box {self.name} at {self.box.url} {text}", code=code, retry_after=after)

    def _silent(self, failure: NoResponse) -> BoxSilent:
        text = f"box {self.name} does not answer at {self.box.url} ({failure})"
        return BoxSilent(text, isinstance(failure.__cause__, ssl.SSLError))
