"""What an attempt cost: all calls of its tier together, cached tokens at their own price."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.domain.decision import Attempt, Decision, Routed
from stoker.domain.tier import Cost
from stoker_auto.routing.record import record_attempt

PRICES = Cost(2.0, 10.0, 0.2, 2.5)


def test_a_repair_and_what_it_repairs_are_paid_for_with_what_came_from_the_cache() -> None:
    step = cast(Any, SimpleNamespace(tier=SimpleNamespace(name="cloud", cost=PRICES)))
    attempt, decision = Attempt("cloud"), Decision("r", 0.0, "/v1/messages")
    decision.input_tokens, decision.output_tokens, decision.cache_write_tokens = 1000, 10, 900
    attempt.add_tokens(decision)
    decision.input_tokens, decision.output_tokens = 1100, 20
    decision.cached_tokens, decision.cache_write_tokens = 900, None
    attempt.add_tokens(decision)
    record_attempt(step, attempt, Routed("chat", "rules"))
    assert attempt.cost == pytest.approx(PRICES.of(1000, 10, 0, 900) + PRICES.of(1100, 20, 900))
