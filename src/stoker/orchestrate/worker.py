"""Asks the worker: takes a lease, streams its text, gives the lease back when the generation ends or is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.prompt import Prompt
from stoker.domain.protocols import Leases
from stoker.domain.serve import Serve
from stoker.exchange.carrier import EXIT_NOTICED_WITHIN
from stoker.exchange.internal_client import InternalClient, StreamEnd
from stoker.exchange.leasing import leased


class Worker:
    """Of one request."""

    def __init__(self, leases: Leases, client: InternalClient, serve: Serve) -> None:
        self.serve = serve
        self._leases = leases
        self._client = client

    async def generate(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        """Stream one answer. Raises StokerError. On cancel the generation is ended and the lease is given back.

        The lease is waited for as any request waits; a serve that has just died is started again, once.
        """
        try:
            return await self._generate(prompt, on_text)
        except UpstreamError as error:
            if error.code != "unreachable":
                raise
        await asyncio.sleep(EXIT_NOTICED_WITHIN)
        return await self._generate(prompt, on_text)

    async def _generate(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        asked = replace(prompt, dialect=Dialect.CHAT)  # the client's dialect may be one that no serve is asked in
        async with leased(self._leases, self.serve.name) as lease:
            return await self._client.stream(self.serve, lease.target, asked, on_text)
