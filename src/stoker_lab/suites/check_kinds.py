"""The kinds of checks, as data: what a fixture's `check` holds. `kind` says which it is. Pure.

No kind takes a regular expression: every check must end, whoever wrote it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class CheckKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all have in common."""


class WantedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call. Values are compared as JSON; `fold`: strings without regard to case."""

    name: str
    arguments: dict[str, Any] = {}
    subset: bool = False
    """Whether additional arguments are allowed."""
    fold: bool = False


class CallsCheck(CheckKind, frozen=True, tag="calls"):
    """These calls, in any order, and no other."""

    calls: list[WantedCall]


class AbstainCheck(CheckKind, frozen=True, tag="abstain"):
    """Text, and no call: neither a real one nor one written as text."""


class JsonCheck(CheckKind, frozen=True, tag="json"):
    """One JSON value, alone or in one fence."""

    values: Any = None
    """Has to be in it: of objects a part, of anything else all. None: nothing in particular."""
    exact: bool = False
    """Objects have no other keys than these."""
    schema: dict[str, Any] | None = None
    """The keywords that `measure.json_schema` knows."""


class NumberCheck(CheckKind, frozen=True, tag="number"):
    """A number as the result: the first line if it is nothing else, what is boxed or bold, or the last one named."""

    value: str
    """A decimal number."""


class CopyCheck(CheckKind, frozen=True, tag="copy"):
    """Exactly this text. Quotes around it and a full stop after it are forgiven."""

    text: str


class ExactCheck(CheckKind, frozen=True, tag="exact"):
    """One of these answers, as the whole text or after the last `Answer:`. Case and marks around it do not count."""

    values: list[str]


class ContainsCheck(CheckKind, frozen=True, tag="contains"):
    """Whole words or phrases. Case does not count."""

    all: list[str] = []
    any: list[str] = []
    none: list[str] = []
    ordered: bool = False
    """Whether the texts in `all` must come in this order."""


class NeedleCheck(CheckKind, frozen=True, tag="needle"):
    """The hidden value, and none of the others that were hidden beside it."""

    value: str
    decoys: list[str] = []


class FactsCheck(CheckKind, frozen=True, tag="facts"):
    """At least `least` of the facts; each is a list of accepted wordings."""

    facts: list[list[str]]
    least: int


class FormatCheck(CheckKind, frozen=True, tag="format"):
    """The form of the text. What is not given is not looked at. Empty lines do not count."""

    lines: int | None = None
    bullets: int | None = None
    numbered: int | None = None
    paragraphs: int | None = None
    sentences: int | None = None
    min_words: int | None = None
    max_words: int | None = None
    case: Literal["upper", "lower"] | None = None
    starts: str = ""
    ends: str = ""
    must: list[str] = []
    must_not: list[str] = []


class LineCheck(CheckKind, frozen=True, tag="line"):
    """The number of one line of a text with `of` lines."""

    line: int
    of: int


class EditBlocksCheck(CheckKind, frozen=True, tag="edit"):
    """Search/replace blocks that apply to `source` and give `wanted`. Space at the ends of lines does not count."""

    source: str
    wanted: str


class PlanCheck(CheckKind, frozen=True, tag="plan"):
    """A numbered plan. See `plans.grade_plan`."""

    least: int
    most: int = 99
    verbs: list[str] = []
    """Each step has one of them, in whatever form; empty: `plans.ACTIONS`."""
    mentions: list[list[str]] = []
    """Each has to be named somewhere; given as the wordings that count."""
    order: list[tuple[str, str]] = []
    """The first step that names the one comes before the first that names the other."""


class CodeCheck(CheckKind, frozen=True, tag="code"):
    """Python whose `tests` (statements that raise where it is wrong) run through after it, in the sandbox."""

    entry: str
    """The function or class that is asked for."""
    tests: str


PureCheck = (
    CallsCheck
    | AbstainCheck
    | JsonCheck
    | NumberCheck
    | CopyCheck
    | ExactCheck
    | ContainsCheck
    | NeedleCheck
    | FactsCheck
    | FormatCheck
    | LineCheck
    | EditBlocksCheck
    | PlanCheck
)
"""What pure functions check."""


class AllChecks(CheckKind, frozen=True, tag="all"):
    checks: list[PureCheck]


FixtureCheck = PureCheck | AllChecks | CodeCheck
