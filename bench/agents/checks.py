"""Whether what reached the serve is what its model said, and what the tools found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from bench.agents import request_parts, task
from bench.agents.request_parts import RequestPart
from bench.agents.task import Answers
from stoker.domain.dialect import Dialect

_FOUND = ((task.WRONG, "greet.py"), ("",), (task.PRINTED,))
"""What each step's results have to show: the file and its folder; anything; what the program prints."""


def calls(dialect: Dialect, documents: Sequence[dict[str, Any]], answers: Answers) -> Iterator[str]:
    """What is wrong with the last request of a session with tools."""
    told = [[block for block in one["blocks"] if block["type"] == "call"] for one in answers if "when" not in one]
    told.pop()  # nothing comes back after the last answer
    steps = [step for step in told if step]
    longest = max((request_parts.request_parts(dialect, one) for one in documents), key=len, default=[])
    groups = _steps(longest)
    if len(groups) != len(steps):
        yield f"{len(groups)} steps with calls came back, not {len(steps)}"
    for number, (group, step) in enumerate(zip(groups, steps, strict=False)):
        yield from (f"step {number}: {problem}" for problem in _step(group, step, _FOUND[number]))


def _steps(parts: Sequence[RequestPart]) -> list[list[RequestPart]]:
    """An assistant's turn with calls, and all up to the next turn of the assistant."""
    groups: list[list[RequestPart]] = []
    own: list[RequestPart] = []
    was_own = False
    for one in parts:
        is_own = one.role == "assistant"
        if is_own and not was_own:
            own = []
            groups.append(own)
        own.append(one)
        was_own = is_own
    return [group for group in groups if any(one.kind == "call" for one in group)]


def _step(group: Sequence[RequestPart], step: Sequence[dict[str, Any]], found: Sequence[str]) -> Iterator[str]:
    called = [(one.id, one.text) for one in group if one.kind == "call"]
    wanted = [(block["id"], block["name"]) for block in step]
    if called != wanted:
        yield f"calls {called}, but the model made {wanted}"
    others = [one for one in group if one.role != "assistant"]
    results = [one for one in others if one.kind == "result"]
    if others[: len(results)] != results:
        yield "the results do not come first"
    if [one.id for one in results] != [one.id for one in group if one.kind == "call"]:
        yield f"results of {[one.id for one in results]}"
    for one, words in zip(results, found, strict=False):
        if words not in one.text:
            yield f"a result without {words!r}: {one.text[:200]!r}"


def thoughts(dialect: Dialect, documents: Sequence[dict[str, Any]]) -> tuple[str, list[str]]:
    """How the model's thinking came back (`all`, `none`, `2 of 3`), and what is wrong with it."""
    longest = max((request_parts.request_parts(dialect, one) for one in documents), key=len, default=[])
    back = [one for one in longest if one.kind == "thinking"]
    wrong = [f"thinking {one.text!r} is none of the model's" for one in back if one.text not in task.THOUGHTS]
    if dialect is Dialect.MESSAGES:
        wrong += [f"thinking without a signature: {one.text!r}" for one in back if not one.signature]
    order = [task.THOUGHTS.index(one.text) for one in back if one.text in task.THOUGHTS]
    if order != sorted(set(order)):
        wrong.append(f"thinking in the order {order}")
    count = len(task.THOUGHTS)
    return {0: "none", count: "all"}.get(len(back), f"{len(back)} of {count}"), wrong


def edits(dialect: Dialect, documents: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Of a client without tools: what the test said reached the model."""
    last = request_parts.request_parts(dialect, documents[-1]) if documents else []
    if not any("AssertionError" in one.text and "Hallo" in one.text for one in last if one.role == "user"):
        yield "the test's output did not come back"


def prefixes(dialect: Dialect, documents: Sequence[dict[str, Any]]) -> int:
    """How many requests did not begin as the one before."""
    return sum(not request_parts.is_continued(dialect, before, now) for before, now in pairwise(documents))


def is_task(dialect: Dialect, document: dict[str, Any]) -> bool:
    """Whether a request belongs to the conversation about the task: not to one about a title."""
    return not any("Generate a title" in one.text for one in request_parts.request_parts(dialect, document))
