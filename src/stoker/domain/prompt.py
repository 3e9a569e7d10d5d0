"""What a model is asked, independent of the dialect: turns of ordered blocks.

A prompt can hold everything that at least two dialects can express. What only one dialect can express is left out, and
that dialect's reader reports the loss. Arguments of calls and JSON schemas stay the text that the client wrote.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect

Raw = msgspec.Raw


class Role(StrEnum):
    SYSTEM = "system"
    """Also OpenAI's `developer`."""
    USER = "user"
    """Also holds the results of tool calls, before the user's own blocks."""
    ASSISTANT = "assistant"


class Text(msgspec.Struct):
    text: str


class Image(msgspec.Struct):
    """Either `data` (base64) with its `media_type`, or a `url`, which is not fetched here."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    detail: str | None = None
    """How closely to look: `low`, `high`, `auto`."""


class Document(msgspec.Struct):
    """A file: its `text`, or `data` (base64) with its `media_type`, or a `url`."""

    media_type: str = ""
    data: str = ""
    text: str = ""
    url: str = ""
    title: str = ""


class Audio(msgspec.Struct):
    format: str
    data: str


class Thinking(msgspec.Struct):
    """The model's thinking. `signature`: its vendor's signature, or what the vendor encrypted; empty: it is not signed.
    `maker`: that vendor, if more is known of it than the signature and the client's dialect say.
    """

    text: str
    signature: str = ""
    maker: str = ""


class Redacted(msgspec.Struct):
    """Encrypted thinking, which only the model's vendor can read."""

    data: str


class Refusal(msgspec.Struct):
    """The model refuses, in these words."""

    text: str


class ToolCall(msgspec.Struct):
    """The model calls a tool. `arguments`: JSON text, unchanged; any text for a `custom` tool."""

    id: str
    name: str
    arguments: str
    custom: bool = False


class ToolResult(msgspec.Struct):
    id: str
    content: list[Block]
    is_error: bool = False
    custom: bool = False


Block = Text | Image | Document | Audio | Thinking | Redacted | Refusal | ToolCall | ToolResult


class Turn(msgspec.Struct):
    role: Role
    blocks: list[Block]


class Tool(msgspec.Struct):
    """A tool that the client runs. `custom`: it takes any text instead of JSON; `grammar` may restrict that text."""

    name: str
    description: str | None = None
    schema: Raw | None = None
    """JSON schema of the arguments, as the client wrote it; None: the client gave none."""
    strict: bool | None = None
    custom: bool = False
    grammar: Any = None
    """In the form of the chat dialect."""
    namespace: str = ""
    """The group of the tool (only in the Responses dialect); `name` then begins with the group's name and a dot."""


class Choice(StrEnum):
    """Whether the model is to call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


class ToolChoice(msgspec.Struct):
    mode: Choice
    name: str = ""
    """The tool to call, for NAMED; else empty."""
    allowed: list[str] | None = None
    """The names of the only tools that may be called; None: all."""


class AnswerFormat(msgspec.Struct):
    """The required form of the answer: any JSON object, or one that matches a schema."""

    schema: Raw | None = None
    """None: any JSON object."""
    name: str = ""
    strict: bool | None = None
    description: str | None = None


class Reasoning(msgspec.Struct):
    """How much the model is to think. None for any attribute: the client did not set it."""

    enabled: bool | None = None
    budget: int | None = None
    """Tokens of thinking, at most."""
    effort: str | None = None
    """`none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`."""
    shown: bool | None = None
    """Whether the client wants to see the thinking, or a summary of it."""


class Prompt(msgspec.Struct):
    """One request. `settings`: the parameters that mean the same in every dialect that has them; see SETTINGS."""

    dialect: Dialect
    model: str
    turns: list[Turn]
    tools: list[Tool] = []
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    max_tokens: int | None = None
    stop: list[str] = []
    stream: bool = False
    wants_usage: bool = True
    """Whether a streamed answer reports its tokens. Only the chat dialect lets the client choose."""
    format: AnswerFormat | None = None
    reasoning: Reasoning | None = None
    continues: bool = False
    """The last turn is the beginning of the answer, which the model has to continue."""
    settings: dict[str, Any] = {}
    echoed: dict[str, Any] = {}
    """What no serve is told, but an answer in the client's dialect repeats."""
    include: frozenset[str] = frozenset()
    """What an answer has besides, of the tools that Stoker ran: SOURCES, RESULTS."""


SOURCES, RESULTS = "web_search_call.action.sources", "web_search_call.results"
"""Values of `include` of the Responses dialect: the addresses that a search found, and its results."""

SETTINGS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "logit_bias", "logprobs", "top_logprobs", "n", "user", "metadata", "service_tier", "store", "prediction",
    "verbosity", "prompt_cache_key", "safety_identifier", "chat_template_kwargs",
)  # fmt: skip
"""Keys of `Prompt.settings`; not every dialect has each. `user` names the end user. `metadata` is OpenAI's: notes of
the client. Anthropic's `metadata.user_id` is `user` here."""
