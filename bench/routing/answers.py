"""A right and a wrong answer to a fixture, written from its check. Pure.

The wrong ones are well built: valid JSON, a valid call, a numbered plan. What is wrong with them is what they say, so
no check of their structure finds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.domain.answer import Answer, StopReason
from stoker.domain.prompt import Text, ToolCall
from stoker_lab.suites import check_kinds
from stoker_lab.suites.fixture import Fixture, by_class

UNKNOWN = "I am not sure."


def text_answer(text: str) -> Answer:
    return Answer("", "", [Text(text)], StopReason.END)


def calls_answer(calls: Iterable[tuple[str, dict[str, Any]]]) -> Answer:
    blocks = [ToolCall(f"call_{number}", name, json.dumps(values)) for number, (name, values) in enumerate(calls, 1)]
    return Answer("", "", list(blocks), StopReason.CALLS)


def right(one: Fixture) -> Answer:
    check = _main(one.check)
    return RIGHT[type(check)](check)


def wrong(one: Fixture) -> Answer:
    check = _main(one.check)
    if isinstance(check, check_kinds.AbstainCheck):
        return calls_answer([(one.request["tools"][0]["function"]["name"], {})])
    return WRONG[type(check)](check)


def _main(check: check_kinds.FixtureCheck) -> check_kinds.FixtureCheck:
    """Of several checks the one that says what the answer is."""
    if not isinstance(check, check_kinds.AllChecks):
        return check
    return next(
        each for each in check.checks if not isinstance(each, check_kinds.FormatCheck | check_kinds.AbstainCheck)
    )


def _contains(check: check_kinds.ContainsCheck) -> Answer:
    return text_answer(" ".join([*check.all, *check.any[:1]]))


def _calls(check: check_kinds.CallsCheck) -> Answer:
    return calls_answer((one.name, one.arguments) for one in check.calls)


def _steps(count: int, check: check_kinds.PlanCheck) -> Answer:
    topic = " and ".join(mention[0] for mention in check.mentions)
    return text_answer("\n".join(f"{number}. Do part {number} of the {topic}." for number in range(1, count + 1)))


def _json(value: Any) -> Answer:
    return text_answer(json.dumps(value))


RIGHT: Mapping[type, Callable[[Any], Answer]] = {
    check_kinds.CallsCheck: _calls,
    check_kinds.AbstainCheck: lambda check: text_answer("Hello, I am here."),
    check_kinds.ContainsCheck: _contains,
    check_kinds.CopyCheck: lambda check: text_answer(check.text),
    check_kinds.JsonCheck: lambda check: _json(check.values),
    check_kinds.NumberCheck: lambda check: text_answer(check.value),
    check_kinds.NeedleCheck: lambda check: text_answer(f"It is {check.value}."),
    check_kinds.PlanCheck: lambda check: _steps(check.least, check),
}


def _other(value: Any) -> Any:
    return value + 1 if isinstance(value, int) else f"{value} too"


def _off(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same keys, and the first of them with another value."""
    return {key: _other(value) if place == 0 else value for place, (key, value) in enumerate(values.items())}


WRONG: Mapping[type, Callable[[Any], Answer]] = {
    check_kinds.CallsCheck: lambda check: calls_answer((one.name, _off(one.arguments)) for one in check.calls),
    check_kinds.ContainsCheck: lambda check: text_answer(UNKNOWN),
    check_kinds.CopyCheck: lambda check: text_answer(f"{check.text} too"),
    check_kinds.JsonCheck: lambda check: _json(_off(check.values)),
    check_kinds.NumberCheck: lambda check: text_answer(str(int(check.value) + 1)),
    check_kinds.NeedleCheck: lambda check: text_answer(UNKNOWN),
    check_kinds.PlanCheck: lambda check: _steps(check.most + 1, check),
}


def mistaken(fixtures: Iterable[Fixture], share: float, seed: int) -> frozenset[str]:
    """Ids of those that are to be answered wrongly: `share` of each class, rounded; which ones, a hash says."""

    def lot(one: Fixture) -> str:
        return hashlib.sha256(f"{seed} {one.id}".encode()).hexdigest()

    chosen = [sorted(own, key=lot)[: round(share * len(own))] for own in by_class(fixtures).values()]
    return frozenset(one.id for own in chosen for one in own)
