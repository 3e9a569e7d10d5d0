"""A right and a wrong answer to a fixture, written from its check. Pure.

The wrong ones are well built: valid JSON, a valid call, a numbered plan. What is wrong with them is what they say, so
no check of their structure finds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.domain.answer import Answer, Stop
from stoker.domain.prompt import Call, Text
from stoker.measure.suites import check_kinds
from stoker.measure.suites.fixture import Fixture, by_class

UNKNOWN = "I am not sure."


def said(text: str) -> Answer:
    return Answer("", "", [Text(text)], Stop.END)


def made(calls: Iterable[tuple[str, dict[str, Any]]]) -> Answer:
    blocks = [Call(f"call_{number}", name, json.dumps(values)) for number, (name, values) in enumerate(calls, 1)]
    return Answer("", "", list(blocks), Stop.CALLS)


def right(one: Fixture) -> Answer:
    check = _main(one.check)
    return RIGHT[type(check)](check)


def wrong(one: Fixture) -> Answer:
    check = _main(one.check)
    if isinstance(check, check_kinds.Abstain):
        return made([(one.request["tools"][0]["function"]["name"], {})])
    return WRONG[type(check)](check)


def _main(check: check_kinds.Check) -> check_kinds.Check:
    """Of several checks the one that says what the answer is."""
    if not isinstance(check, check_kinds.All):
        return check
    return next(each for each in check.checks if not isinstance(each, check_kinds.Format | check_kinds.Abstain))


def _contains(check: check_kinds.Contains) -> Answer:
    return said(" ".join([*check.all, *check.any[:1]]))


def _calls(check: check_kinds.Calls) -> Answer:
    return made((one.name, one.arguments) for one in check.calls)


def _steps(count: int, check: check_kinds.Plan) -> Answer:
    topic = " and ".join(mention[0] for mention in check.mentions)
    return said("\n".join(f"{number}. Do part {number} of the {topic}." for number in range(1, count + 1)))


def _json(value: Any) -> Answer:
    return said(json.dumps(value))


RIGHT: Mapping[type, Callable[[Any], Answer]] = {
    check_kinds.Calls: _calls,
    check_kinds.Abstain: lambda check: said("Hello, I am here."),
    check_kinds.Contains: _contains,
    check_kinds.Copy: lambda check: said(check.text),
    check_kinds.Json: lambda check: _json(check.values),
    check_kinds.Number: lambda check: said(check.value),
    check_kinds.Needle: lambda check: said(f"It is {check.value}."),
    check_kinds.Plan: lambda check: _steps(check.least, check),
}


def _other(value: Any) -> Any:
    return value + 1 if isinstance(value, int) else f"{value} too"


def _off(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same keys, and the first of them with another value."""
    return {key: _other(value) if place == 0 else value for place, (key, value) in enumerate(values.items())}


WRONG: Mapping[type, Callable[[Any], Answer]] = {
    check_kinds.Calls: lambda check: made((one.name, _off(one.arguments)) for one in check.calls),
    check_kinds.Contains: lambda check: said(UNKNOWN),
    check_kinds.Copy: lambda check: said(f"{check.text} too"),
    check_kinds.Json: lambda check: _json(_off(check.values)),
    check_kinds.Number: lambda check: said(str(int(check.value) + 1)),
    check_kinds.Needle: lambda check: said(UNKNOWN),
    check_kinds.Plan: lambda check: _steps(check.most + 1, check),
}


def mistaken(fixtures: Iterable[Fixture], share: float, seed: int) -> frozenset[str]:
    """Ids of those that are to be answered wrongly: `share` of each class, rounded; which ones, a hash says."""

    def lot(one: Fixture) -> str:
        return hashlib.sha256(f"{seed} {one.id}".encode()).hexdigest()

    chosen = [sorted(own, key=lot)[: round(share * len(own))] for own in by_class(fixtures).values()]
    return frozenset(one.id for own in chosen for one in own)
