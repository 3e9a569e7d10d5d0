"""Requests that name a task: measured, routed by what was measured, and what happens when a model is replaced."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.scenarios.plane import PATIENCE, Plane, llama, poll, running, serve

from stoker_lab.testing.script.script import Script

TIERS = """
[router]
unmeasured = "cheapest"
{router}
[[tier]]
name = "tiny"
serve = "spark"
[[tier]]
name = "small"
serve = "ember"
cost = {{ input = 0.01, output = 0.02 }}
verify = "hold-all"
[[tier]]
name = "big"
serve = "cloudy"
cost = {{ input = 3.0, output = 15.0 }}
"""
CLOUDY = serve("cloudy", Script(), slot=None, translation={"cloud": True})
FOREIGN = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
PLAN = "plan: party"


def said(plane: Plane, *words: str, code: int = 0) -> str:
    done = plane.run(*words, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def asked(plane: Plane, model: str, prompt: str = "hello") -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Status, answer, and the decision of one request."""
    document = {"model": model, "max_tokens": 40, "messages": [{"role": "user", "content": prompt}]}
    status, answer = plane.ask("POST", "/v1/chat/completions", document)
    poll(lambda: plane.decisions(1), "the decision is kept")
    return status, answer, plane.decisions(1)[0]


def tier_of(plane: Plane, model: str, prompt: str = "hello") -> str:
    status, answer, decision = asked(plane, model, prompt)
    assert status == 200, answer
    return str(decision["routed"]["tier"])


def known(plane: Plane, name: str) -> None:
    """A tier's serve was looked at."""
    poll(
        lambda: any(one["tier"] == name and one["known"] for one in plane.status()["routing"]["tiers"]),
        f"{name} was looked at",
    )


def verdicts(plane: Plane) -> dict[tuple[str, str], str]:
    rows = json.loads(said(plane, "profile", "show", "--json"))
    return {(row["tier"], row["task_class"]): row["verdict"] for row in rows}


@pytest.mark.timeout(180)
@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_traffic_follows_what_was_measured_and_a_broken_build_is_found_out(tmp_path: Path) -> None:
    small = {"context": 2048, "slot": None}
    models = llama("spark", "spark", **small), llama("ember", "ember", **small)
    with running(*models, CLOUDY, TIERS.format(router="")) as plane:
        assert plane.admin("switch", serve="cloudy")[0] == 200
        assert tier_of(plane, "auto") == "tiny", "nothing is measured: the cheapest, checked"
        assert tier_of(plane, "auto:planning", PLAN) == "big", "at high risk only who was measured, or is trusted"

        said(plane, "eval", "bootstrap", "--class", "chat,planning,math-short")
        found = verdicts(plane)
        assert (found["tiny", "planning"], found["small", "planning"]) == ("deny", "allow")
        assert (found["tiny", "chat"], found["tiny", "math-short"]) == ("allow", "allow")
        known(plane, "small")
        assert tier_of(plane, "auto:planning", PLAN) == "small"
        assert tier_of(plane, "auto:chat") == "tiny"
        assert asked(plane, "auto:chat")[2]["routed"]["verify"] == "observe", "behaviour 43: no full checks any more"

        template = tmp_path / "foreign.jinja"
        template.write_text(FOREIGN)
        broken = llama("ember", "ember", **small, chat_template=str(template))
        plane.write(plane.config.read_text().replace(models[1], broken))
        assert {"tier": "small", "class": "planning"} in plane.admin("reload")[1]["lapsed"]
        assert tier_of(plane, "auto:planning", PLAN) == "big", "it was never measured like this"
        assert plane.admin("switch", serve="ember")[0] == 200
        known(plane, "small")
        assert tier_of(plane, "auto:planning", PLAN) == "big"
        stale = plane.status()["routing"]["stale"]
        assert {(one["tier"], one["class"]) for one in stale} == {
            ("small", "chat"), ("small", "planning"), ("small", "math-short"),
        }  # fmt: skip
        decision = plane.decisions(1)[0]
        assert "changed since it was measured" in said(plane, "explain", decision["id"])

        said(plane, "eval", "calibrate", "small")
        found = verdicts(plane)
        assert {found["small", name] for name in ("chat", "planning", "math-short")} == {"deny"}
        assert plane.status()["routing"]["stale"] == []
        _, _, decision = asked(plane, "auto:planning", PLAN)
        assert decision["routed"]["tier"] == "big"
        assert "small: dropped (denied), denied: 0 of 3 passed" in said(plane, "explain", decision["id"])
        assert "deny, 0 of 3" in said(plane, "profile", "diff", code=1)


def test_without_cloud_and_without_a_measurement_high_risk_is_refused_and_says_why() -> None:
    """Behaviours 41 and 42."""
    spark, ember = serve("spark", slot=None), serve("ember", slot=None)
    with running(spark, ember, CLOUDY, TIERS.format(router="allow_cloud = false")) as plane:
        assert tier_of(plane, "auto", "zzz") == "tiny"
        listed = [one["id"] for one in plane.ask("GET", "/v1/models")[1]["data"]]
        assert ("auto" in listed, "tiny" in listed, "big" in listed) == (True, True, False)
        assert plane.ask("GET", "/v1/models/auto:planning")[1]["stoker"]["state"] == "routed"
        status, answer, _ = asked(plane, "auto:planning")
        assert (status, answer["error"]["code"]) == (403, "no_tier")
        for words in ("class 'planning'", "tiny: not measured", "big: requests do not go to the cloud"):
            assert words in answer["error"]["message"]
        shown = said(plane, "route", "anything", "--class", "planning", code=1)
        assert "class planning, high risk, by the caller's declaration" in shown
        for unknown in ("planing", ""):
            status, answer = plane.admin("route", prompt="anything", task=unknown)
            assert (status, answer["error"]["code"]) == (400, "unknown_class")
            assert f"there is no class '{unknown}'; the classes are chat" in answer["error"]["message"]
        status, answer, _ = asked(plane, "big")
        assert (status, answer["error"]["code"]) == (404, "unknown_model"), "nor by its name"


def test_a_profile_that_cannot_be_read_stops_the_start_and_a_reload_and_changes_nothing(tmp_path: Path) -> None:
    spark, ember = serve("spark", slot=None), serve("ember", slot=None)
    path = tmp_path / "mine.json"
    path.write_text('{"version": 1, "rows": []}')
    with running(spark, ember, CLOUDY, TIERS.format(router=f'profile_path = "{path}"')) as plane:
        assert tier_of(plane, "auto") == "tiny"
        path.write_text('{"version": 1, "rows": [{"tier": "tiny"}]}')
        status, answer = plane.admin("reload")
        assert (status, answer["error"]["code"]) == (400, "config_error")
        assert str(path) in answer["error"]["message"]
        assert tier_of(plane, "auto") == "tiny"
        path.write_text('{"version": 1, "rows": []}')
        assert plane.admin("reload")[0] == 200


KEYS = """keys = [
  { name = "all", value = "env:K_ALL", scope = "admin" },
  { name = "auto", value = "env:K_AUTO", models = ["auto"] },
  { name = "planner", value = "env:K_PLANNER", models = ["planner"] },
]"""
ALIASES = '[alias]\nquick = "auto"\nplanner = "auto:planning"\n'


def test_an_alias_of_a_task_is_listed_permitted_and_routed_by_its_own_name_until_a_reload_takes_it() -> None:
    words = {
        "K_ALL": "sk-all-of-16-letters",
        "K_AUTO": "sk-auto-of-16-letters",
        "K_PLANNER": "sk-planner-of-16-letters",
    }
    both = serve("spark", slot=None), serve("ember", slot=None)
    parts = *both, CLOUDY, TIERS.format(router=""), ALIASES
    with running(*parts, environment=words, front_door=KEYS) as plane:
        with httpx.Client(base_url=f"http://127.0.0.1:{plane.port}", timeout=PATIENCE) as client:

            def seen(key: str, path: str, **document: Any) -> httpx.Response:
                bearer = {"authorization": f"Bearer {words[key]}"}
                return client.request("POST" if document else "GET", path, json=document or None, headers=bearer)

            def names(key: str) -> set[str]:
                return {one["id"] for one in seen(key, "/v1/models").json()["data"]}

            assert {"auto", "quick", "planner", "spark"} <= names("K_ALL")
            assert names("K_AUTO") == {"auto", "quick", "planner"}
            assert names("K_PLANNER") == {"planner"}
            assert seen("K_PLANNER", "/v1/models/planner").json()["stoker"]["state"] == "routed"
            hello = [{"role": "user", "content": "hello"}]
            for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
                done = seen("K_PLANNER", path, model="planner", max_tokens=9, messages=hello, stream=False)
                assert (done.status_code, done.headers["x-stoker-tier"]) == (200, "big"), done.text
                refused = seen("K_PLANNER", path, model="quick", max_tokens=9, messages=hello, stream=False)
                assert refused.status_code == 404
        status, answer = plane.admin("promote", alias="planner", serve="ember", force=True, reason="why not")
        assert (status, "names a task, 'auto:planning'" in answer["error"]["message"]) == (404, True)
        shown = said(plane, "route", "anything", "--model", "planner")
        assert "class planning, high risk, by the caller's declaration" in shown
        assert plane.status()["routing"]["aliases"] == {"quick": "auto", "planner": "auto:planning"}

        plane.write(plane.config.read_text().replace('planner = "auto:planning"', 'planner = "auto:planing"'))
        status, answer = plane.admin("reload")
        assert (status, "did you mean 'planning'?" in str(answer)) == (400, True)
        plane.write(plane.config.read_text().replace('planner = "auto:planing"', "").replace('"planner"]', '"quick"]'))
        assert plane.admin("reload")[1]["routing"] is True
        assert asked(plane, "planner")[:2][0] == 404
        assert asked(plane, "quick")[0] == 200


@pytest.mark.timeout(180)
@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_two_equal_slots_are_one_tier_measured_once_and_both_answer() -> None:
    """Each replica is looked at by itself, and `auto` uses both."""
    model = llama("spark", "spark", context=2048, slot=None, slots=["gpu0", "gpu1"], replicas=2, parallel=1)
    tier = '[router]\n[[tier]]\nname = "tiny"\nserve = "spark"\n'
    with running(model, tier, slots="[slots.gpu0]\n\n[slots.gpu1]\n\n[slots.gpu2]") as plane:
        said(plane, "eval", "bootstrap", "--class", "chat")
        assert verdicts(plane) == {("tiny", "chat"): "allow"}
        assert said(plane, "eval", "calibrate") == "tier tiny: nothing to measure again\n"
        assert plane.admin("switch", serve="spark@gpu0")[0] == plane.admin("switch", serve="spark@gpu1")[0] == 200
        known(plane, "tiny")

        def decisions() -> list[dict[str, Any]]:
            return [decision for decision in plane.decisions(200) if decision["routed"]]

        def both_answered() -> bool:
            """Asks twelve at once; on a busy machine one may have its answer before the next one asks."""
            with ThreadPoolExecutor(12) as pool:
                assert [*pool.map(lambda number: ask_for_class(plane, f"hello {number}"), range(12))] == [200] * 12
            return {decision["replica"] for decision in decisions()} == {"spark@gpu0", "spark@gpu1"}

        poll(both_answered, "both replicas answer")
        assert {decision["routed"]["verify"] for decision in decisions()} == {"observe"}, "proved, at each replica"
        plane.write(plane.config.read_text().replace('slots = ["gpu0", "gpu1"]', 'slots = ["gpu1", "gpu2"]'))
        assert plane.admin("reload")[1]["lapsed"] == [], "other slots change nothing of the model"
        known(plane, "tiny")
        plane.write(plane.config.read_text().replace("context = 2048", "context = 1024"))
        assert plane.admin("reload")[1]["lapsed"] == [{"tier": "tiny", "class": "chat"}]


def ask_for_class(plane: Plane, prompt: str) -> int:
    document = {"model": "auto:chat", "max_tokens": 40, "messages": [{"role": "user", "content": prompt}]}
    return plane.ask("POST", "/v1/chat/completions", document)[0]
