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
WITH_FIXTURES = frozenset(CLASSES) - {"creative", "multi-file-refactor", "vision"}
"""Classes whose fixtures ship with Stoker: `stoker eval bootstrap` measures them without `--suites`."""
DEFAULT = "chat"
"""What nothing else fits."""
UNKNOWN = "unknown"
"""The name of a task that could not be found. It is no class: nothing measures it, and nobody can declare it."""
HIGH_RISK = ("planning", "multi-file-refactor")
"""A wrong answer costs more than an expensive one here: only a measured `allow` serves them on a local tier."""
LONG = 32_768
"""Tokens of a prompt from which it is long, unless the operator says otherwise."""
BYTES_PER_TOKEN = 4
"""About; where nobody counted."""
MAX_TEXT = 65_536
"""Characters of one request that are kept; of a longer one its beginning and its end."""
MAX_SYSTEM_WORDS = 150
"""A system prompt that is longer is a harness's standing text: it says nothing about this request."""


class ClassSource(StrEnum):
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
    """What routing looks at in a request. It is dropped with the request."""

    text: str = ""
    """The newest request: what the person wrote last, without the text that the agent's harness added. At most MAX_TEXT
    characters.
    """
    earlier: tuple[str, ...] = ()
    """The requests before it in the same conversation, newest first."""
    is_cut: bool = False
    """What came before the oldest of these requests could not be read, or is not in the body."""
    changes_files: bool = False
    """The tools that are offered can change files."""
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

    def request(self, back: int) -> str:
        """The newest request for 0, else the one that many requests before it."""
        return self.earlier[back - 1] if back else self.text

    @property
    def estimated_tokens(self) -> int:
        """Tokens of the prompt: counted, else by its size."""
        return self.tokens if self.tokens is not None else self.size // BYTES_PER_TOKEN


class Task(NamedTuple):
    """`notes`: what spoke for it, each a short word that holds nothing of the prompt."""

    name: str
    source: ClassSource
    notes: tuple[str, ...] = ()
    else_: str = ""
    """What it is more likely, where it was taken for high risk only to be careful."""
    sure: float | None = None
    """How likely it is by the text, 0 to 1; None: it was not told by the text."""
    risk: float = 0.0
    """How likely the text asks for high-risk work at all."""
    back: int = 0
    """Which request told the class: 0 is the newest, 1 the one before it."""
