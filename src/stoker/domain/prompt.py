"""What is asked of a model, whichever dialect it came in: ordered blocks in turns.

The form is a superset of what the dialects can say to each other. What only one dialect can say is not in it: its
reader names the loss. Arguments of calls and JSON schemas are kept as the text that the client wrote.
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
    """Also holds the results of calls, before anything else that the user says."""
    ASSISTANT = "assistant"


class Text(msgspec.Struct):
    text: str


class Image(msgspec.Struct):
    """Either `data` (base64) with its `media_type`, or a `url` that somebody else fetches."""

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
    """What the model thought. `signature`: what its maker signed it with; empty: nobody did."""

    text: str
    signature: str = ""


class Redacted(msgspec.Struct):
    """Thinking that only its maker can read."""

    data: str


class Refusal(msgspec.Struct):
    text: str


class ToolCall(msgspec.Struct):
    """The model calls a tool. `arguments` is JSON text, as written; of a `custom` tool it is any text."""

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
    """A tool that the client runs. `custom`: takes any text instead of JSON; `grammar` may say which."""

    name: str
    description: str | None = None
    schema: Raw | None = None
    """JSON schema of the arguments, as the client wrote it; None: it gave none."""
    strict: bool | None = None
    custom: bool = False
    grammar: Any = None
    """As chat nests it."""
    namespace: str = ""
    """Responses groups tools; `name` then begins with the group's and a dot."""


class Choice(StrEnum):
    """Whether the model is to call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


class ToolChoice(msgspec.Struct):
    mode: Choice
    name: str = ""
    """With NAMED."""
    allowed: list[str] | None = None
    """Only these of the tools may be called."""


class AnswerFormat(msgspec.Struct):
    """The form of the answer: any JSON object, or one after a schema."""

    schema: Raw | None = None
    """None: any JSON object."""
    name: str = ""
    strict: bool | None = None
    description: str | None = None


class Reasoning(msgspec.Struct):
    """How much to think. None of an attribute: the client did not say."""

    enabled: bool | None = None
    budget: int | None = None
    """Tokens of thinking."""
    effort: str | None = None
    """`none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`."""
    shown: bool | None = None
    """Whether the client wants to see (a summary of) it."""


class Prompt(msgspec.Struct):
    """One request. `settings` holds what is the same in every dialect that has it, under the names of `SETTINGS`."""

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
    """Streamed: whether the client asked for it (of the OpenAI dialects only chat asks)."""
    format: AnswerFormat | None = None
    reasoning: Reasoning | None = None
    continues: bool = False
    """The last turn is the beginning of the answer."""
    settings: dict[str, Any] = {}


SETTINGS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "logit_bias", "logprobs", "top_logprobs", "n", "user", "metadata", "service_tier", "store", "prediction",
    "verbosity", "prompt_cache_key", "safety_identifier", "chat_template_kwargs",
)  # fmt: skip
"""Keys of `Prompt.settings`: a setting that one dialect has and the next one may not. `user` names the end user,
`metadata` is the client's own note (OpenAI's; Anthropic's `metadata.user_id` is `user`)."""
