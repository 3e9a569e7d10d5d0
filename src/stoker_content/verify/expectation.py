"""What a request implies for its answer. Computed once per request, and only as far as a check asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from stoker.domain.prompt import (
    AnswerFormat,
    Block,
    Choice,
    Document,
    Prompt,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from stoker_content.verify.schema import Schema, read_json, schema_of

SMALL_BUDGET = 512
"""Tokens. A client that allows fewer expects a truncated answer; otherwise it expects a complete one."""
MAX_CONTEXT = 2_000_000
"""Characters of the prompt in which search blocks are looked for: the last ones."""
MAX_ASKED = 64
TURNS_BACK = 2
"""How many turns of the model are looked at for repeated calls."""
_BLANKS = re.compile(r"\s+")


class Offered(NamedTuple):
    """A tool. `schema` None: any object will do. `custom`: it takes any text."""

    name: str
    schema: Schema | None
    custom: bool


class Expectation:
    """Keeps the prompt; changes nothing in it. Nothing of it is searched or parsed before it is needed."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self.tools = _offered(prompt.tools)
        self.choice = prompt.tool_choice or ToolChoice(Choice.AUTO)
        self.format: AnswerFormat | None = prompt.format
        self.has_small_budget = prompt.max_tokens is not None and prompt.max_tokens < SMALL_BUDGET
        self.may_be_cut = bool(prompt.stop) or prompt.continues
        """The answer need not be complete: the caller has its beginning already, or set stop sequences."""
        self._mentioned: dict[str, bool] = {}
        self.is_after_results = _is_after_results(prompt)

    @property
    def allows_parallel(self) -> bool:
        return self._prompt.parallel_calls is not False

    @cached_property
    def schema(self) -> Schema | None:
        """The schema of the requested JSON; None: any object will do, or no JSON was requested."""
        return schema_of(self.format.schema) if self.format is not None else None

    def was_called(self, name: str, arguments: str) -> bool:
        """Whether one of the model's last turns made the same call, ignoring whitespace in its arguments."""
        return name in self._recent_calls and _BLANKS.sub("", arguments) in self._recent_calls[name]

    @cached_property
    def _recent_calls(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for turn in [turn for turn in self._prompt.turns if turn.role is Role.ASSISTANT][-TURNS_BACK:]:
            for call in turn.blocks:
                if isinstance(call, ToolCall):
                    found.setdefault(call.name, set()).add(_BLANKS.sub("", call.arguments))
        return found

    def mentions(self, text: str) -> bool:
        """Whether the prompt's texts or its tools' descriptions hold this text.

        Linear in the prompt, so only the first MAX_ASKED different texts are looked for; for others the answer is yes.
        """
        if text not in self._mentioned:
            if len(self._mentioned) >= MAX_ASKED:
                return True
            self._mentioned[text] = any(text in found for found in self._texts())
        return self._mentioned[text]

    def shows(self, lines: str) -> bool:
        """Whether these lines are in the prompt, ignoring whitespace."""
        return _BLANKS.sub(" ", lines).strip() in self._shown

    @cached_property
    def _shown(self) -> str:
        parts: list[str] = []
        size = 0
        for text in reversed(list(self._texts())):
            parts.append(text[-(MAX_CONTEXT - size) :])
            size += len(parts[-1])
            if size >= MAX_CONTEXT:
                break
        return _BLANKS.sub(" ", "\n".join(reversed(parts)))

    def _texts(self) -> Iterator[str]:
        for tool in self._prompt.tools:
            yield tool.description or ""
        for turn in self._prompt.turns:
            yield from _texts_of(turn.blocks)


def _offered(tools: list[Tool]) -> dict[str, Offered]:
    found: dict[str, Offered] = {}
    for tool in tools:
        is_twice = tool.name in found  # nobody knows which of the two is meant
        schema = None if is_twice or tool.custom else schema_of(tool.schema)
        found[tool.name] = Offered(tool.name, schema, tool.custom or (is_twice and found[tool.name].custom))
    return found


def _is_after_results(prompt: Prompt) -> bool:
    return bool(prompt.turns) and any(isinstance(block, ToolResult) for block in prompt.turns[-1].blocks)


def _texts_of(blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text=text) | Document(text=text):
                yield text
            case ToolResult(content=content):
                yield from _texts_of(content)


def arguments_of(text: str) -> object:
    """The arguments of a call. Nothing, blanks and null count as no arguments; else a value or an `InvalidJson`."""
    if not text or text.isspace():
        return {}
    value = read_json(text)
    return {} if value is None else value
