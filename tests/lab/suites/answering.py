"""Answers to checks: one that is right, and saying things."""

from __future__ import annotations

import json
from typing import Any

from stoker.domain.answer import Answer, StopReason
from stoker.domain.prompt import Text, ToolCall
from stoker_lab.suites import check_kinds


def text(said: str, stop: StopReason = StopReason.END) -> Answer:
    return Answer("1", "m", [Text(said)] if said else [], stop)


def calls(*pairs: tuple[str, Any], said: str = "") -> Answer:
    made = [ToolCall(str(at), name, json.dumps(arguments)) for at, (name, arguments) in enumerate(pairs)]
    return Answer("1", "m", [*([Text(said)] if said else []), *made], StopReason.CALLS)


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def right(check: check_kinds.FixtureCheck) -> Answer:
    """What passes; a program has to be given."""
    match check:
        case check_kinds.CallsCheck():
            return calls(*((one.name, one.arguments) for one in check.calls))
        case check_kinds.AllChecks():
            return text(" ".join(_said(one) for one in check.checks))
        case check_kinds.CodeCheck():
            raise ValueError("not from the check alone")
    return text(_said(check))


def _said(check: Any) -> str:
    match check:
        case check_kinds.NumberCheck():
            return f"The answer is {check.value}."
        case check_kinds.CopyCheck():
            return check.text
        case check_kinds.ExactCheck():
            return check.values[0]
        case check_kinds.NeedleCheck():
            return check.value
        case check_kinds.LineCheck():
            return f"line {check.line}"
        case check_kinds.JsonCheck():
            return f"```json\n{json.dumps(check.values)}\n```"
        case check_kinds.AbstainCheck():
            return "Well."
        case check_kinds.EditBlocksCheck():
            return block(check.source.rstrip("\n"), check.wanted.rstrip("\n"))
        case check_kinds.PlanCheck():
            return _plan(check)
    return _words(check)


def _plan(check: check_kinds.PlanCheck) -> str:
    bodies = [f"Write part {at}." for at in range(check.least)]
    things = [pair[0] for pair in check.order] + [pair[1] for pair in check.order[-1:]]
    for at, thing in enumerate(things or [wordings[0] for wordings in check.mentions]):
        bodies[at] += f" It has the {thing}."
    return "\n".join(f"{at}. {body}" for at, body in enumerate(bodies, 1))


def _words(check: Any) -> str:
    if isinstance(check, check_kinds.ContainsCheck):
        return " ".join([*check.all, *check.any[:1]])
    if isinstance(check, check_kinds.FactsCheck):
        return " and ".join(wordings[0] for wordings in check.facts)
    return _formed(check)


def _formed(check: check_kinds.FormatCheck) -> str:
    """Only what the fixtures in the package combine."""
    if check.case:
        return {"upper": "ALL OF IT IS SO", "lower": "all of it is so"}[check.case]
    if check.bullets and check.lines:
        return "\n".join("- one" for _ in range(check.bullets))
    if check.bullets:
        return "\n" + "\n".join("- and" for _ in range(check.bullets))
    if check.numbered:
        return "\n".join(f"{at}. one" for at in range(1, check.numbered + 1))
    if check.paragraphs:
        return "\n\n".join("Some text." for _ in range(check.paragraphs))
    if check.sentences:
        return " ".join([*check.must, *("Yes." for _ in range(check.sentences))])
    if check.starts:
        return f"{check.starts} so it is. {check.ends}"
    return "so it is" if check.min_words else ""
