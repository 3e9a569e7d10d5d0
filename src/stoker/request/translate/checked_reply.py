"""A reply that passes through while a check reads it: the client gets the serve's own bytes."""

from __future__ import annotations

from stoker.domain.answer import Event
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError, UpstreamError
from stoker.request.codec.frames import StreamReader, check_answer
from stoker.request.codec.own_replies import StreamPosition
from stoker.request.codec.reply_formats import refuse_empty
from stoker.request.codec.required_fields import completed_body
from stoker.request.codec.sse import FrameSplitter
from stoker.request.codec.upstream_messages import UpstreamMessages
from stoker.request.codec.usage import Usage
from stoker.request.translate.neutral.block_sequencer import BlockSequencer
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import loose
from stoker.request.translate.neutral.protocols import Check
from stoker.request.translate.translate import answer_reader


class CheckedReply:
    """Takes the place of an `AnswerTranslator`, and changes nothing. Only `translate_whole` raises."""

    __slots__ = (
        "_check",
        "_dialect",
        "_frames",
        "_inner",
        "_reader",
        "_refuses_empty",
        "_sequence",
        "_usage",
        "rejected",
    )
    content_type = b"text/event-stream; charset=utf-8"
    includes_error = False

    def __init__(
        self, dialect: Dialect, removes_usage: bool, check: Check, words: UpstreamMessages | None = None
    ) -> None:
        self.rejected: UpstreamError | None = None
        self._dialect = dialect
        self._inner = StreamReader(dialect, removes_usage, words)
        self._reader = answer_reader(dialect, Losses())
        self._frames = FrameSplitter()
        self._sequence = BlockSequencer()
        self._check = check
        self._usage: Usage | None = None
        self._refuses_empty = False

    def refuse_empty(self) -> None:
        """Take an empty answer for a failure."""
        self._refuses_empty = True
        self._inner.refuse_empty()

    @property
    def is_meaningful(self) -> bool:
        return self._inner.is_meaningful

    @is_meaningful.setter
    def is_meaningful(self, value: bool) -> None:
        self._inner.is_meaningful = value

    @property
    def has_content(self) -> bool:
        return self._inner.is_meaningful

    @property
    def error(self) -> StokerError | None:
        return self._inner.error

    @property
    def failure(self) -> StokerError | None:
        return self._inner.failure

    @property
    def usage(self) -> Usage:
        return self._usage or self._inner.usage

    def feed(self, data: bytes) -> bytes:
        for frame in self._frames.feed(data):
            payload = None if frame == b"[DONE]" else loose(frame)
            if payload is None:
                self._look(self._reader.finish(is_said=True))
            elif isinstance(payload, dict):
                self._look(self._reader.read(payload))
        return self._inner.feed(data)

    def has_ended(self) -> bool:
        return self._inner.has_ended()

    def take_rest(self) -> bytes:
        return self._inner.take_rest()

    def tokens_so_far(self) -> int:
        return self._inner.tokens_so_far()

    def position(self) -> StreamPosition:
        return self._inner.position()

    def translate_whole(self, body: bytes) -> bytes:
        """The body, as it would pass through unread. Raises StokerError if it is not an answer."""
        checked = check_answer(self._dialect, body)
        self._usage = checked.usage
        body = checked.mended or body
        payload = loose(body)
        if isinstance(payload, dict):
            self._check.judge(self._reader.read_whole(payload))
        if self._refuses_empty:
            refuse_empty(self._dialect, body)
        return completed_body(body) if self._dialect.spec.has_response else body

    def describe_changes(self) -> bytes:
        return b""

    def _look(self, events: list[Event]) -> None:
        for event in events:
            for one in self._sequence.feed(event):
                self._check.feed(one)
