"""The bench of deciding measures what it says, and calls a missed figure missed."""

from __future__ import annotations

import msgspec
import pytest
from bench import deciding
from bench.deciding import Case, Timed

from stoker.domain.dialect import Dialect
from stoker.domain.tier import Verdict


@pytest.mark.parametrize("case", deciding.cases(), ids=lambda case: f"{case.size}-{case.name}")
def test_each_request_is_of_its_size_and_is_decided(case: Case) -> None:
    assert 0.95 * case.size <= len(case.body) <= case.size
    assert msgspec.json.decode(case.body)["model"] == "auto"
    timed = deciding.measure(case, deciding.routing(), 1, 1)
    assert min(timed.outline, timed.classify, timed.plan) > 0
    assert timed.total == timed.outline + timed.classify + timed.plan


def test_the_three_tiers_are_one_of_each_standing() -> None:
    router = deciding.routing()
    found = [router.standing(tier, "chat").verdict for tier in router.settings.tiers]
    assert found == [Verdict.ALLOW, Verdict.VERIFY, Verdict.ALLOW]
    assert router.classes.task_name("auto") == "auto"
    assert router.classes.task_name("qwen3-coder") is None


def test_a_figure_that_is_missed_is_called_so() -> None:
    case = Case("prose", deciding.SMALL, Dialect.CHAT, b"{}")
    fast, slow = Timed(case, "chat", 10.0, 20.0, 30.0), Timed(case, "chat", 10.0, 80.0, 30.0)
    lines = deciding.shown([fast, slow], 0.1).splitlines()
    assert "reached" in lines[2]
    assert "MISSED" in lines[3]
    assert lines[4] == "names a model: 0.10 us, goal 1 us: reached"
