"""Questions of Stoker's own to a serve: asked as any client would be, but only where nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.domain.answer import Answer, Event
from stoker.domain.errors import ClientError, UpstreamError
from stoker.domain.lease import Target
from stoker.domain.prompt import Prompt, Text
from stoker.domain.serve import Serve
from stoker.exchange.formatter import Speech
from stoker.exchange.leasing import busy
from stoker.request.codec.frames import Usage
from stoker.request.relay.pool import Pool
from stoker.request.relay.tokens import exchange
from stoker.request.translate.translate import AnswerTranslator


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
            raise busy(serve.name, "it has too much to do")
        if status != 200:
            ours = status in (400, 404, 413, 422)
            raise (ClientError if ours else UpstreamError)(f"it answered HTTP {status}", code="not_answered")
        assert isinstance(sending.answer, AnswerTranslator)
        sending.answer.whole(body)
        return sending.answer.usage, kept.text


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
