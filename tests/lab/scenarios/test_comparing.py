"""Two models side by side, with a real llama.cpp: measured once, then from what is kept."""

from __future__ import annotations

import json

import pytest
from tests.scenarios.plane import Plane, llama, running

pytestmark = [pytest.mark.llama, pytest.mark.heavy, pytest.mark.timeout(180)]
TIERS = """
[[tier]]
name = "small"
serve = "spark"
cost = { input = 0.1, output = 0.2 }

[alias.clever]
serve = "ember"
"""


def run(plane: Plane, *words: str) -> tuple[int, str, str]:
    done = plane.run("eval", "compare", *words, timeout=100)
    return done.returncode, done.stdout, done.stderr


def test_a_tier_and_an_alias_are_compared_and_what_was_there_is_back() -> None:
    with running(llama("spark", context=2048), llama("ember", "ember", context=2048), TIERS) as plane:
        assert plane.admin("switch", serve="spark")[0] == 200
        code, _, told = run(plane, "small", "clever", "--for", "math-short", "--stored")
        assert (code, "there are no stored results of 'spark': drop --stored" in told) == (2, True)
        code, out, told = run(plane, "small", "clever", "--for", "math-short", "--quick", "--json")
        assert code == 0, told
        (row,) = json.loads(out)["classes"]
        assert (row["a"]["n"], row["b"]["n"], row["pairs"]) == (12, 12, 12)
        report = plane.directory / "report.html"
        code, out, told = run(plane, "small", "clever", "--for", "math-short", "--html", str(report), "--json")
        assert code == 0, told
        assert plane.serve("spark")["state"] == "ready"
        found = json.loads(out)
        (row,) = found["classes"]
        assert (row["class"], row["a"]["n"], row["b"]["n"], row["pairs"]) == ("math-short", 60, 60, 60)
        assert found["verdict"].startswith("clever is ")
        assert found["a"]["cost"] == {"input": 0.1, "output": 0.2}
        assert all(side["speed"]["ttft_p50"] > 0 and side["memory"] > 0 for side in (found["a"], found["b"]))
        assert "<svg" in report.read_text()
        kept = len(list((plane.state / "results").glob("*.json")))
        assert kept == 6, "a part of a suite, the rest of it, and a benchmark of each"
        code, out, told = run(plane, "small", "clever", "--for", "math-short", "--stored", "--json")
        assert (code, json.loads(out)["classes"]) == (0, found["classes"]), told
        code, _, told = run(plane, "spark", "ember", "--for", "math-short")
        assert (code, "is measured now" in told) == (0, False)
        assert len(list((plane.state / "results").glob("*.json"))) == kept
