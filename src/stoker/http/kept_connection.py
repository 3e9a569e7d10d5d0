"""One connection for many questions, and the news that the other side has closed it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from stoker.domain.lease import Target
from stoker.http import client
from stoker.http.client import HttpResponse
from stoker.http.response import ResponseReader


class KeptConnection:
    """Opened by the first question, and again by the next one after it was closed. One caller at a time."""

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def is_open(self) -> bool:
        """As far as is known: see `closed`."""
        return self._writer is not None

    async def ask(
        self, target: Target, path: str, payload: Any = None, timeout: float = client.TIMEOUT
    ) -> HttpResponse:
        """As `client.ask`. The target must be the same each time."""
        with client.telling_why(target, timeout):
            async with asyncio.timeout(timeout):
                if self.is_open:
                    response = ResponseReader()
                    try:
                        return await self._exchange(target, path, payload, response)
                    except (OSError, ValueError):
                        if response.status:
                            raise
                        # it was closed while nobody asked: what came of that, a new connection shows
                return await self._exchange(target, path, payload, ResponseReader())

    async def closed(self) -> None:
        """Returns as soon as no connection is open: at once if there is none."""
        if self._reader is None:
            return
        with contextlib.suppress(OSError):
            await self._reader.read(1)  # nothing was asked, so anything that comes is an end
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _exchange(self, target: Target, path: str, payload: Any, response: ResponseReader) -> HttpResponse:
        keeps = False
        try:
            if self._reader is None or self._writer is None:
                self._reader, self._writer = await client.open_connection(target)
            self._writer.write(client.request_bytes(target, path, payload, is_last=False))
            await response.read(self._reader, client.BODY_LIMIT)
            keeps = response.can_follow and not response.is_cut
        finally:
            if not keeps:
                self.close()
        return client.as_response(response)
