"""Checks of tool calls and of JSON. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from stoker.domain.answer import Answer
from stoker.domain.prompt import Call
from stoker.measure.json_schema import misfit
from stoker.measure.suites.check_kinds import Abstain, Calls, Json, Wanted
from stoker.measure.suites.checkers.plain_text import PASSED, Grade, said, short
from stoker.request.translate.neutral.json_text import is_json

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_MARKUP = ("<tool_call>", "<|tool_call", "[TOOL_CALLS]", "<function=", "<|python_tag|>")
"""How calls look that the engine did not know as such: tags of chat templates."""


def called(answer: Answer) -> list[Call]:
    return [block for block in answer.blocks if isinstance(block, Call)]


def calls(check: Calls, answer: Answer) -> Grade:
    found = called(answer)
    if len(found) != len(check.calls):
        return Grade(False, f"{len(found)} calls, {len(check.calls)} wanted: {short(said(answer))}")
    left = list(check.calls)
    for call in found:
        arguments = _object(call.arguments)
        if arguments is None:
            return Grade(False, f"arguments of {call.name} are no JSON object")
        fitting = next((one for one in left if _fits(one, call.name, arguments)), None)
        if fitting is None:
            return Grade(False, f"not wanted: {call.name} with {short(call.arguments)}")
        left.remove(fitting)
    return PASSED


def _object(text: str) -> dict[str, Any] | None:
    value = json.loads(text) if is_json(text) else None
    return value if isinstance(value, dict) else None


def _fits(wanted: Wanted, name: str, arguments: dict[str, Any]) -> bool:
    if name != wanted.name:
        return False
    return not lacks(arguments, wanted.arguments, exact=not wanted.subset, fold=wanted.fold)


def abstain(check: Abstain, answer: Answer) -> Grade:
    """1. a call  2. a call written as text  3. nothing at all."""
    if found := called(answer):  # 1
        return Grade(False, f"calls {found[0].name}")
    text = said(answer)
    if any(mark in text for mark in _MARKUP):  # 2
        return Grade(False, f"writes a call as text: {short(text)}")
    return PASSED if text else Grade(False, "says nothing")  # 3


def json_value(check: Json, answer: Answer) -> Grade:
    """1. no JSON  2. not after the schema  3. other values."""
    text = said(answer)
    fenced = _FENCE.findall(text)
    body = fenced[0] if len(fenced) == 1 else text
    if not is_json(body):  # 1
        return Grade(False, f"no JSON: {short(text)}")
    value = json.loads(body)
    if check.schema is not None and (bad := misfit(value, check.schema)):  # 2
        return Grade(False, bad)
    bad = "" if check.values is None else lacks(value, check.values, check.exact)  # 3
    return Grade(not bad, bad)


def lacks(value: Any, wanted: Any, exact: bool, fold: bool = False, at: str = "it") -> str:
    """Where a value is not as wanted; empty: nowhere. 1 is 1.0, and true is neither. `exact`: no keys beside."""
    if isinstance(wanted, dict):
        return _lacks_key(value, wanted, exact, fold, at)
    if isinstance(wanted, list):
        if not isinstance(value, list) or len(value) != len(wanted):
            return f"{at} is no list of {len(wanted)}"
        pairs = enumerate(zip(value, wanted, strict=True))
        each = (lacks(one, two, exact, fold, f"{at}[{place}]") for place, (one, two) in pairs)
        return next(filter(None, each), "")
    if isinstance(value, str) and isinstance(wanted, str):
        same = value.strip().casefold() == wanted.strip().casefold() if fold else value == wanted
    else:
        same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
    return "" if same else f"{at} is {short(json.dumps(value, ensure_ascii=False), 24)}"


def _lacks_key(value: Any, wanted: dict[str, Any], exact: bool, fold: bool, at: str) -> str:
    if not isinstance(value, dict):
        return f"{at} is no object"
    for name, one in wanted.items():
        if name not in value:
            return f"{at} has no {name}"
        if bad := lacks(value[name], one, exact, fold, f"{at}.{name}"):
            return bad
    more = value.keys() - wanted.keys()
    return f"{at} has {sorted(more)[0]}, too" if exact and more else ""
