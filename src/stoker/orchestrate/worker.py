"""Asks the worker: takes a lease, streams its text, gives the lease back when the generation ends or is ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from stoker.domain.decision import Candidate
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError, UpstreamError
from stoker.domain.prompt import Prompt
from stoker.domain.protocols import Leases
from stoker.domain.serve import Serve
from stoker.domain.usage import ServeUsage
from stoker.exchange.carrier import EXIT_NOTICED_WITHIN
from stoker.exchange.internal_client import InternalClient, StreamEnd
from stoker.exchange.leasing import leased
from stoker.request.decide.failover import moves_on
from stoker.routing.health import TierHealth


class WorkerCandidate(NamedTuple):
    """A serve that may write."""

    serve: Serve
    tier: str = ""
    """The tier that routing planned; empty: the configuration names the serve."""


class Worker:
    """Of one request. With `worker = "auto"`, the next planned tier takes over when one fails."""

    def __init__(
        self,
        leases: Leases,
        client: InternalClient,
        candidates: Iterable[WorkerCandidate],
        health: TierHealth | None = None,
        on_usage: Callable[[ServeUsage], None] | None = None,
    ) -> None:
        """`candidates`: at least one, in the order in which they are asked. `health`: learns how their tiers do.
        `on_usage`: gets the time on the slot of each generation.
        """
        self._current, *rest = candidates
        self._rest = deque(rest)
        self._dropped: list[Candidate] = []
        self._leases = leases
        self._client = client
        self._health = health
        self._on_usage = on_usage

    @property
    def serve(self) -> Serve:
        """Who writes now."""
        return self._current.serve

    @property
    def candidates(self) -> list[Candidate]:
        """Those that were asked, the last one writes; and why the others do not."""
        return [*self._dropped, Candidate(self.serve.name)]

    def replace_after(self, error: StokerError) -> bool:
        """After a failure: let the next candidate write. False: there is none, or it would fail there as well."""
        if not self._rest or not moves_on(error):
            return False
        self._dropped.append(Candidate(self.serve.name, error.code))
        self._current = self._rest.popleft()
        return True

    async def generate(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        """Stream one answer. Raises StokerError. On cancel the generation is ended and the lease is given back.

        The lease is waited for as any request waits; a serve that has just died is started again, once.
        """
        tier, health = self._current.tier, self._health
        if health is None or not tier:
            return await self._ask(prompt, on_text)
        health.on_sent(tier)
        try:
            end = await self._ask(prompt, on_text)
        except StokerError as error:
            health.on_error(tier, error)
            raise
        health.on_served(tier)
        return end

    async def _ask(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        try:
            return await self._generate(prompt, on_text)
        except UpstreamError as error:
            if error.code != "unreachable":
                raise
        await asyncio.sleep(EXIT_NOTICED_WITHIN)
        return await self._generate(prompt, on_text)

    async def _generate(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        asked = replace(prompt, dialect=Dialect.CHAT)  # the client's dialect may be one that no serve is asked in
        async with leased(self._leases, self.serve.name, on_usage=self._on_usage) as lease:
            return await self._client.stream(self.serve, lease.target, asked, on_text)
