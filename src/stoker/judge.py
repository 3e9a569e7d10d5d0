"""One answer put to the tier that grades: asked as any client would be, but only where nobody waits for it.

1. its circuit is open, or it is drained                -> `judge_unwell`
2. it is not loaded, and loading it could take a place  -> `judge_not_loaded`: nothing is loaded for a grade
3. what it would have to read exceeds its context       -> `too_long`
4. it has no free place                                 -> `judge_busy`: the live traffic goes first
5. it fails, or takes too long                          -> `judge_failed`, `judge_timeout`
6. it says nothing that is a grade, or is unsure        -> `judge_unclear`, `unsure`
7. else                                                 -> a grade
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from stoker.call import Leases
from stoker.domain.answer import Answer, Event
from stoker.domain.errors import CapacityError, ClientError, StokerError, UpstreamError
from stoker.domain.lease import Lease
from stoker.domain.prompt import Prompt, Text
from stoker.domain.serve import Driver, Serve
from stoker.domain.task import BYTES_PER_TOKEN
from stoker.domain.tier import Tier
from stoker.measure import judging
from stoker.measure.judging import Grade
from stoker.request.codec.frames import Usage
from stoker.request.relay.pool import Pool
from stoker.request.relay.tokens import exchange
from stoker.request.translate.translate import AnswerTranslator
from stoker.routing import Routing
from stoker.speech import Speech

DROPS = ("judge_unwell", "judge_not_loaded", "judge_busy", "judge_failed", "judge_timeout", "judge_unclear", "unsure")


class Heard(NamedTuple):
    """What came of one question. Without a grade `dropped` says why, in one word of DROPS."""

    passed: bool | None
    dropped: str = ""
    cost: float = 0.0
    """In the currency of the tiers; an estimate where the judge counted no tokens."""
    detail: str = ""
    """What the operator should know of a judge that failed."""


class Judge:
    def __init__(self, leases: Leases, pool: Pool, speech: Speech) -> None:
        self._leases = leases
        self._pool = pool
        self._speech = speech
        self._plain: set[str] = set()
        """Tiers that refused the settings of a question, and are asked without them."""

    def estimate(self, tier: Tier, size: int) -> float:
        """What a question about `size` characters costs at most, about."""
        return tier.cost.of(_tokens(size), judging.most_tokens(tier.cloud))

    async def ask(
        self, routing: Routing, tier: Tier, task: str, conversation: str, answer: str, timeout: float
    ) -> Heard:
        """Raises nothing but CancelledError; no lease is left then."""
        serve, size = routing.serve(tier), len(conversation) + len(answer)
        if serve is None or routing.ails(tier):
            return Heard(None, "judge_unwell")  # 1
        may_wait = not routing.is_loaded(tier)
        if may_wait and serve.driver is not Driver.EXTERNAL:
            return Heard(None, "judge_not_loaded")  # 2
        if serve.context is not None and _tokens(size) + judging.most_tokens(tier.cloud) > serve.context:
            return Heard(None, "too_long")  # 3
        question = partial(judging.asked, task, conversation, answer, secrets.token_hex(16), tier.cloud)
        try:
            async with self._place(serve, may_wait, timeout) as lease:
                routing.on_sent(tier.name)
                usage, said = await self._said(tier.name, serve, lease, question, timeout)
            routing.on_served(tier.name)
        except TimeoutError:
            routing.on_error(tier.name, UpstreamError("the judge took too long"))
            return Heard(None, "judge_timeout", self.estimate(tier, size), f"no grade within {timeout:g} s")  # 5
        except StokerError as error:
            routing.on_error(tier.name, error)
            if isinstance(error, CapacityError):
                return Heard(None, "judge_busy")  # 4
            return Heard(None, "judge_failed", detail=error.message)
        cost = self.estimate(tier, size)
        if usage.input is not None and usage.output is not None:
            cost = tier.cost.of(usage.input, usage.output)
        found = judging.grade(said)
        if found is Grade.UNSURE or found is None:
            return Heard(None, "unsure" if found else "judge_unclear", cost)  # 6
        return Heard(found is Grade.PASS, cost=cost)  # 7

    async def _said(
        self, tier: str, serve: Serve, lease: Lease, question: Callable[[bool], Prompt], timeout: float
    ) -> tuple[Usage, str]:
        """What it cost, and what was said. Raises StokerError, TimeoutError."""
        kept = _Kept()
        while True:
            is_plain = tier in self._plain
            form = self._speech.own(serve, lease.target, question(is_plain))
            sending = self._speech.sending(form, lease.target, [], "judge", check=kept)
            status, body = await exchange(self._pool, lease.target, sending.head, sending.body, timeout)
            if status not in (400, 422) or is_plain:
                break
            self._plain.add(tier)
        if status == 429:
            raise _busy("it has too much to do")
        if status != 200:
            ours = status in (400, 404, 413, 422)
            raise (ClientError if ours else UpstreamError)(f"it answered HTTP {status}", code="judge_failed")
        assert isinstance(sending.answer, AnswerTranslator)
        sending.answer.whole(body)
        return sending.answer.usage, kept.text

    @asynccontextmanager
    async def _place(self, serve: Serve, may_wait: bool, timeout: float) -> AsyncIterator[Lease]:
        """A lease for `timeout` seconds at most: then TimeoutError. Raises CapacityError where there is none, or where
        it is taken away.
        """
        is_cut = False

        def cut(reason: str) -> None:
            nonlocal is_cut
            is_cut = True
            limit.reschedule(0.0)

        try:
            async with asyncio.timeout(timeout) as limit:
                lease = await self._lease(serve, may_wait)
                lease.on_cut = cut
                try:
                    yield lease
                finally:
                    lease.release()
        except TimeoutError:
            if is_cut:
                raise _busy("its place was taken away") from None
            raise

    async def _lease(self, serve: Serve, may_wait: bool) -> Lease:
        """A free place. A serve that runs elsewhere may have to be looked at first, and that takes nobody's place.
        Raises CapacityError where there is none.
        """
        got = self._leases.acquire(serve.name)
        if isinstance(got, Lease):
            return got
        if not may_wait:
            got.cancel()
            raise _busy("no place is free")
        try:
            return await got
        except asyncio.CancelledError:
            if got.done() and not got.cancelled() and got.exception() is None:
                got.result().release()  # it was granted in the very moment
            raise


class _Kept:
    """Holds the text of a whole answer; checks nothing."""

    is_failed = False

    def __init__(self) -> None:
        self.text = ""

    def feed(self, event: Event) -> Iterable[Event]:
        return (event,)

    def judge(self, answer: Answer) -> None:
        self.text = "".join(block.text for block in answer.blocks if isinstance(block, Text))

    def told(self) -> tuple[str, ...]:
        return ()


def _busy(why: str) -> CapacityError:
    return CapacityError(f"the judge has no time: {why}", code="judge_busy")


def _tokens(size: int) -> int:
    """Of a question about so many characters, about."""
    return size // BYTES_PER_TOKEN + judging.RULES_TOKENS
