"""What an operator sees of routing while it happens: metrics, requests as they end, routes with what they cost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from tests.scenarios.plane import STOKER, Plane, poll, running, serve

from stoker_lab.testing.script.script import Script

TIERS = """
[router]
unmeasured = "cheapest"
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


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Two requests: `cheap` answers the first, and the second, after `cheap` has failed, goes to `dear`."""
    cloudy = {"slot": None, "translation": {"cloud": True}}
    with running(serve("a", Script(), slot=None), serve("b", Script(), **cloudy), TIERS) as plane:
        assert plane.admin("switch", serve="b")[0] == 200
        assert plane.admin("switch", serve="a")[0] == 200
        asked(plane)
        plane.scripted("a", error_status=500)
        asked(plane)
        plane.scripted("a", error_status=None)
        poll(lambda: len(plane.decisions()) == 2, "both are recorded")
        yield plane


def asked(plane: Plane, task: str = "chat") -> None:
    document = {"model": f"auto:{task}", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
    status, answer = plane.ask("POST", "/v1/chat/completions", document)
    assert status == 200, answer


def said(plane: Plane, *words: str) -> str:
    done = plane.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_metrics_tell_tiers_what_came_of_them_and_what_was_saved(plane: Plane) -> None:
    text = plane.ask("GET", "/metrics")[1]
    found = dict(re.findall(r"^(stoker_(?:routed|tier)_\S+) ([0-9.e+-]+)$", str(text), flags=re.MULTILINE))
    assert found['stoker_routed_requests_total{outcome="served",task="chat",tier="cheap"}'] == "1.0"
    assert found['stoker_routed_requests_total{outcome="served",task="chat",tier="dear"}'] == "1.0"
    assert found['stoker_tier_attempts_total{outcome="upstream_error",tier="cheap"}'] == "1.0"
    assert found['stoker_tier_circuit{state="closed",tier="cheap"}'] == "1.0"
    assert float(found["stoker_routed_cost_saved_total"]) == 0, "nobody measured what the answer was worth"
    assert float(found['stoker_tier_cost_total{tier="dear"}']) > 0


def test_the_routes_add_up_to_what_the_decisions_say(plane: Plane) -> None:
    found = json.loads(said(plane, "decisions", "--routes", "--json"))
    rows = {row["tier"]: row for row in found["rows"] if row["task"] == "chat"}
    assert (rows["cheap"]["first"], rows["cheap"]["accepted"], rows["cheap"]["escalated"]) == (2, 1, 1)
    assert (rows["dear"]["requests"], rows["dear"]["first"]) == (1, 0)
    costs = [one["cost"] for decision in plane.decisions() for one in decision["routed"]["attempts"] if one["cost"]]
    assert found["total"]["cost"] == pytest.approx(sum(costs))
    assert (rows["cheap"]["accept_rate"], rows["cheap"]["unmeasured"]) == (None, 2)
    assert (rows["cheap"]["saved"], rows["dear"]["saved"]) == (None, None)


def test_requests_are_followed_as_they_end_until_ctrl_c(plane: Plane) -> None:
    line = [str(STOKER), "decisions", "--follow", "--limit", "1", "--json", "--config", str(plane.config)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=plane.environment) as watching:
        assert watching.stdout is not None
        before = json.loads(watching.stdout.readline())
        assert before["id"] == plane.decisions(1)[0]["id"]
        asked(plane, "review")
        after = json.loads(watching.stdout.readline())
        assert (after["routed"]["task"], after["routed"]["tier"]) == ("review", "cheap")
        assert after["id"] == plane.decisions(1)[0]["id"] != before["id"]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0
