"""Checks of tool calls and of JSON. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from stoker.domain.answer import Answer
from stoker.domain.prompt import ToolCall
from stoker.request.translate.neutral.json_text import is_json
from stoker_lab.json_schema import schema_violation
from stoker_lab.suites.check_kinds import AbstainCheck, CallsCheck, JsonCheck, WantedCall
from stoker_lab.suites.checkers.plain_text import PASSED, Grade, answer_text, quoted

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_MARKUP = ("<tool_call>", "<|tool_call", "[TOOL_CALLS]", "<function=", "<|python_tag|>")
"""How calls look that the engine did not know as such: tags of chat templates."""


def calls_of(answer: Answer) -> list[ToolCall]:
    return [block for block in answer.blocks if isinstance(block, ToolCall)]


def check_calls(check: CallsCheck, answer: Answer) -> Grade:
    found = calls_of(answer)
    if len(found) != len(check.calls):
        return Grade(False, f"{len(found)} calls, {len(check.calls)} wanted: {quoted(answer_text(answer))}")
    left = list(check.calls)
    for call in found:
        arguments = _object(call.arguments)
        if arguments is None:
            return Grade(False, f"arguments of {call.name} are not a JSON object")
        fitting = next((one for one in left if _fits(one, call.name, arguments)), None)
        if fitting is None:
            return Grade(False, f"not wanted: {call.name} with {quoted(call.arguments)}")
        left.remove(fitting)
    return PASSED


def _object(text: str) -> dict[str, Any] | None:
    value = json.loads(text) if is_json(text) else None
    return value if isinstance(value, dict) else None


def _fits(wanted: WantedCall, name: str, arguments: dict[str, Any]) -> bool:
    if name != wanted.name:
        return False
    return not value_mismatch(arguments, wanted.arguments, exact=not wanted.subset, fold=wanted.fold)


def check_abstain(check: AbstainCheck, answer: Answer) -> Grade:
    """1. a call  2. a call written as text  3. nothing at all."""
    if found := calls_of(answer):  # 1
        return Grade(False, f"calls {found[0].name}")
    text = answer_text(answer)
    if any(mark in text for mark in _MARKUP):  # 2
        return Grade(False, f"writes a call as text: {quoted(text)}")
    return PASSED if text else Grade(False, "says nothing")  # 3


def check_json(check: JsonCheck, answer: Answer) -> Grade:
    """1. no JSON  2. not after the schema  3. other values."""
    text = answer_text(answer)
    fenced = _FENCE.findall(text)
    body = fenced[0] if len(fenced) == 1 else text
    if not is_json(body):  # 1
        return Grade(False, f"not JSON: {quoted(text)}")
    value = json.loads(body)
    if check.schema is not None and (bad := schema_violation(value, check.schema)):  # 2
        return Grade(False, bad)
    bad = "" if check.values is None else value_mismatch(value, check.values, check.exact)  # 3
    return Grade(not bad, bad)


def value_mismatch(value: Any, wanted: Any, exact: bool, fold: bool = False, at: str = "it") -> str:
    """Where a value is not as wanted; empty: nowhere. 1 is 1.0, and true is neither. `exact`: no keys beside."""
    if isinstance(wanted, dict):
        return _lacks_key(value, wanted, exact, fold, at)
    if isinstance(wanted, list):
        if not isinstance(value, list) or len(value) != len(wanted):
            return f"{at} is not a list of {len(wanted)}"
        pairs = enumerate(zip(value, wanted, strict=True))
        each = (value_mismatch(one, two, exact, fold, f"{at}[{place}]") for place, (one, two) in pairs)
        return next(filter(None, each), "")
    if isinstance(value, str) and isinstance(wanted, str):
        same = value.strip().casefold() == wanted.strip().casefold() if fold else value == wanted
    else:
        same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
    return "" if same else f"{at} is {quoted(json.dumps(value, ensure_ascii=False), 24)}"


def _lacks_key(value: Any, wanted: dict[str, Any], exact: bool, fold: bool, at: str) -> str:
    if not isinstance(value, dict):
        return f"{at} is not an object"
    for name, one in wanted.items():
        if name not in value:
            return f"{at} has no {name}"
        if bad := value_mismatch(value[name], one, exact, fold, f"{at}.{name}"):
            return bad
    more = value.keys() - wanted.keys()
    return f"{at} has {sorted(more)[0]}, too" if exact and more else ""
