"""Asks the worker: takes a lease, streams its text, gives the lease back when the generation ends or is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stoker.domain.decision import Attempt, Candidate
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.prompt import Prompt
from stoker.domain.protocols import Leases
from stoker.domain.serve import Serve
from stoker.domain.usage import ServeUsage
from stoker.exchange.attempts import EXIT_NOTICED_WITHIN
from stoker.exchange.internal_client import InternalClient, StreamEnd
from stoker.exchange.leasing import leased
from stoker.exchange.planner import CandidateHealth
from stoker.request.codec.upstream_errors import recorded_code
from stoker.request.decide.plan import Next, PlanCandidate, Standing, after_failure


class Worker:
    """Of one request. Its plan has one candidate or, with `worker = "auto"`, a tier after the other. A candidate writes
    until it fails; the block that failed is then written again, so a failure ends a generation and no more.
    """

    def __init__(
        self,
        leases: Leases,
        client: InternalClient,
        candidates: Sequence[PlanCandidate],
        now: Callable[[], float],
        health: CandidateHealth | None = None,
        on_usage: Callable[[ServeUsage], None] | None = None,
    ) -> None:
        """`candidates`: at least one, in the order in which they are asked. `health`: learns how their tiers do.
        `on_usage`: gets the time on the slot of each generation.
        """
        self.is_replaced = False
        """The last generation failed, and the next candidate writes from now on."""
        self.tried: list[Attempt] = []
        """The candidates that wrote, once `end` was called."""
        self._candidates = candidates
        self._place = 0
        self._leases = leases
        self._client = client
        self._now = now
        self._began_at = now()
        self._health = health
        self._on_usage = on_usage

    @property
    def serve(self) -> Serve:
        """Who writes now."""
        return self._candidates[self._place].serve

    @property
    def candidates(self) -> list[Candidate]:
        """Those that were asked, the last one writes; and why the others do not."""
        return [*(Candidate(one.serve, one.outcome) for one in self.tried[: self._place]), Candidate(self.serve.name)]

    async def generate(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        """Stream one answer. Raises StokerError; `is_replaced` says whether another candidate can write it. On cancel
        the generation is ended and the lease is given back.

        The lease is waited for as any request waits; a serve that has just died is started again, once.
        """
        candidate, self.is_replaced = self._candidates[self._place], False
        at = Standing(candidate, self._place + 1 < len(self._candidates), was_lowered=True)
        health = self._health if candidate.tier else None
        if health is not None:
            health.on_sent(candidate.tier)
        while True:
            try:
                end = await self._generate(prompt, on_text)
            except StokerError as error:
                step = after_failure(error, at)
                if step is Next.AGAIN:
                    at.was_unreachable = True
                    await asyncio.sleep(EXIT_NOTICED_WITHIN)
                    continue
                if health is not None:
                    health.on_error(candidate.tier, error)
                if step is Next.CANDIDATE:
                    self.end(recorded_code(error))
                    self.is_replaced = True
                    self._place += 1
                raise
            if health is not None:
                health.on_served(candidate.tier)
            return end

    def end(self, outcome: str) -> None:
        """The current candidate no longer writes."""
        now, candidate = self._now(), self._candidates[self._place]
        seconds, self._began_at = now - self._began_at, now
        self.tried.append(Attempt(candidate.tier, outcome, seconds=seconds, serve=candidate.serve.name))

    async def _generate(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        asked = replace(prompt, dialect=Dialect.CHAT)  # the client's dialect may be one that no serve is asked in
        async with leased(self._leases, self.serve.name, on_usage=self._on_usage) as lease:
            return await self._client.stream(self.serve, lease.target, asked, on_text)
