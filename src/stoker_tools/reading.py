"""Reads one round: the model's calls of functions that Stoker runs are kept from the client, the rest goes on live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from stoker.domain.answer import (
    Answer,
    AnswerBlock,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall
from stoker_tools.loop import ToolLoop

_GOES_ON = frozenset((StopReason.CALLS, StopReason.END, StopReason.SEQUENCE))
"""After another reason the calls may be cut off."""


class AnswerSoFar:
    """What the client has, of all rounds."""

    def __init__(self) -> None:
        self.blocks: list[AnswerBlock] = []
        self.next_number = 0
        """Of the next block of a stream."""
        self.tokens = Tokens()
        """Of the rounds that are over."""
        self.said = 0
        """Characters of text."""


class RoundReader:
    """The check of one round: it rejects an answer that calls tools, which then goes on with what they brought."""

    def __init__(self, loop: ToolLoop, answer: AnswerSoFar, first: Sequence[Event] | None = ()) -> None:
        """`first`: what the client gets before the answer begins; None: it has its beginning already."""
        self.is_failed = False
        """The round is over, and calls tools that Stoker runs. Nothing that still comes of it counts."""
        self.blocks: list[AnswerBlock] = []
        """Of this round, in order, the hidden calls included."""
        self.tokens = Tokens()
        self._loop = loop
        self._answer = answer
        self._next_number, self._said = answer.next_number, answer.said
        self._first = first
        self._numbers: dict[int, int] = {}
        """The numbers that blocks have for the client, by those of this reply; not of hidden calls."""
        self._open: dict[int, tuple[Opened, list[str]]] = {}
        self._signatures: dict[int, str] = {}
        self._wants_tools = False
        self._hidden = 0
        """Characters of arguments of the hidden call that is open."""

    @property
    def calls(self) -> list[ToolCall]:
        """Those that Stoker runs."""
        return [block for block in self.blocks if isinstance(block, ToolCall) and self._loop.is_offered(block.name)]

    @property
    def has_client_calls(self) -> bool:
        return any(isinstance(block, ToolCall) and not self._loop.is_offered(block.name) for block in self.blocks)

    def failed_checks(self) -> tuple[str, ...]:
        return ("tools",)

    def keep(self) -> None:
        """The answer goes on after this round. Of one that failed before anything was sent, nothing is kept."""
        answer = self._answer
        answer.next_number, answer.said = self._next_number, self._said
        answer.tokens = summed(answer.tokens, self.tokens)

    # -- a stream ------------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> Iterable[Event]:
        if self.is_failed:
            return ()
        match event:
            case Grew(at=at, text=text):
                if at in self._numbers:
                    if at in self._open:
                        self._open[at][1].append(text)
                    return (replace(event, at=self._numbers[at]),)
                self._hide(at, text)
                return ()
            case Opened():
                return self._begin(event)
            case Signed(at=at, signature=signature):
                self._signatures[at] = signature
                return (replace(event, at=self._numbers[at]),) if at in self._numbers else ()
            case Closed(at=at):
                self._close(at)
                return (Closed(self._numbers[at]),) if at in self._numbers else ()
            case Counted(tokens=tokens):
                self.tokens.update(tokens)
                return (Counted(summed(self._answer.tokens, self.tokens)),)
            case Began(tokens=tokens):
                if tokens is not None:
                    self.tokens.update(tokens)
                return () if self._first is None else (event, *self._first)
            case Finished():
                return self._finish(event)
            case Ended() if self._wants_tools:
                self.is_failed = True
                return ()
        return (event,)

    def _begin(self, event: Opened) -> Iterable[Event]:
        self._open[event.at] = event, []
        self._hidden = 0
        if event.kind is BlockKind.CALL and self._loop.is_offered(event.name):
            return ()
        number = self._numbers[event.at] = self._next_number
        self._next_number += 1
        return (replace(event, at=number),)

    def _hide(self, at: int, text: str) -> None:
        """More arguments of a hidden call. If no call could have so many, the model need not go on."""
        if at not in self._open:
            return
        opened, texts = self._open[at]
        if self._loop.is_too_long(opened.name, self._hidden):
            return
        texts.append(text)
        self._hidden += len(text)
        if self._loop.is_too_long(opened.name, self._hidden) and not self._loop.is_last:
            self._close(at)
            self.is_failed = True

    def _close(self, at: int) -> None:
        opened, texts = self._open.pop(at, (None, []))
        if opened is None:
            return
        text = "".join(texts)
        match opened.kind:
            case BlockKind.TEXT:
                self._said += len(text)
                self.blocks.append(Text(text))
            case BlockKind.THINKING:
                self.blocks.append(Thinking(text, self._signatures.get(at, "")))
            case BlockKind.REDACTED:
                self.blocks.append(Redacted(text))
            case BlockKind.REFUSAL:
                self.blocks.append(Refusal(text))
            case _:
                self.blocks.append(ToolCall(opened.id, opened.name, text, opened.custom))

    def _finish(self, event: Finished) -> Iterable[Event]:
        self._wants_tools = self._goes_on(event.stop)
        return () if self._wants_tools else (replace(event, stop=self._stop(event.stop)),)

    # -- a whole answer ------------------------------------------------------------------------------------------------

    def judge(self, answer: Answer) -> None:
        """If it is the last round, the answer becomes that of all rounds."""
        self.blocks, self.tokens = answer.blocks, answer.tokens
        if self._goes_on(answer.stop):
            self.is_failed = True
            return
        answer.blocks = [*self._answer.blocks, *visible(self.blocks, self._loop)]
        answer.tokens = summed(self._answer.tokens, self.tokens)
        answer.stop = self._stop(answer.stop)

    # -- both ----------------------------------------------------------------------------------------------------------

    def _goes_on(self, stop: StopReason) -> bool:
        return stop in _GOES_ON and not self._loop.is_last and bool(self.calls)

    def _stop(self, stop: StopReason) -> StopReason:
        """A model that goes on calling in the last round has said what it has to say."""
        is_silent = stop is StopReason.CALLS and bool(self.calls) and not self.has_client_calls
        return StopReason.END if is_silent else stop


def visible(blocks: Iterable[AnswerBlock], loop: ToolLoop) -> list[AnswerBlock]:
    """Without the calls that Stoker runs."""
    return [block for block in blocks if not (isinstance(block, ToolCall) and loop.is_offered(block.name))]


def summed(first: Tokens, second: Tokens) -> Tokens:
    """Of two rounds. What neither of them told stays unknown."""

    def both(name: str) -> Any:
        one, other = getattr(first, name), getattr(second, name)
        return other if one is None else one if other is None else one + other

    return Tokens(**{name: both(name) for name in Tokens.__struct_fields__})
