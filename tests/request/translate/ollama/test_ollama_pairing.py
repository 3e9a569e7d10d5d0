"""A tool's result finds its call: by id, by name, by order."""

from __future__ import annotations

import time

from stoker.domain.prompt import ToolCall
from stoker.request.translate.ollama.read_prompt import UnansweredCalls


def waiting(*calls: tuple[str, str]) -> UnansweredCalls:
    found = UnansweredCalls()
    for id, name in calls:
        found.add(ToolCall(id, name, "{}"))
    return found


def test_an_id_is_stronger_than_a_name() -> None:
    calls = waiting(("1", "f"), ("2", "g"))
    assert calls.take("2", "f") == "2"


def test_a_name_is_stronger_than_the_order() -> None:
    calls = waiting(("1", "f"), ("2", "g"), ("3", "f"))
    assert [calls.take("", name) for name in ("g", "f", "f", "f")] == ["2", "1", "3", None]


def test_without_either_results_come_in_the_order_of_their_calls() -> None:
    calls = waiting(("1", "f"), ("2", "g"))
    assert [calls.take("", "") for _ in range(3)] == ["1", "2", None]


def test_a_name_or_an_id_that_was_never_called_is_as_good_as_none() -> None:
    calls = waiting(("1", "f"), ("2", "g"))
    assert [calls.take("x", "h"), calls.take("", "h")] == ["1", "2"]


def test_a_call_that_was_answered_waits_no_longer() -> None:
    calls = waiting(("1", "f"), ("2", "f"))
    assert [calls.take("1", ""), calls.take("1", "f"), calls.take("", "")] == ["1", "2", None]


def test_ten_thousand_calls_are_paired_in_linear_time() -> None:
    count = 10_000
    calls = waiting(*((str(n), "f") for n in range(count)))
    began = time.process_time()
    found = [calls.take("", "f" if n % 2 else "") for n in range(count)]
    assert time.process_time() - began < 1.0
    assert sorted(found, key=str) == sorted(map(str, range(count)))
