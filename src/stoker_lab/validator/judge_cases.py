"""Answers of known worth, on which a judge of live answers is measured: for each class right ones, and as many wrong.

Those that ship follow from the suites' fixtures, as far as a fixture's check says what the answer has to be, and from
the blocks with planted faults (`code-write`). A wrong answer differs from the right one in one thing. For other classes
somebody has to write some: `read_cases`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.task import CLASSES
from stoker_lab.suites.check_kinds import (
    CallsCheck,
    EditBlocksCheck,
    ExactCheck,
    JsonCheck,
    LineCheck,
    NeedleCheck,
    NumberCheck,
)
from stoker_lab.suites.fixture import Fixture, shipped_fixtures
from stoker_lab.validator.planted_faults import planted_faults

CODE = "code-write"


class JudgeCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer, and whether it is right. A line of a file of cases."""

    task_class: str
    messages: list[dict[str, Any]]
    """The conversation, as Chat Completions has it."""
    answer: str
    right: bool
    calls: list[tuple[str, str]] = []
    """Tool calls of the answer: name, and arguments as JSON."""
    tools: list[dict[str, Any]] = []
    """The tools that were offered."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


class BadCases(StokerError):
    """A file of cases that cannot be used. The message names the file, the line and the reason."""

    status = 422
    code = "bad_cases"


def shipped_cases(task_class: str) -> list[JudgeCase]:
    """In pairs, the right one first; empty: none ship for this class."""
    if task_class == CODE:
        return [
            JudgeCase(CODE, [{"role": "user", "content": one.task}], f"```python\n{text}```", text is one.right)
            for one in planted_faults()
            for text in (one.right, one.wrong)
        ]
    found: list[JudgeCase] = []
    fixtures = [one for one in shipped_fixtures() if one.task_class == task_class]
    for one in fixtures:
        pair = _pair(one, fixtures)
        if pair is not None:
            asked, tools = one.request["messages"], one.request.get("tools", [])
            found += [
                JudgeCase(task_class, asked, text, right, calls, tools)
                for right, (text, calls) in zip((True, False), pair, strict=True)
            ]
    return found


def with_cases(classes: Iterable[str] = CLASSES) -> list[str]:
    """The classes for which cases ship."""
    return [name for name in classes if shipped_cases(name)]


def read_cases(path: Path, task_class: str, classes: Collection[str] = CLASSES) -> list[JudgeCase]:
    """Those of one class, from JSONL; lines that are alike are one. Raises BadCases."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadCases(f"{path} cannot be read: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = msgspec.json.decode(line, type=JudgeCase)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadCases(f"{path}, line {number}: is no case: {str(error)[:200]}") from error
        if one.task_class not in classes:
            raise BadCases(f"{path}, line {number}: there is no class '{one.task_class[:64]}'")
        if one.task_class == task_class:
            found.append(one)
    if not found:
        raise BadCases(f"{path} has no cases of class '{task_class}'")
    return list({one.digest: one for one in found}.values())


def digest(cases: Iterable[JudgeCase]) -> str:
    """Of a set, whatever its order."""
    return hashlib.sha256("".join(sorted(one.digest for one in cases)).encode()).hexdigest()[:16]


_Said = tuple[str, list[tuple[str, str]]]


def _pair(one: Fixture, fixtures: Sequence[Fixture]) -> tuple[_Said, _Said] | None:
    """A right and a wrong answer; None: the check does not say what a right one is, or nothing says what a wrong one
    could be. `fixtures`: all of the class.
    """
    match one.check:
        case NumberCheck(value=value):
            right, wrong = value, _next_number(value)
        case ExactCheck(values=[value, *rest]):
            named = [name for name in _choices(one, fixtures) if name not in (value, *rest)]
            if not named:
                return None
            is_last_line = "Answer:" in _question(one)
            right, wrong = ((f"Answer: {word}" if is_last_line else word) for word in (value, named[0]))
        case NeedleCheck(value=value, decoys=[decoy, *_]):
            right, wrong = value, decoy
        case LineCheck(line=line, of=of):
            right, wrong = f"line {line}", f"line {line % of + 1}"
        case JsonCheck(values=dict() as values):
            right, wrong = json.dumps(values, ensure_ascii=False), json.dumps(_changed(values), ensure_ascii=False)
        case CallsCheck(calls=[call, *more]) if call.arguments:
            calls = [(each.name, json.dumps(each.arguments)) for each in (call, *more)]
            return ("", calls), ("", [(call.name, json.dumps(_changed(call.arguments))), *calls[1:]])
        case EditBlocksCheck(source=source, wanted=wanted):
            return _edits(source, wanted)
        case _:
            return None
    return (right, []), (wrong, [])


def _choices(one: Fixture, fixtures: Sequence[Fixture]) -> Sequence[str]:
    """Answers of the kind that is asked for: 1. the letters of a choice  2. a day, or what the question names, where
    the last line is to be one  3. what is right for the question that begins most alike
    """
    text = _question(one)
    if letters := [letter for letter in "ABCDEF" if f"\n{letter}) " in text]:
        return letters  # 1
    if "Answer:" in text:
        return DAYS if "Answer: DAY" in text else _WORD.findall(" ".join(_NAMED.findall(text)))  # 2
    words = [(_question(other), other.check.values) for other in fixtures if isinstance(other.check, ExactCheck)]
    others = [(_shared_beginning(text, question), values) for question, values in words if question != text]
    return max(others, key=itemgetter(0), default=(0, []))[1]  # 3


def _shared_beginning(one: str, other: str) -> int:
    """How many characters they begin alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _question(one: Fixture) -> str:
    return str(one.request["messages"][-1]["content"])


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WORD = re.compile(r"\w+")
_NAMED = re.compile(
    r"(?<=taller than )\w+|\w+(?= says:)|(?<=left to right: )[^.]*|(?<=dictionary: )[^?]*"
    r"|(?<=`Answer: )yes(?= or no)|(?<=`Answer: yes or )no"
)


def _next_number(value: str) -> str:
    whole, point, digits = value.partition(".")
    return f"{int(whole) + 1}{point}{digits}"


def _changed(values: dict[str, Any]) -> dict[str, Any]:
    """With another first value."""
    name = next(iter(values))
    return {**values, name: _other(values[name])}


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}ton" if value.isalpha() else f"{value}7"
        case [first, *rest]:
            return [_other(first), *rest]
        case dict() if value:
            return _changed(value)
    return "nothing"


def _edits(source: str, wanted: str) -> tuple[_Said, _Said] | None:
    """Blocks for each line that differs; the wrong ones leave out the last change. None: the lines do not pair."""
    before, after = source.splitlines(), wanted.splitlines()
    differing = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
    if len(before) != len(after) or not differing or any(before.count(old) > 1 for old, _ in differing):
        return None
    *first, (old, _) = differing
    return (_blocks(differing), []), (_blocks([*first, (old, f"{old}  # changed")]), [])


def _blocks(lines: Iterable[tuple[str, str]]) -> str:
    return "\n\n".join(f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE" for old, new in lines)
