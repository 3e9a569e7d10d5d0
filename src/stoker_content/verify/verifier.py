"""One answer, event by event: what may flow now, and whether it is built as it has to be.

    mode         text            calls                                  the end
    OFF          flows           flow                                   flows, nothing is looked at
    OBSERVE      flows           flow                                   flows
    HOLD_TOOLS   flows           wait until they are proved valid       flows if nothing was proved wrong
    HOLD_ALL     waits           wait                                   all at once, if nothing was proved wrong

In the two holding modes nothing flows any more from the first proved fault on: what waited is dropped.
"""

from __future__ import annotations

from stoker.domain.answer import (
    Answer,
    BlockKind,
    Closed,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
)
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall
from stoker.domain.server_tools import McpListing, ServerCall
from stoker.domain.tier import HOLDING, Verify
from stoker_content.verify.check_calls import CallCheck
from stoker_content.verify.check_text import TextCheck
from stoker_content.verify.expectation import Expectation
from stoker_content.verify.finding import AnswerFinding, AnswerState, proved
from stoker_content.verify.text_buffer import TextBuffer


class HeldEvents:
    """Events that are held back. Consecutive pieces of one block are joined: holding them costs no more than their
    text. `size`: characters of text held back.
    """

    __slots__ = ("_at", "_events", "_growth", "size")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._at: int | None = None
        self._growth = TextBuffer()
        self.size = 0

    def add(self, event: Event) -> None:
        if isinstance(event, Grew):
            if event.at != self._at:
                self._join()
                self._at = event.at
            self._growth.add(event.text)
            self.size += len(event.text)
            return
        self._join()
        self._events.append(event)

    def release(self) -> list[Event]:
        """Empty the store and return its events in order."""
        self._join()
        events = self._events
        self.drop()
        return events

    def drop(self) -> None:
        self._events = []
        self._at = None
        self._growth.drop()
        self.size = 0

    def _join(self) -> None:
        if self._at is not None:
            self._events.append(Grew(self._at, self._growth.text()))
            self._growth.drop()
            self._at = None


MAX_ARGUMENTS = 4 * 1024 * 1024
"""Characters of one call's arguments."""
MAX_HELD = 16 * 1024 * 1024
"""Characters of all that waits in HOLD_ALL."""


class Verifier:
    """One per answer. Events come as readers give them; text and calls may be open side by side.

    Linear in the answer. Kept: what waits, the last 64 KB of text, the open line and block, a call's arguments up to
    MAX_ARGUMENTS, and the whole text up to 4 MB if it is to be JSON. What is larger is a finding of its own.
    """

    def __init__(self, expected: Expectation, mode: Verify) -> None:
        self._mode = mode
        self._calls = CallCheck(expected)
        self._text = TextCheck(expected)
        self._open: dict[int, Opened] = {}
        self._arguments: dict[int, TextBuffer] = {}
        self._waiting: dict[int, HeldEvents] = {}
        """HOLD_TOOLS: by block. HOLD_ALL: all of them under -1."""
        self._found: dict[AnswerFinding, None] = {}
        self._is_finished = False
        self._is_failed = False
        self._had_call = False

    @property
    def findings(self) -> list[AnswerFinding]:
        """So far, in the order in which they were found, each once."""
        return list(self._found)

    @property
    def is_failed(self) -> bool:
        """Nothing flows any more, and what waited is gone. Never in OFF and OBSERVE."""
        return self._is_failed

    def state(self) -> AnswerState:
        """OPEN until the answer is finished, unless a fault is proved before; in OFF everything passes."""
        if any(finding.is_proved for finding in self._found):
            return AnswerState.FAILED
        return AnswerState.PASSED if self._is_finished else AnswerState.OPEN

    def feed(self, event: Event) -> list[Event]:
        """What may flow now, in order; often nothing, sometimes much."""
        if self._mode is Verify.OFF:
            self._is_finished = self._is_finished or isinstance(event, Finished | Ended)
            return [event]
        for finding in self._look(event):
            self._found[finding] = None
            self._is_failed = self._is_failed or (finding.is_proved and self._mode in HOLDING)
        if self._is_failed:
            self._waiting.clear()
            return [event] if isinstance(event, Failed) else []
        match self._mode:
            case Verify.HOLD_TOOLS:
                return self._hold_tools(event)
            case Verify.HOLD_ALL:
                return self._hold_all(event)
            case _:
                return [event]

    def _look(self, event: Event) -> list[AnswerFinding]:
        match event:
            case Opened():
                return self._opened(event)
            case Grew(at=at, text=text):
                return self._grew(at, text)
            case Closed(at=at):
                return self._closed(at)
            case Finished(stop=stop) if not self._is_finished:
                return self._finished(stop)
            case Ended() if not self._is_finished:
                return [*self._finished(StopReason.END), proved("unfinished")]
            case _:
                return []

    def _opened(self, block: Opened) -> list[AnswerFinding]:
        self._open[block.at] = block
        if block.kind is BlockKind.CALL:
            self._had_call = True
            self._arguments[block.at] = TextBuffer()
            return self._calls.opened(block)
        self._text.opened(block.kind)
        if block.kind is BlockKind.TEXT and self._had_call:
            self._had_call = False
            return self._text.break_line()
        return []

    def _grew(self, at: int, text: str) -> list[AnswerFinding]:
        block = self._open.get(at)
        if block is None:
            return []
        if block.kind is BlockKind.TEXT:
            return self._text.grew(text)
        arguments = self._arguments.get(at)
        if arguments is None or arguments.size > MAX_ARGUMENTS:
            return []
        arguments.add(text)
        return [proved("too_large")] if arguments.size > MAX_ARGUMENTS else []

    def _closed(self, at: int) -> list[AnswerFinding]:
        block = self._open.pop(at, None)
        arguments = self._arguments.pop(at, None)
        if block is None or arguments is None or arguments.size > MAX_ARGUMENTS:
            return []
        return self._calls.closed(block, arguments.text())

    def _finished(self, stop: StopReason) -> list[AnswerFinding]:
        self._is_finished = True
        left = [finding for at in list(self._arguments) for finding in self._closed(at)]
        return [*left, *self._calls.finished(stop), *self._text.finished(stop, self._calls.count)]

    def _hold_tools(self, event: Event) -> list[Event]:
        match event:
            case Opened(at=at, kind=BlockKind.CALL):
                self._waiting[at] = HeldEvents()
                self._waiting[at].add(event)
                return []
            case Grew(at=at) | Signed(at=at) if at in self._waiting:
                self._waiting[at].add(event)
                return []
            case Closed(at=at) if at in self._waiting:
                return [*self._waiting.pop(at).release(), event]
            case Finished() | Ended():
                left = [each for held in self._waiting.values() for each in held.release()]
                self._waiting.clear()
                return [*left, event]
            case _:
                return [event]

    def _hold_all(self, event: Event) -> list[Event]:
        if isinstance(event, Failed):
            return [event]
        waiting = self._waiting.setdefault(-1, HeldEvents())
        waiting.add(event)
        if self._is_finished:
            return waiting.release()
        if waiting.size > MAX_HELD:
            self._found[proved("too_large")] = None
            self._is_failed = True
            self._waiting.clear()
        return []


def check_whole_answer(expected: Expectation, answer: Answer) -> list[AnswerFinding]:
    """What is found in an answer that was not streamed: the same as in the same answer streamed."""
    verifier = Verifier(expected, Verify.OBSERVE)
    for event in events_of(answer):
        verifier.feed(event)
    return verifier.findings


def events_of(answer: Answer) -> list[Event]:
    """The blocks of an answer, and its end, as events."""
    events: list[Event] = []
    for at, block in enumerate(answer.blocks):
        if isinstance(block, ServerCall | McpListing):  # Stoker's own, and no part of what the model said
            continue
        opened, text = _opened(at, block)
        events.append(opened)
        if text:
            events.append(Grew(at, text))
        events.append(Closed(at))
    return [*events, Finished(answer.stop, answer.sequence)]


def _opened(at: int, block: Text | Thinking | Redacted | Refusal | ToolCall) -> tuple[Opened, str]:
    match block:
        case ToolCall(id=id, name=name, arguments=arguments, custom=custom):
            return Opened(at, BlockKind.CALL, id, name, custom), arguments
        case Text(text=text):
            return Opened(at, BlockKind.TEXT), text
        case Thinking(text=text):
            return Opened(at, BlockKind.THINKING), text
        case Redacted(data=data):
            return Opened(at, BlockKind.REDACTED), data
        case Refusal(text=text):
            return Opened(at, BlockKind.REFUSAL), text
