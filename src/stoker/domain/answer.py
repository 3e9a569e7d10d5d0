"""A model's answer, independent of its dialect: as events while it streams, as an `Answer` when it is complete."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall


class StopReason(StrEnum):
    """Why the answer ended."""

    END = "end"
    LENGTH = "length"
    CONTEXT = "context"
    """The context is full."""
    CALLS = "calls"
    SEQUENCE = "sequence"
    """One of the request's stop strings came."""
    FILTERED = "filtered"
    """Refused, by the model or by a filter."""
    PAUSED = "paused"
    """The upstream expects another request to continue."""


class Tokens(msgspec.Struct):
    """Token counts of the upstream. None means unknown, never 0."""

    input: int | None = None
    """The whole prompt, what was cached and what was written to the cache included."""
    cached: int | None = None
    written: int | None = None
    """Of the prompt, what was written to the cache."""
    output: int | None = None
    """Thinking included."""
    reasoning: int | None = None

    def update(self, other: Tokens) -> None:
        """Later counts replace earlier ones: they are totals, never additions."""
        for name in self.__struct_fields__:
            value = getattr(other, name)
            if value is not None:
                setattr(self, name, value)


class BlockKind(StrEnum):
    TEXT = "text"
    THINKING = "thinking"
    REDACTED = "redacted"
    REFUSAL = "refusal"
    CALL = "call"


class Began(msgspec.Struct):
    """The first event. `tokens`: counts that are known this early."""

    id: str
    model: str
    tokens: Tokens | None = None


class Opened(msgspec.Struct):
    """A block begins. `at` names it in what follows; readers may have several open, writers see one at a time."""

    at: int
    kind: BlockKind
    id: str = ""
    """Of a call."""
    name: str = ""
    """Of a call's tool."""
    custom: bool = False
    """A call of a custom tool: its arguments are any text."""


class Grew(msgspec.Struct):
    """More of a block: text, or a piece of a call's arguments. Never empty."""

    at: int
    text: str


class Signed(msgspec.Struct):
    """The signature of a block of thinking, right before it closes."""

    at: int
    signature: str


class Closed(msgspec.Struct):
    at: int


class Counted(msgspec.Struct):
    """Totals so far."""

    tokens: Tokens


class Finished(msgspec.Struct):
    """Every block is closed. Usage may still follow."""

    stop: StopReason
    sequence: str | None = None
    """The stop string that came."""


class Failed(msgspec.Struct):
    """The upstream reported a failure; nothing but Ended follows."""

    error: StokerError


class Ended(msgspec.Struct):
    """The upstream's own end of the stream: nothing follows."""


Event = Began | Opened | Grew | Signed | Closed | Counted | Finished | Failed | Ended
AnswerBlock = Text | Thinking | Redacted | Refusal | ToolCall


class Answer(msgspec.Struct):
    id: str
    model: str
    blocks: list[AnswerBlock] = []
    stop: StopReason = StopReason.END
    sequence: str | None = None
    tokens: Tokens = msgspec.field(default_factory=Tokens)
