"""A model's answer, independent of its dialect: events while it streams, an `Answer` when it is complete."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall
from stoker.domain.server_tools import McpListing, ServerCall


class StopReason(StrEnum):
    """Why the answer ended."""

    END = "end"
    LENGTH = "length"
    CONTEXT = "context"
    """The context is full."""
    CALLS = "calls"
    SEQUENCE = "sequence"
    """The model produced one of the request's stop strings."""
    FILTERED = "filtered"
    """Refused, by the model or by a filter."""
    PAUSED = "paused"
    """The upstream expects another request to continue."""


class Tokens(msgspec.Struct):
    """Token counts that the upstream reported. None: unknown, never 0."""

    input: int | None = None
    """The whole prompt, including what was read from the cache or written to it."""
    cached: int | None = None
    """Prompt tokens that were read from the cache."""
    written: int | None = None
    """Prompt tokens that were written to the cache."""
    output: int | None = None
    """The whole answer, thinking included."""
    reasoning: int | None = None
    """Tokens of thinking."""

    def update(self, other: Tokens) -> None:
        """Replace counts by those that `other` knows: counts are totals, not increments."""
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
    """A block begins. Later events name it by `at`. A reader may have several blocks open; a writer gets one at a
    time.
    """

    at: int
    kind: BlockKind
    id: str = ""
    """The id of a call; empty for other blocks."""
    name: str = ""
    """The tool that a call names; empty for other blocks."""
    custom: bool = False
    """A call of a custom tool: its arguments are any text."""


class Grew(msgspec.Struct):
    """A block got more text, or more of a call's arguments. Never empty. `logprobs`: of its tokens, as chat lists them,
    if they were asked for.
    """

    at: int
    text: str
    logprobs: list[Any] | None = None


class Signed(msgspec.Struct):
    """The signature of a block of thinking, right before it closes."""

    at: int
    signature: str


class Closed(msgspec.Struct):
    """The block is complete."""

    at: int


class Counted(msgspec.Struct):
    """New totals of tokens."""

    tokens: Tokens


class Finished(msgspec.Struct):
    """The answer is complete, and every block is closed. Counted and Ended may still follow."""

    stop: StopReason
    sequence: str | None = None
    """The stop string that the model produced."""


class Failed(msgspec.Struct):
    """The upstream reported a failure; nothing but Ended follows."""

    error: StokerError


class Ended(msgspec.Struct):
    """The upstream ended its stream: nothing follows."""


class ToolBegan(msgspec.Struct):
    """Stoker is about to run a tool for the model. No block is open. It takes the number `at`, as a block does."""

    at: int
    call: ServerCall
    said: int = 0
    """Characters of text that the answer has so far."""


SEALED_BY_TOOLS = "stoker-tools"
"""Who made a sealed item that holds what a tool brought."""


TOOL_SAID_ERROR = "tool_error"
"""The error of a call whose tool ran, and said that it failed: its text says why."""


class ToolEnded(msgspec.Struct):
    """What came of it; or it waits for approval, and did not begin. It takes a number of its own."""

    at: int
    call: ServerCall


class ToolsListed(msgspec.Struct):
    """The tools of an MCP server, told before the model's answer. It takes the number `at`."""

    at: int
    listing: McpListing


Event = (
    Began | Opened | Grew | Signed | Closed | Counted | Finished | Failed | Ended | ToolBegan | ToolEnded | ToolsListed
)
AnswerBlock = Text | Thinking | Redacted | Refusal | ToolCall | ServerCall | McpListing


class Answer(msgspec.Struct):
    """A complete answer."""

    id: str
    model: str
    blocks: list[AnswerBlock] = []
    stop: StopReason = StopReason.END
    sequence: str | None = None
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    failure: StokerError | None = None
    """The engine gave up, or ended for a reason that nobody knows: the blocks are not all of the answer."""
    logprobs: list[Any] | None = None
    """Of the tokens of its text, as chat lists them, if they were asked for."""
