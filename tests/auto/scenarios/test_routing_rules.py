"""Behaviours 44 to 51 of routing, told with scripted models: checks, escalation, circuits, and what is never kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.scenarios.plane import Plane, poll, running, serve

from stoker_lab.testing.script.script import Script

SECRET = "marker-5ecret-zebra"
TIERS = """
[router]
unmeasured = "cheapest"
high_risk = ["planning"]
breaker_failures = 2
breaker_cool_down = "1s"
[[tier]]
name = "cheap"
serve = "a"
verify = "hold-all"
[[tier]]
name = "dear"
serve = "b"
cost = { input = 3.0, output = 15.0 }
verify = "off"
"""
TOOLS = [
    {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}},
                                                    "required": ["at"]}},
    }
]  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    cloudy = {"slot": None, "translation": {"cloud": True}}
    with running(serve("a", Script(), slot=None), serve("b", Script(), **cloudy), TIERS) as plane:
        yield plane


@pytest.fixture
def plane(shared: Plane) -> Iterator[Plane]:
    for name in "ab":
        assert shared.admin("switch", serve=name)[0] == 200
    yield shared
    for name in "ab":
        assert shared.admin("switch", serve=name)[0] == 200
        shared.scripted(name, answers=None, error_status=None, tokens=16)


def says(plane: Plane, name: str, *blocks: dict[str, Any], **more: object) -> None:
    plane.scripted(name, answers=[{"blocks": list(blocks), **more}])


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str = "look", arguments: str = '{"at": "it"}') -> dict[str, Any]:
    return {"type": "call", "name": name, "arguments": arguments}


def asked(plane: Plane, prompt: str = "hello", model: str = "auto", **fields: Any) -> tuple[int, Any, dict[str, Any]]:
    before = {one["id"] for one in plane.decisions(5)}
    document = {"model": model, "messages": [{"role": "user", "content": prompt}], **fields}
    status, answer = plane.ask("POST", "/v1/chat/completions", document)
    poll(lambda: {one["id"] for one in plane.decisions(5)} - before, "the decision is kept")
    return status, answer, plane.decisions(1)[0]


def tried(decision: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["tier"], one["outcome"]) for one in decision["routed"]["attempts"]]


def test_after_an_escalation_the_second_tiers_own_verdict_decides_its_checks(plane: Plane) -> None:
    """Behaviour 44: what the first may not say, the second may, since nobody checks it."""
    says(plane, "a", call("no_such_tool"))
    says(plane, "b", call("no_such_tool"))
    status, answer, decision = asked(plane, tools=TOOLS)
    assert status == 200
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "no_such_tool"
    assert tried(decision) == [("cheap", "failed_verification"), ("dear", "served")]
    assert (decision["routed"]["tier"], decision["routed"]["verify"]) == ("dear", "off")


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (call("no_such_tool"), "unknown_tool"),
        (call(arguments="[1]"), "arguments"),
        (call(arguments='{"on": "it"}'), "missing_key"),
    ],
)
def test_a_wrong_call_fails_before_a_byte_of_it_is_sent(plane: Plane, wrong: dict[str, Any], check: str) -> None:
    """Behaviour 45."""
    says(plane, "a", wrong)
    says(plane, "b", text("from the dear one"))
    status, answer, decision = asked(plane, tools=TOOLS)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "from the dear one")
    first = decision["routed"]["attempts"][0]
    assert (first["tier"], first["repairs"], first["findings"]) == ("cheap", 1, [check])


@pytest.mark.parametrize(
    "right",
    [
        "Put this into the body:\n```python\n    total += 1\n    return total\n```\n",
        "```python\n!pip install numpy\nimport numpy\n```\n",
        '```json\n{"name": "x", ...}\n```\n',
    ],
)
def test_what_cannot_be_proved_wrong_passes(plane: Plane, right: str) -> None:
    """Behaviour 46, first half."""
    says(plane, "a", text(right))
    status, answer, decision = asked(plane)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, right)
    assert tried(decision) == [("cheap", "served")]


def test_a_hunk_that_is_shorter_than_its_header_says_does_not(plane: Plane) -> None:
    """Behaviour 46, second half."""
    says(plane, "a", text("```diff\n--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,4 @@\n-old\n+new\n```\n"))
    says(plane, "b", text("fine"))
    _, answer, decision = asked(plane)
    assert answer["choices"][0]["message"]["content"] == "fine"
    assert decision["routed"]["attempts"][0]["findings"] == ["diff"]


def test_the_callers_own_small_limit_is_no_truncation_and_a_large_budget_cut_in_mid_word_is(plane: Plane) -> None:
    """Behaviour 47."""
    says(plane, "a", text("The reason for this is that the serv"), stop="length")
    says(plane, "b", text("whole."))
    _, answer, _ = asked(plane, max_tokens=8)
    assert answer["choices"][0]["message"]["content"] == "The reason for this is that the serv"
    _, answer, decision = asked(plane, max_tokens=4000)
    assert answer["choices"][0]["message"]["content"] == "whole."
    assert decision["routed"]["attempts"][0]["findings"] == ["truncated"]


def circuit(plane: Plane) -> str:
    return str(next(one["circuit"] for one in plane.status()["routing"]["tiers"] if one["tier"] == "cheap"))


def test_callers_errors_leave_the_circuit_closed_and_faults_open_it_until_a_probe_serves(plane: Plane) -> None:
    """Behaviours 48 and 49."""
    for _ in range(3):
        plane.scripted("a", error_status=400)
        status, _, decision = asked(plane)
        assert (status, tried(decision), circuit(plane)) == (400, [("cheap", "upstream_refused")], "closed")
    plane.scripted("a", error_status=500)
    for _ in range(2):
        status, _, decision = asked(plane)
        assert (status, tried(decision)[1]) == (200, ("dear", "served"))
    assert circuit(plane) == "open"
    _, _, decision = asked(plane)
    assert tried(decision) == [("dear", "served")]
    assert {"serve": "a", "dropped": "circuit_open"} in decision["candidates"]
    plane.scripted("a", error_status=None)
    poll(lambda: tried(asked(plane)[2]) == [("cheap", "served")], "after the cool-down one request is the probe")
    assert circuit(plane) == "closed"


def test_a_marker_secret_turns_up_nowhere_and_each_candidate_has_a_reason(plane: Plane) -> None:
    """Behaviour 50, for requests that are routed: prompt, class, answer, arguments, and what verification says."""
    says(plane, "a", call(SECRET, json.dumps({SECRET: SECRET})), text(SECRET))
    says(plane, "b", text(SECRET))
    headers = {"stoker_class": SECRET}
    status, answer, decision = asked(plane, f"{SECRET}: refactor {SECRET}", tools=TOOLS, metadata=headers)
    assert (status, SECRET in json.dumps(answer)) == (200, True)
    assert asked(plane, SECRET, model="auto:planning")[2]["routed"]["task"] == "planning"
    assert [one["dropped"] for one in decision["candidates"]] == ["failed_verification", ""]
    assert len(decision["routed"]["why"]) == 2
    shown = json.dumps([plane.status(), plane.decisions(), plane.ask("GET", "/metrics")[1]]) + plane.said()
    assert SECRET not in shown
    plane.settle()
    kept = [file for file in plane.state.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert kept == []


@pytest.mark.parametrize("prompt", ["plans for the weekend", "write a poem about code review"])
def test_what_only_sounds_like_risk_is_chat_or_creative_and_served_by_the_cheap_one(plane: Plane, prompt: str) -> None:
    """Behaviour 51."""
    _, _, decision = asked(plane, prompt)
    assert decision["routed"]["task"] in ("chat", "creative")
    assert tried(decision) == [("cheap", "served")]
