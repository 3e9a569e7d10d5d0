"""What kind of task a request is: the classes, what is looked at, and what was found."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

CLASSES = (
    "chat", "creative", "planning", "multi-file-refactor", "code-write", "code-edit", "review", "reasoning", "tool-use",
    "json-extract", "long-context", "summarise", "math-short", "vision", "multilingual",
)  # fmt: skip
"""The built-in classes. Suites, profiles and routes use the same names."""
DEFAULT = "chat"
"""What nothing else fits."""
HIGH_RISK = ("planning", "multi-file-refactor")
"""Where a wrong answer costs more than a dear one: only a measured `allow` serves them on a local tier."""
LONG = 32_768
"""Tokens of a prompt from which it is long, unless the operator says otherwise."""
BYTES_PER_TOKEN = 4
"""About; where nobody counted."""
MAX_TEXT = 65_536
"""Characters of the last user text that are looked at: its beginning and its end."""
MAX_SYSTEM_WORDS = 150
"""A system prompt that is longer is a harness's standing text: it says nothing about this request."""


class Source(StrEnum):
    """Who said which class it is."""

    DECLARED = "declared"
    """The caller."""
    RULES = "rules"
    """The form of the request, or the operator's own words."""
    LEARNED = "learned"
    """What is asked, by weights that were learned."""
    MODEL = "model"
    """A companion serve."""
    DEFAULT = "default"
    """Nobody: there was nothing to go by."""


class Outline(msgspec.Struct, frozen=True):
    """What is looked at of a request in order to route it. It is dropped with the request."""

    text: str = ""
    """The last user text, at most MAX_TEXT characters of it."""
    systems: tuple[str, ...] = ()
    """System prompts of at most MAX_SYSTEM_WORDS words."""
    size: int = 0
    """Bytes of the body."""
    tokens: int | None = None
    """Of the prompt, where they were counted; None: nobody counted."""
    turns: int = 1
    """Of users."""
    tools: int = 0
    forces_tool: bool = False
    """`tool_choice` wants a call."""
    has_results: bool = False
    """The last turn brings what tools gave."""
    wants_json: bool = False
    """A JSON object, or a schema, is asked for."""
    images: int = 0
    """In the last user turn."""
    wants_thinking: bool = False
    is_long: bool = False
    """It has as many tokens as the operator calls long."""

    @property
    def about(self) -> int:
        """Tokens of the prompt: counted, else by its size."""
        return self.tokens if self.tokens is not None else self.size // BYTES_PER_TOKEN


class Task(NamedTuple):
    """`notes`: what spoke for it, each a short word that holds nothing of the prompt."""

    name: str
    source: Source
    notes: tuple[str, ...] = ()
    else_: str = ""
    """What it is more likely, where it was taken for high risk only to be careful."""
    sure: float | None = None
    """How likely it is by the text, 0 to 1; None: it was not told by the text."""
    risk: float = 0.0
    """How likely the text asks for high-risk work at all."""
