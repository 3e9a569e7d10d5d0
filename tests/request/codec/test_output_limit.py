"""An output limit above the room that the prompt leaves is lowered to it; all else in the body stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dialect import Dialect
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.codec.edits import lower_output_limit

SPOKEN = (Dialect.CHAT, Dialect.COMPLETIONS, Dialect.MESSAGES, Dialect.RESPONSES)
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def lowered(document: dict[str, Any], room: int, dialect: Dialect = Dialect.CHAT) -> tuple[Any, tuple[str, ...]]:
    body = json.dumps({"model": "m", **document}).encode()
    changed, fields, names = lower_output_limit(body, read_body_fields(body), dialect, room)
    found = json.loads(changed)
    assert found.pop("model") == fields.model == "m"
    again = read_body_fields(changed)
    assert [getattr(fields, name) for name in LIMITS] == [getattr(again, name) for name in LIMITS]
    return found, names


@pytest.mark.parametrize("dialect", SPOKEN)
@pytest.mark.parametrize("name", [*LIMITS, "min_tokens"])
@pytest.mark.parametrize("given", [101, 10**30, 1e9])
def test_each_dialects_limit_is_lowered_to_the_room(dialect: Dialect, name: str, given: float) -> None:
    assert lowered({"a": 1, name: given, "b": [{name: given}]}, 100, dialect) == (
        {"a": 1, name: 100, "b": [{name: given}]},
        (name,),
    )


@pytest.mark.parametrize("given", [100, 1, 0, -1, None, True, "many", [200], {"max_tokens": 200}])
def test_a_limit_that_fits_or_is_none_stays(given: object) -> None:
    document = {"max_tokens": given, "thinking": {"type": "enabled", "budget_tokens": 9999}}
    assert lowered(document, 100) == (document, ())


def test_all_limits_that_a_request_has_are_lowered() -> None:
    document = {"max_tokens": 300, "max_completion_tokens": 200, "min_tokens": 50}
    assert lowered(document, 100) == (
        {"max_tokens": 100, "max_completion_tokens": 100, "min_tokens": 50},
        ("max_tokens", "max_completion_tokens"),
    )


@pytest.mark.parametrize(
    ("budget", "room", "thinking"),
    [
        (10_000, 20_000, {"type": "enabled", "budget_tokens": 10_000, "display": "omitted"}),
        (10_000, 5_000, {"type": "enabled", "budget_tokens": 4_999, "display": "omitted"}),
        (10_000, 1_025, {"type": "enabled", "budget_tokens": 1_024, "display": "omitted"}),
        (10_000, 1_024, {"type": "disabled"}),
        (1_024, 1, {"type": "disabled"}),
    ],
)
def test_a_thinking_budget_of_messages_stays_below_the_limit(budget: int, room: int, thinking: dict[str, Any]) -> None:
    document = {
        "thinking": {"type": "enabled", "budget_tokens": budget, "display": "omitted"},
        "max_tokens": 32_000,
    }
    found, names = lowered(document, room, Dialect.MESSAGES)
    assert found == {"max_tokens": room, "thinking": thinking}
    assert names == (("thinking", "max_tokens") if budget >= room else ("max_tokens",))


@pytest.mark.parametrize("thinking", [None, "x", {"type": "adaptive"}, {"type": "enabled"}, {"budget_tokens": 5_000}])
def test_other_thinking_stays(thinking: object) -> None:
    found, names = lowered({"max_tokens": 9, "thinking": thinking}, 4, Dialect.MESSAGES)
    assert (found, names) == ({"max_tokens": 4, "thinking": thinking}, ("max_tokens",))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from((*LIMITS, "min_tokens", "x", "é", '"', "messages")), VALUES), st.integers(1, 50))
def test_nothing_else_is_touched(document: dict[str, Any], room: int) -> None:
    expected = {
        name: room if name not in ("x", "é", '"', "messages") and type(value) is int and value > room else value
        for name, value in document.items()
    }
    assert lowered(document, room)[0] == expected
