"""One request's translation: read in the client's dialect, written in the serve's, and its answer the other way.

reading   SSE frames -> the serve's AnswerReader -> events -> one block at a time -> the client's own names
writing   -> the client's AnswerWriter -> bytes
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

from stoker.domain.answer import (
    Answer,
    AnswerBlock,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import REJECTED, StokerError, UpstreamError
from stoker.domain.prompt import Prompt, Text, Thinking
from stoker.request.codec.endings import empty_answer
from stoker.request.codec.frames import problem_of
from stoker.request.codec.own_replies import StreamPosition
from stoker.request.codec.sse import FrameSplitter
from stoker.request.codec.tolerant_json import FrameReader, read_strictly
from stoker.request.codec.upstream_errors import is_error, no_answer, whole_error
from stoker.request.codec.upstream_messages import UpstreamMessages
from stoker.request.codec.usage import Usage, text_size, tokens_of_pieces, tokens_of_text
from stoker.request.translate.neutral.block_sequencer import BlockSequencer
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode, loose
from stoker.request.translate.neutral.protocols import (
    AnswerContext,
    AnswerReader,
    AnswerWriter,
    Check,
    ReadAnswer,
    ReadPrompt,
    WritePrompt,
    position_of,
)
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.prepare import PassContext, prepare
from stoker.request.translate.restore import AnswerRestorer


def _on_demand(module: str, name: str) -> Any:
    """A reader or writer of a dialect, whose module is imported with the first request that needs it: a megabyte that
    plain requests do without, and a few milliseconds.
    """

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"stoker.request.translate.{module}"), name)(*arguments)

    return call


class Translator(NamedTuple):
    """How one dialect is read and written: by clients, and by serves if it is one of `TARGETS`."""

    read_prompt: ReadPrompt
    write_answer: Callable[[AnswerContext, Losses], AnswerWriter]
    write_prompt: WritePrompt | None = None
    read_answer: ReadAnswer | None = None


TRANSLATORS: dict[Dialect, Translator] = {
    Dialect.CHAT: Translator(
        _on_demand("chat.read_prompt", "read_prompt"),
        _on_demand("chat.write_answer", "ChatAnswerWriter"),
        _on_demand("chat.write_prompt", "write_prompt"),
        _on_demand("chat.read_answer", "ChatAnswerReader"),
    ),
    Dialect.MESSAGES: Translator(
        _on_demand("messages.read_prompt", "read_prompt"),
        _on_demand("messages.write_answer", "MessagesAnswerWriter"),
        _on_demand("messages.write_prompt", "write_prompt"),
        _on_demand("messages.read_answer", "MessagesAnswerReader"),
    ),
    Dialect.RESPONSES: Translator(
        _on_demand("responses.read_prompt", "read_prompt"),
        _on_demand("responses.write_answer", "ResponsesAnswerWriter"),
        _on_demand("responses.write_prompt", "write_prompt"),
        _on_demand("responses.read_answer", "ResponsesAnswerReader"),
    ),
    Dialect.COMPLETIONS: Translator(
        _on_demand("completions", "read_prompt"), _on_demand("completions", "CompletionsAnswerWriter")
    ),
    Dialect.OLLAMA_CHAT: Translator(
        _on_demand("ollama.read_prompt", "read_prompt"), _on_demand("ollama.write_answer", "OllamaAnswerWriter")
    ),
    Dialect.OLLAMA_GENERATE: Translator(
        _on_demand("ollama.read_prompt", "read_generate"), _on_demand("ollama.write_answer", "OllamaAnswerWriter")
    ),
}


def answer_reader(dialect: Dialect, losses: Losses, keeps_logprobs: bool = False) -> AnswerReader:
    """Of a serve's answer. `dialect`: one of `TARGETS`."""
    read_answer = TRANSLATORS[dialect].read_answer
    assert read_answer is not None
    return read_answer(losses, keeps_logprobs)


def answer_writer(context: AnswerContext, losses: Losses) -> AnswerWriter:
    """In the dialect of the client's prompt."""
    return TRANSLATORS[context.prompt.dialect].write_answer(context, losses)


class Written(NamedTuple):
    """A request in the serve's dialect, and what is needed to translate its answer back."""

    prompt: Prompt
    body: bytes
    names: dict[str, str]
    losses: Losses


def read_prompt(dialect: Dialect, body: bytes) -> tuple[Prompt, Losses]:
    """Reads a client's request: the prompt, and what was lost. Raises ClientError 400."""
    losses = Losses()
    return TRANSLATORS[dialect].read_prompt(body, losses), losses


def write_prompt(prompt: Prompt, read_losses: Losses, traits: Capabilities, signer: ThinkingSigner) -> Written:
    """Writes the request for the serve. Raises ClientError 400 for an image URL that may not be fetched, and, if the
    translation is strict, for anything that would be lost.
    """
    losses = Losses()
    losses.update(read_losses)
    fitted, names = prepare(prompt, PassContext(traits, signer, losses))
    write = TRANSLATORS[traits.dialect].write_prompt
    assert write is not None
    document = write(fitted, traits, losses)
    if traits.strict:
        losses.refuse()
    return Written(prompt, encode(document), names, losses)


class AnswerTranslator:
    """Translates an answer back. For a stream it takes the place of pass-through's `StreamReader`: `feed` returns the
    bytes to send now. Only `translate_whole` raises. `changes`: what was done to the request.
    """

    __slots__ = (
        "_began",
        "_calls",
        "_check",
        "_client",
        "_frames",
        "_has_begun",
        "_is_over",
        "_muted",
        "_opened",
        "_payloads",
        "_pending",
        "_pieces",
        "_reader",
        "_refuses_empty",
        "_restore",
        "_restored",
        "_sequence",
        "_size",
        "_tokens",
        "_upstream",
        "_upstream_messages",
        "_writer",
        "changes",
        "error",
        "has_content",
        "is_meaningful",
        "losses",
        "rejected",
        "usage",
    )  # fmt: skip
    failure = None
    includes_error = True
    """An error in the serve's stream was already written in the client's dialect."""

    def __init__(
        self,
        upstream: Dialect,
        written: Written,
        context: AnswerContext,
        changes: tuple[str, ...] = (),
        check: Check | None = None,
        upstream_messages: UpstreamMessages | None = None,
    ) -> None:
        self.changes = changes
        self._upstream_messages = upstream_messages or UpstreamMessages()
        self.rejected: UpstreamError | None = None
        """The check found the answer wrong: nothing held or received since is sent. `error` is then set."""
        self._check = check
        self.losses = Losses()
        """What was lost of the answer so far."""
        self.usage = Usage()
        self.is_meaningful = False
        self.has_content = False
        """Whether any part of an answer came, even if it is held back."""
        self.error: StokerError | None = None
        self._upstream = upstream
        self._client = context.prompt.dialect
        self._reader = self._new_reader()
        self._writer = answer_writer(context, self.losses)
        custom = frozenset(tool.name for tool in context.prompt.tools if tool.custom)
        self._restored = written.names, custom
        self._restore = AnswerRestorer(*self._restored)
        self._sequence = BlockSequencer()
        self._frames = FrameSplitter()
        self._payloads = FrameReader()
        self._tokens = Tokens()
        self._pieces = self._size = 0
        """Pieces of the answer, and the characters in them."""
        self._began = Began("", "")
        """The first event, held until another follows, so that it carries the usage known by then: some serves report
        none at first.
        """
        self._has_begun = False
        self._opened = 0
        """How many blocks were sent, and how many of them are calls."""
        self._calls = 0
        self._muted: set[int] | None = None
        """When a second reply continues the answer: its blocks that are not calls, which are left out."""
        self._pending = b""
        self._is_over = False
        self._refuses_empty = False

    def refuse_empty(self) -> None:
        """Take an empty answer for a failure: see `codec.reply_formats.refuse_empty`."""
        self._refuses_empty = True

    @property
    def can_continue(self) -> bool:
        """Whether a second reply may supply the calls of this answer: text of it was sent, but no call."""
        return self._has_begun and self._calls == 0

    def continue_with(self, check: Check | None) -> None:
        """A second reply of the serve follows. Its calls become those of this answer; the rest of it is left out."""
        self.rejected, self.error = None, None
        self.usage, self._tokens = Usage(), Tokens()
        self._pieces = self._size = 0
        self._check = check
        self._reader = self._new_reader()
        self._restore = AnswerRestorer(*self._restored)
        self._sequence = BlockSequencer(self._opened)
        self._frames, self._payloads = FrameSplitter(), FrameReader()
        self._muted = set()
        self.is_meaningful = self._is_over = False
        self._pending = b""

    def follow_with(self, check: Check | None) -> None:
        """Another reply of the serve follows, and goes on with this answer: all of it is passed on. `check` numbers the
        blocks.
        """
        self.continue_with(check)
        self._muted = None

    def insert(self, events: Iterable[Event]) -> bytes:
        """Between two replies: what Stoker itself has to say in this answer."""
        out: list[bytes] = []
        for event in events:
            self._put(event, out)
        return b"".join(out)

    def write_answer(self, answer: Answer) -> bytes:
        """An answer that Stoker itself put together, whole."""
        return encode(self._writer.write_whole(answer))

    def _new_reader(self) -> AnswerReader:
        return answer_reader(self._upstream, self.losses, self._client.spec.keeps_logprobs)

    @property
    def content_type(self) -> bytes:
        return self._writer.content_type

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        for frame in self._frames.feed(data):
            if frame == b"[DONE]":
                self._read_all(self._payloads.rest(), out)
                self._write(self._reader.finish(is_said=True), out)
                continue
            payload = read_strictly(frame)
            if payload is None or self._payloads.held is not None:
                self._read_all(self._payloads.read(frame), out)
            elif isinstance(payload, dict):
                events = self._reader.read(payload)
                if events and isinstance(events[0], Failed):  # a reader returns it as the only event
                    self.error = events[0].error
                self._write(events, out)
        return b"".join(out)

    def _read_all(self, payloads: list[Any], out: list[bytes]) -> None:
        """What frames said that are no strict JSON."""
        for payload in payloads:
            if isinstance(payload, dict):
                events = self._reader.read(payload)
                if events and isinstance(events[0], Failed):
                    self.error = events[0].error
                self._write(events, out)

    def has_ended(self) -> bool:
        """Whether the answer ended properly; `take_rest` then returns the bytes that are still to be sent."""
        if not self._is_over:
            out: list[bytes] = []
            rest = self._frames.rest()
            is_said = rest == b"[DONE]"
            if rest and not is_said:
                self._read_all(self._payloads.read(rest), out)
            self._read_all(self._payloads.rest(), out)
            self._write(self._reader.finish(is_said), out)
            self._pending += b"".join(out)
        return self._is_over

    def take_rest(self) -> bytes:
        rest, self._pending = self._pending, b""
        return rest

    def tokens_so_far(self) -> int:
        """Tokens of the answer by its pieces, for want of a count of the serve's."""
        return tokens_of_pieces(self._pieces, self._size)

    def position(self) -> StreamPosition:
        return position_of(self._writer)

    def describe_changes(self) -> bytes:
        """The changes to request and answer, for `x-stoker-translation`."""
        lost = (f"lossy:{code}" for code in self.losses.codes)
        return ",".join(dict.fromkeys((*self.changes, *lost))).encode()

    def translate_whole(self, body: bytes) -> bytes:
        """Translates a whole answer. Raises StokerError if the body is not an answer."""
        payload = loose(body)
        if not isinstance(payload, dict):
            raise no_answer("is not a JSON object")
        if is_error(payload):
            raise whole_error(payload)
        given = payload.get(self._upstream.spec.answers)
        entries = bool(given) if isinstance(given, list) else None
        answer = self._reader.read_whole(payload)
        status, stop = payload.get("status"), payload.get("stop_reason")
        problem = problem_of(self._upstream, status, stop, entries) or answer.failure
        if problem is not None:
            raise problem
        self._restore.restore_whole(answer)
        self._count(answer.tokens)
        self.usage.calls_tool = answer.stop is StopReason.CALLS
        if not answer.tokens.output:
            self.usage.text_tokens = tokens_of_text(text_size({"content": given}))
        if self._check is not None:
            self._check.judge(answer)
            if self._check.is_failed:
                raise rejection(self._check)
        if self._refuses_empty and answer.stop is StopReason.END and not any(map(_is_said, answer.blocks)):
            raise empty_answer()
        return encode(self._writer.write_whole(answer))

    def _write(self, events: Iterable[Event], out: list[bytes]) -> None:
        sequence, restore, check = self._sequence, self._restore, self._check
        for read in events if self._muted is None else self._unmuted(events, self._muted):
            for event in sequence.feed(read):
                for restored in restore.feed(event):
                    self._tally(restored)
                    for passed in (restored,) if check is None else check.feed(restored):
                        if self._refuses_empty and self._is_empty(passed):
                            self.error = empty_answer()
                            return
                        self._put(passed, out)
        if check is not None and check.is_failed and self.rejected is None:
            self.rejected = self.error = rejection(check)

    def _is_empty(self, event: Event) -> bool:
        """Whether the answer is complete with this event, and said nothing."""
        is_end = isinstance(event, Finished) and event.stop is StopReason.END
        return is_end and not self.is_meaningful and self._muted is None

    def _unmuted(self, events: Iterable[Event], muted: set[int]) -> Iterable[Event]:
        """Of a second reply that continues the answer: its calls, its end and its usage."""
        for event in events:
            if self.rejected is not None:
                return
            match event:
                case Began(tokens=tokens):
                    if tokens is not None:
                        self._count(tokens)
                case Opened(at=at, kind=kind) if kind is not BlockKind.CALL:
                    muted.add(at)
                case Grew(at=at) | Signed(at=at) | Closed(at=at) if at in muted:
                    pass
                case Finished() if not self._calls and self._sequence.is_idle:
                    text = "the model made no new call in place of the wrong one"
                    self.rejected = self.error = UpstreamError(text, code=REJECTED)
                case _:
                    yield event

    def _put(self, event: Event, out: list[bytes]) -> None:
        """Writes an event in the client's dialect; the first event waits until another follows."""
        self._note(event)
        if isinstance(event, Opened):
            self._opened += 1
            self._calls += event.kind is BlockKind.CALL
        if isinstance(event, Began):
            self._began = event
        elif isinstance(event, Failed):
            out.append(self._writer.write(Failed(self._upstream_messages.for_client(copy.copy(event.error)))))
        elif self._has_begun:
            out.append(self._writer.write(event))
        elif not isinstance(event, Counted):
            self._has_begun = True
            self._began.tokens = self._tokens
            out += (self._writer.write(self._began), self._writer.write(event))

    def _note(self, event: Event) -> None:
        match event:
            case Grew() | Finished():
                self.is_meaningful = True
            case Opened(kind=kind):
                self.is_meaningful = self.is_meaningful or kind in (BlockKind.CALL, BlockKind.REDACTED)
            case Failed() | Ended():
                self._is_over = True

    def _tally(self, event: Event) -> None:
        """Notes usage, and that something came, even for an answer that is not sent."""
        match event:
            case Grew(text=text):
                self.has_content = True
                self._pieces += 1
                self._size += len(text)
            case Counted(tokens=tokens) | Began(tokens=Tokens() as tokens):
                self._count(tokens)
            case Finished(stop=stop):
                self.has_content = True
                self.usage.calls_tool = stop is StopReason.CALLS

    def _count(self, tokens: Tokens) -> None:
        self._tokens.update(tokens)
        self.usage.input, self.usage.output = self._tokens.input, self._tokens.output
        self.usage.cached, self.usage.cache_written = self._tokens.cached, self._tokens.written
        self.usage.reasoning = self._tokens.reasoning


def _is_said(block: AnswerBlock) -> bool:
    return not isinstance(block, Text | Thinking) or bool(block.text)


def rejection(check: Check) -> UpstreamError:
    """The error for an answer that the check proved wrong."""
    text = f"the model's answer failed verification: {', '.join(check.failed_checks()) or 'no reason was kept'}"
    return UpstreamError(text, code=REJECTED)
