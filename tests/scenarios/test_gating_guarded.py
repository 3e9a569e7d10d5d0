"""A gate at a front door with keys: every measurement that it runs comes in by the same key."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from plane import STOKER, Plane, running, serve

from stoker.testing.script import Script

KEYS = {"K_BOSS": "key-of-the-boss-1", "K_EYE": "key-of-the-eye-2", "K_APP": "key-of-the-app-3"}
DOOR = """keys = [
  { name = "app", value = "env:K_APP" },
  { name = "eye", value = "env:K_EYE", scope = "observe" },
  { name = "boss", value = "env:K_BOSS", scope = "admin", max_active = 1 },
]"""
GATE = """
[gate.quick]
conditions = ["preflight", "c4.ttft_p50 < 20s"]
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    weights = tmp_path_factory.mktemp("weights") / "a.gguf"
    weights.write_bytes(b"GGUF weights")
    one = serve("a", Script(), engine="llama.cpp", model=str(weights), aliases=["gpt-x"])
    with running(one, GATE, front_door=DOOR, environment=KEYS) as plane:
        plane.environment.pop("STOKER_KEY", None)
        assert plane.admin("switch", serve="a")[0] == 200
        yield plane


def said(plane: Plane, *words: str, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(STOKER), *words, "--config", str(plane.config)], capture_output=True, text=True,
        env=plane.environment | environment, cwd=plane.directory, check=False, timeout=55,
    )  # fmt: skip
    for key in KEYS.values():
        assert key not in done.stdout + done.stderr, "no key is ever shown"
    return done.returncode, done.stdout, done.stderr


def test_what_a_gate_measures_comes_in_by_the_key_that_found_the_serve(guarded: Plane) -> None:
    _, out, told = said(guarded, "gate", "a", "--json")
    run: dict[str, Any] = json.loads(out)
    seen = {one["name"]: one for one in run["findings"]}
    assert seen["preflight"]["outcome"] == "failed", told  # it was asked; a scripted model has no wits
    assert seen["c4.ttft_p50 < 20s"]["outcome"] == "passed", told


def test_a_benchmark_and_a_canary_find_the_same_key_and_an_alias_stays_what_is_asked_for(guarded: Plane) -> None:
    quickly = ("--concurrency", "1", "--repeats", "1", "--requests", "2", "--seconds", "0", "--output-tokens", "5")
    code, out, told = said(guarded, "eval", "benchmark", "gpt-x", "--direct", *quickly, "--json")
    assert code == 0, told
    runs = json.loads(out)
    assert [one["subject"]["route"] for one in runs] == ["front-door", "direct"]
    assert {(one["subject"]["serve"], one["numbers"]["requests_ok"]) for one in runs} == {("a", 2)}
    assert runs[0]["subject"]["model"] == "gpt-x"
    code, out, told = said(guarded, "eval", "canary", "gpt-x", "--record", "--json")
    assert code == 0, told
    assert json.loads(out)["subject"]["fingerprint"]["identity"] == runs[0]["subject"]["fingerprint"]["identity"] != ""


@pytest.mark.parametrize("command", ["preflight", "benchmark", "canary"])
def test_a_key_of_ones_own_goes_first_and_a_wrong_one_is_named_by_its_variable(guarded: Plane, command: str) -> None:
    code, _, told = said(guarded, "eval", command, "a", STOKER_KEY="wrong")
    assert (code, "does not take the key in STOKER_KEY" in told) == (2, True), told
    if command != "canary":
        code, _, told = said(guarded, "eval", command, "a", "--key-env", "NO_SUCH")
        assert (code, "into the variable NO_SUCH" in told) == (2, True), told
