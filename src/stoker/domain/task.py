"""Task classes: their names, what routing reads of a request to find its class, and the class it found."""

from __future__ import annotations

from collections.abc import Iterable
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
"""The class of a request that fits no other one."""
UNKNOWN = "unknown"
"""The name of a task whose class is not known. It is not a class: it cannot be measured or declared."""
HIGH_RISK = ("planning", "multi-file-refactor")
"""Classes at which a wrong answer costs more than an expensive one: a local tier needs a measured `allow` for them."""
LONG = 32_768
"""Tokens from which a prompt is long, unless the operator configures another number."""
BYTES_PER_TOKEN = 4
"""A rough average, for prompts whose tokens were not counted."""
MAX_TEXT = 65_536
"""Characters of one request that are read; a longer one is read at its beginning and its end."""
MAX_SYSTEM_WORDS = 150
"""A longer system prompt is a harness's fixed text: it says nothing about this request."""

RISKS = {
    "broad": "it changes many places at once",
    "deletes": "it deletes or overwrites something",
    "data": "it changes a database, its schema or its data",
    "deploys": "it deploys, releases or changes infrastructure",
    "security": "it changes logins, permissions, secrets or payments",
    "plans": "it decides how something will be built",
    "unseen": "what is to be done stands elsewhere",
    "wide": "the work so far changed many files",
}
"""Why a request is high-risk work where tools can change files: the note `risk:WORD`, in words."""
LOW_RISKS = {
    "asks": "it only asks",
    "looks": "it only looks or runs something",
    "reports": "it only says what happened",
    "thanks": "it only thanks",
    "documents": "it works on documents",
    "mentions": "it is about documents",
    "small": "it asks for a small change in one place",
    "adds": "it adds something new",
    "goes_on": "nothing that it goes on with is risky",
}
"""Why it is none: the note `low:WORD`, in words."""


def risk_in_words(notes: Iterable[str]) -> str:
    """Why a request is high-risk work or is none, by the notes of its task; empty if they do not say."""
    for note in notes:
        kind, _, word = note.partition(":")
        if kind == "risk" and word in RISKS:
            return f"high: {RISKS[word]}"
        if kind == "low" and word in LOW_RISKS:
            return f"low: {LOW_RISKS[word]}"
    return ""


class ClassSource(StrEnum):
    """What determined the class of a request."""

    DECLARED = "declared"
    """The caller named it."""
    RULES = "rules"
    """The form of the request, or the operator's own words."""
    LEARNED = "learned"
    """The text of the request, by the built-in classifier."""
    MODEL = "model"
    """A classifier model: a serve that was asked."""
    DEFAULT = "default"
    """The request gave no hint."""


class Around(NamedTuple):
    """What stands around one request of a conversation. Read only while tools that change files are offered."""

    results: tuple[str, ...] = ()
    """The first tool results after it, the oldest first: the beginning of each."""
    is_whole: bool = True
    """Whether `results` are whole, and not only their beginnings."""
    said: str = ""
    """The end of what the model wrote last before it."""
    has_attachment: bool = False
    """A file or an image came with it."""
    changed: int = 0
    """How many different files the model's calls after it name as changed."""
    is_own: bool = True
    """The person wrote it. False: it came with results of tools, or out of them, or out of a summary, so that a tool or
    a model may have written it.
    """


class Outline(msgspec.Struct, frozen=True):
    """What routing reads of a request. It is dropped with the request."""

    text: str = ""
    """What the person wrote last, without the text that an agent's harness added. At most MAX_TEXT characters."""
    earlier: tuple[str, ...] = ()
    """What the person wrote before that in the same conversation, newest first."""
    is_cut: bool = False
    """Earlier messages could not be read, or are not in the body."""
    changes_files: bool = False
    """Whether one of the offered tools can change files."""
    hides_tools: bool = False
    """The beginning of the conversation, which may have named tools, is not in the body (Ollama's `context`)."""
    around: tuple[Around, ...] = ()
    """For `text`, then each of `earlier`, as far as it was read."""
    systems: tuple[str, ...] = ()
    """System prompts of at most MAX_SYSTEM_WORDS words."""
    size: int = 0
    """Size of the body in bytes."""
    tokens: int | None = None
    """Tokens of the prompt; None: they were not counted."""
    turns: int = 1
    """How many turns the user wrote."""
    tools: int = 0
    """How many tools are offered."""
    forces_tool: bool = False
    """Whether `tool_choice` requires a call."""
    has_results: bool = False
    """Whether the last turn holds results of tools."""
    may_be_empty: bool = False
    """Whether the model may have nothing to say: after results of tools, with stop sequences, or where the request
    holds the beginning of the answer.
    """
    wants_json: bool = False
    """Whether the answer has to be JSON."""
    images: int = 0
    """How many images the last user turn holds."""
    wants_thinking: bool = False
    is_long: bool = False
    """Whether the prompt has at least `long_context` tokens."""

    def request(self, back: int) -> str:
        """What the person wrote last (0), or that many requests before it."""
        return self.earlier[back - 1] if back else self.text

    def around_request(self, back: int) -> Around:
        """What stands around that request; empty if it was not read."""
        return self.around[back] if back < len(self.around) else NOTHING_AROUND

    @property
    def may_change_files(self) -> bool:
        """Whether a tool that changes files is offered, or may be."""
        return self.changes_files or self.hides_tools

    @property
    def estimated_tokens(self) -> int:
        """Tokens of the prompt: counted, else estimated by its size."""
        return self.tokens if self.tokens is not None else self.size // BYTES_PER_TOKEN


NOTHING_AROUND = Around()


class Task(NamedTuple):
    """The class of a request. `notes`: the signs that led to it, as short words without content of the prompt."""

    name: str
    source: ClassSource
    notes: tuple[str, ...] = ()
    else_: str = ""
    """The more likely class, if a high-risk one was chosen only out of caution; else empty."""
    sure: float | None = None
    """Probability of the class by the text, 0 to 1; None: the text did not determine it."""
    risk: float = 0.0
    """Probability, by the text, that the request is of any high-risk class."""
    back: int = 0
    """Which request of the conversation determined the class: 0 is the newest, 1 the one before it."""
