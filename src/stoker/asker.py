"""Questions of Stoker's own to a serve: asked as any client would be, but only where nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from stoker.call import Leases
from stoker.domain.answer import Answer, Event
from stoker.domain.errors import CapacityError, ClientError, UpstreamError
from stoker.domain.lease import Lease, Target
from stoker.domain.prompt import Prompt, Text
from stoker.domain.serve import Serve
from stoker.request.codec.frames import Usage
from stoker.request.relay.pool import Pool
from stoker.request.relay.tokens import exchange
from stoker.request.translate.translate import AnswerTranslator
from stoker.speech import Speech


class Asker:
    def __init__(self, pool: Pool, speech: Speech) -> None:
        self._pool = pool
        self._speech = speech
        self._plain: dict[str, Serve] = {}
        """Serves that refused a question for its settings, as they were configured then: they are asked without."""

    async def said(
        self, serve: Serve, target: Target, question: Callable[[bool], Prompt], timeout: float
    ) -> tuple[Usage, str]:
        """What was said to `question(plain)`, and what it took. Raises StokerError (CapacityError: it has too much to
        do), TimeoutError.
        """
        kept = _Kept()
        is_plain = self._plain.get(serve.name) is serve
        while True:
            form = self._speech.own(serve, target, question(is_plain))
            sending = self._speech.sending(form, target, [], "stoker", check=kept)
            status, body = await exchange(self._pool, target, sending.head, sending.body, timeout)
            if status not in (400, 422) or is_plain:
                break
            is_plain = True
        if is_plain and status == 200:  # else it was not for the settings
            self._plain[serve.name] = serve
        if status == 429:
            raise busy("it has too much to do")
        if status != 200:
            ours = status in (400, 404, 413, 422)
            raise (ClientError if ours else UpstreamError)(f"it answered HTTP {status}", code="not_answered")
        assert isinstance(sending.answer, AnswerTranslator)
        sending.answer.whole(body)
        return sending.answer.usage, kept.text


@asynccontextmanager
async def place(
    leases: Leases, serve: Serve, may_wait: bool, timeout: float, yields: bool = False
) -> AsyncIterator[Lease]:
    """A lease for `timeout` seconds at most: then TimeoutError. Raises CapacityError where there is none, or where it
    is taken away: if it `yields`, as soon as anybody waits for it.
    """
    is_cut = False

    def cut(reason: str) -> None:
        nonlocal is_cut
        is_cut = True
        with suppress(RuntimeError):  # its time is over in this very moment
            limit.reschedule(0.0)

    try:
        async with asyncio.timeout(timeout) as limit:
            lease = await _lease(leases, serve, may_wait)
            lease.on_cut = cut
            if yields:
                leases.yields(lease)
            try:
                yield lease
            finally:
                lease.release()
    except TimeoutError:
        if is_cut:
            raise busy("its place was taken away") from None
        raise


async def _lease(leases: Leases, serve: Serve, may_wait: bool) -> Lease:
    """A free place. A serve that runs elsewhere may have to be looked at first, and that takes nobody's place.
    Raises CapacityError where there is none.
    """
    got = leases.acquire(serve.name)
    if isinstance(got, Lease):
        return got
    if not may_wait:
        got.cancel()
        raise busy("no place is free")
    try:
        return await got
    except asyncio.CancelledError:
        if got.done() and not got.cancelled() and got.exception() is None:
            got.result().release()  # it was granted in the very moment
        raise


def busy(why: str) -> CapacityError:
    return CapacityError(f"no question can be asked: {why}", code="busy")


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
