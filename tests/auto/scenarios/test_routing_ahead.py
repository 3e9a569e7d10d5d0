"""What requests that name a task will want next is warm by then."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from tests.auto.scenarios.test_routing import known, said, tier_of
from tests.scenarios.plane import Plane, llama, poll, running

TIERS = """
[[tier]]
name = "tiny"
serve = "spark"
[[tier]]
name = "small"
serve = "ember"
cost = { input = 0.01, output = 0.02 }
"""
WARM = '[warm]\nmemory = "1GiB"'
PLAN = "plan: party"


def why(plane: Plane) -> dict[str, str | None]:
    """What is warm, and what has it expected."""
    return {one["name"]: one["why"] for one in plane.status()["warm"]["models"]}


@pytest.mark.timeout(120)
@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_the_cheaper_model_that_would_have_to_be_loaded_first_is_brought_in_and_one_that_is_denied_never() -> None:
    models = llama("spark", "spark", context=2048), llama("ember", "ember", context=2048, warm="pin")
    with running(*models, TIERS, WARM) as plane:
        # The pin has the holder run from the start: what it has open is no leak of this story.
        poll(lambda: plane.status()["warm"]["holder"], "the holder runs")
        plane.note_idle()
        said(plane, "eval", "bootstrap", "--class", "planning,math-short")
        known(plane, "small")
        assert tier_of(plane, "auto:planning", PLAN) == "small", "spark is denied there"
        assert "rule" not in why(plane).values()
        assert tier_of(plane, "auto:math-short") == "small", (
            "spark is good enough and cheaper, and would have to be loaded"
        )
        poll(lambda: why(plane) == {"spark": "rule"}, lambda: f"spark is wanted: {why(plane)}")
        [spark] = [one for one in plane.status()["serves"] if one["name"] == "spark"]
        assert (spark["temperature"], spark["expected"]) == ("warm", "rule")
        before = plane.status()["warm"]["predictions"]
        assert plane.admin("switch", serve="spark")[0] == 200
        after = plane.status()["warm"]["predictions"]
        assert (after["hit"] - before["hit"], after["miss"] - before["miss"]) == (1, 0)
        assert tier_of(plane, "auto:math-short") == "tiny"
