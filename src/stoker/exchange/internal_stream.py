"""One streamed answer to a request that Stoker itself makes, as events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from stoker.domain.answer import Answer, BlockKind, Event, Finished, Grew, Opened, StopReason
from stoker.domain.errors import StokerError, UpstreamError
from stoker.domain.prompt import Text
from stoker.request.codec.content_coding import PLAIN, ContentDecoder
from stoker.request.relay import faults
from stoker.request.relay.faults import refusal_of
from stoker.request.relay.headers import retry_after
from stoker.request.translate.translate import AnswerTranslator

_MAX_REFUSAL = 64 * 1024
_MAX_WHOLE = 4 * 2**20


class TextListener:
    """Poses as a check to receive the events; passes none on, because no client waits for them. Thinking is dropped."""

    is_failed = False

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self.stop: StopReason | None = None
        """Why the answer ended; None: it has not."""
        self._on_text = on_text
        self._text_blocks: set[int] = set()

    def feed(self, event: Event) -> Iterable[Event]:
        match event:
            case Grew(at=at, text=text):
                if at in self._text_blocks:
                    self._on_text(text)
            case Opened(at=at, kind=BlockKind.TEXT):
                self._text_blocks.add(at)
            case Finished(stop=stop):
                self.stop = stop
        return ()

    def judge(self, answer: Answer) -> None:
        """A serve that answers without a stream although it was asked for one."""
        for block in answer.blocks:
            if isinstance(block, Text) and block.text:
                self._on_text(block.text)
        self.stop = answer.stop

    def failed_checks(self) -> tuple[str, ...]:
        return ()


class InternalStream:
    """Receives the reply. `done` ends with the stream, or with a StokerError."""

    def __init__(self, translator: AnswerTranslator, listener: TextListener) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.received = 0
        """Bytes of the body so far."""
        self._translator = translator
        self._listener = listener
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._decoder: ContentDecoder | None = None
        self._whole: bytearray | None = None
        """The body of a reply that is not a stream."""

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._status, self._headers = status, headers
        kind = next((value for name, value in headers if name == b"content-type"), b"")
        coding = next((value.strip().lower() for name, value in headers if name == b"content-encoding"), b"")
        if coding not in PLAIN:
            self._decoder = ContentDecoder(coding)
        if status != 200 or not kind.lower().startswith(b"text/event-stream"):
            self._whole = bytearray()

    def on_data(self, data: bytes) -> None:
        self.received += len(data)
        if self._decoder is not None:
            try:
                data = self._decoder.feed(data)
            except UpstreamError as error:
                self._fail(error)
                return
        if self._whole is None:
            self._translator.feed(data)
            if self._translator.error is not None:
                self._fail(self._translator.error)
        elif len(self._whole) + len(data) <= (_MAX_WHOLE if self._status == 200 else _MAX_REFUSAL):
            self._whole += data
        elif self._status == 200:
            self._fail(faults.unusable(f"answered with more than {_MAX_WHOLE} bytes"))

    def on_end(self) -> None:
        if self.done.done():
            return
        try:
            self._end()
        except StokerError as error:
            self._fail(error)
        else:
            self.done.set_result(None)

    def on_broken(self, reason: str) -> None:
        self._fail(UpstreamError(f"the serve broke off its reply: {reason}", code="upstream_broke"))

    def _end(self) -> None:
        """Raises StokerError if this was no proper end."""
        if self._whole is None:
            self._translator.has_ended()  # lets the listener know an end without a last word
            if self._listener.stop is None:
                raise UpstreamError("the serve ended its stream before the answer was complete", code="upstream_broke")
            return
        body = bytes(self._whole)
        if self._status == 200:
            self._translator.translate_whole(body)
            return
        error = faults.from_status(self._status, self._headers, body)
        raise error or refusal_of(self._status, body, retry_after(self._headers))

    def _fail(self, error: StokerError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
