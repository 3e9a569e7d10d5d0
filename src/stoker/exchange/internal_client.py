"""Requests that Stoker itself makes to a serve: questions to the judge, to the classifier model and to validators, and
the streamed answers of an orchestrator's worker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.domain.answer import Answer, Event, StopReason
from stoker.domain.errors import ClientError, UpstreamError
from stoker.domain.lease import Target
from stoker.domain.prompt import Prompt, Text
from stoker.domain.serve import Serve
from stoker.domain.task import BYTES_PER_TOKEN
from stoker.domain.usage import ServeUsage
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_stream import InternalStream, TextListener
from stoker.exchange.leasing import busy
from stoker.request.codec.usage import Usage
from stoker.request.relay.pool import ConnectionPool
from stoker.request.relay.tokens import exchange
from stoker.request.translate.translate import AnswerTranslator


class InternalClient:
    """Asks a serve as any client would. The caller holds the lease."""

    def __init__(self, pool: ConnectionPool, formatter: Formatter) -> None:
        self._pool = pool
        self._formatter = formatter
        self._plain: dict[str, Serve] = {}
        """Serves that refused a question because of its settings, as they were configured then."""
        self._streams: defaultdict[str, set[InternalStream]] = defaultdict(set)
        self._received: defaultdict[str, int] = defaultdict(int)
        """Bytes of the streams that ended, by serve."""

    def load_of(self, serve: str) -> tuple[int, int]:
        """Streams that come from a serve now, and bytes of all its streams so far."""
        streams = self._streams.get(serve, ())
        return len(streams), self._received.get(serve, 0) + sum(stream.received for stream in streams)

    async def ask(
        self, serve: Serve, target: Target, make_prompt: Callable[[bool], Prompt], timeout: float
    ) -> tuple[Usage, str]:
        """Token usage (estimated, if the serve reports none) and text of the answer to `make_prompt(plain)`.

        `plain` leaves out settings that not every engine knows. Raises TimeoutError and StokerError (CapacityError: the
        serve has too much to do).
        """
        text = _TextCollector()
        is_plain = self._plain.get(serve.name) is serve
        while True:
            request = self._formatter.format_own(serve, target, make_prompt(is_plain))
            encoded = self._formatter.encode(request, target, [], "stoker", check=text)
            status, body = await exchange(self._pool, target, encoded.head, encoded.body, timeout)
            if status not in (400, 422) or is_plain:
                break
            is_plain = True
        if is_plain and status == 200:  # it was the settings that the serve refused
            self._plain[serve.name] = serve
        if status == 429:
            raise busy(serve.name, "it answered HTTP 429")
        if status != 200:
            is_our_fault = status in (400, 404, 413, 422)
            raise (ClientError if is_our_fault else UpstreamError)(f"it answered HTTP {status}", code="not_answered")
        assert isinstance(encoded.translator, AnswerTranslator)
        encoded.translator.translate_whole(body)
        usage = encoded.translator.usage
        usage.fill(request.prompt_bytes // BYTES_PER_TOKEN, usage.text_tokens)
        return usage, text.text

    async def stream(self, serve: Serve, target: Target, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        """Stream the answer to `prompt`; `on_text` gets each piece of its text. Raises StokerError. On cancel, and on
        an error, the connection is closed, which ends the generation.
        """
        listener = TextListener(on_text)
        request = self._formatter.format_own(serve, target, prompt)
        encoded = self._formatter.encode(request, target, [], "stoker", check=listener)
        assert isinstance(encoded.translator, AnswerTranslator)
        reply = InternalStream(encoded.translator, listener)
        connection = await self._pool.open(target)
        connection.send(reply, encoded.head, encoded.body)
        self._streams[serve.name].add(reply)
        try:
            await reply.done
        except BaseException:
            connection.abort()
            raise
        finally:
            self._streams[serve.name].discard(reply)
            self._received[serve.name] += reply.received
        usage = encoded.translator.usage
        usage.fill(request.prompt_bytes // BYTES_PER_TOKEN, encoded.translator.tokens_so_far() or usage.text_tokens)
        return StreamEnd(usage, listener.stop or StopReason.END)


def usage_of(serve: str, usage: Usage) -> ServeUsage:
    """What a question used, for the lease that it held."""
    return ServeUsage(
        serve, usage.input, usage.output, usage.cached, usage.reasoning, 0.0, usage.cache_written, usage.is_estimated
    )


class StreamEnd(NamedTuple):
    usage: Usage
    stop: StopReason


class _TextCollector:
    is_failed = False

    def __init__(self) -> None:
        self.text = ""

    def feed(self, event: Event) -> Iterable[Event]:
        return (event,)

    def judge(self, answer: Answer) -> None:
        self.text = "".join(block.text for block in answer.blocks if isinstance(block, Text))

    def failed_checks(self) -> tuple[str, ...]:
        return ()
