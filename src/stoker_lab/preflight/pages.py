"""GET and POST beside inference: lists of models, properties, templates, counters."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.request.relay.headers import request_head
from stoker.request.relay.pool import ConnectionPool

_JSON = (b"content-type", b"application/json")
PATIENCE = 10.0


class Page(NamedTuple):
    """Status 0: nothing came."""

    status: int
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON; None: it is not JSON, or the status is not 200."""
        if self.status != 200:
            return None
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace") if self.status == 200 else ""


class PageClient:
    """Asks one server. Several at once may be under way. Never raises but on cancel."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._pool = ConnectionPool()

    def close(self) -> None:
        self._pool.close()

    async def get(self, path: str) -> Page:
        return await self._ask(b"GET", path, b"")

    async def post(self, path: str, document: Any) -> Page:
        return await self._ask(b"POST", path, msgspec.json.encode(document))

    async def _ask(self, method: bytes, path: str, body: bytes) -> Page:
        reader = _Reader()
        head = request_head(method, path, self.target, [_JSON] if body else [], len(body), plain=True)
        connection = None
        try:
            async with asyncio.timeout(PATIENCE):
                connection = await self._pool.open(self.target)
                connection.send(reader, head, body)
                await reader.done
        except (UpstreamError, TimeoutError):
            return Page(0, b"")
        finally:
            if connection is not None and not reader.done.done():
                connection.abort()
        return Page(reader.status, b"".join(reader.pieces))


class _Reader:
    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status = 0
        self.pieces: list[bytes] = []

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status

    def on_data(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_end(self) -> None:
        self.done.set_result(None)

    def on_broken(self, reason: str) -> None:
        self.status = 0
        self.done.set_result(None)
