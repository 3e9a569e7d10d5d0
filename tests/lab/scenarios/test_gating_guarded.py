"""A gate at a front door with keys: every measurement that it runs comes in by the same key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.script.script import Script

KEYS = {"K_BOSS": "key-of-the-boss-1", "K_EYE": "key-of-the-eye-2", "K_APP": "key-of-the-app-3"}
DOOR = """keys = [
  { name = "app", value = "env:K_APP" },
  { name = "eye", value = "env:K_EYE", scope = "observe" },
  { name = "boss", value = "env:K_BOSS", scope = "admin", max_active = 1 },
]"""
GATE = """
[gate.quick]
conditions = ["preflight", "c4.ttft_p50 < 20s"]

[gate.same]
conditions = ["canary"]

[gate.good]
conditions = ["math-short.lower >= 0.1"]
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    directory = tmp_path_factory.mktemp("weights")

    def with_weights(name: str, **keys: object) -> str:
        """A scripted serve that has an identity."""
        weights = directory / f"{name}.gguf"
        weights.write_bytes(f"GGUF weights of {name}".encode())
        return serve(name, Script(), engine="llama.cpp", model=str(weights), slot=None, **keys)

    serves = with_weights("a", aliases=["gpt-x"]), with_weights("b"), with_weights("c")
    with running(*serves, GATE, front_door=DOOR, environment=KEYS) as plane:
        plane.environment.pop("STOKER_KEY", None)
        for name in "abc":
            assert plane.admin("switch", serve=name)[0] == 200
        yield plane


def said(plane: Plane, *words: str, **environment: str) -> tuple[int, str, str]:
    done = plane.run(*words, timeout=55, **environment)
    for key in KEYS.values():
        assert key not in done.stdout + done.stderr, "no key is ever shown"
    return done.returncode, done.stdout, done.stderr


def test_what_a_gate_measures_comes_in_by_the_key_that_found_the_serve(guarded: Plane) -> None:
    _, out, told = said(guarded, "gate", "a", "--gate", "quick", "--json")
    run: dict[str, Any] = json.loads(out)
    seen = {one["name"]: one for one in run["findings"]}
    assert seen["preflight"]["outcome"] == "failed", told  # it was asked; a scripted model has no wits
    assert seen["c4.ttft_p50 < 20s"]["outcome"] == "passed", told


def test_without_a_baseline_a_canary_decides_nothing_and_the_command_that_records_one_is_said(guarded: Plane) -> None:
    ask = ("gate", "b", "--gate", "same")
    code, out, _ = said(guarded, *ask, "--json")
    run: dict[str, Any] = json.loads(out)
    (finding,) = run["findings"]
    assert (code, run["outcome"], finding["outcome"]) == (1, "undecided", "undecided")
    command = f"stoker eval canary b --config {guarded.config} --record"
    assert finding["fix"] == f"there is no baseline of 'b' yet; record one: {command}"
    assert finding["fix"] in said(guarded, *ask)[1]
    code, _, told = said(guarded, *command.split()[1:4], "--record")
    assert code == 0, told
    assert said(guarded, *ask)[0] == 0, "a baseline is no canary: the gate asks anew, and finds it the same"


def test_again_asks_the_suites_again(guarded: Plane, tmp_path: Path) -> None:
    question = {"messages": [{"role": "user", "content": "What is 6 * 7?"}], "max_tokens": 8}
    row = {"id": "own-1", "task_class": "math-short", "request": question, "check": {"kind": "number", "value": "42"}}
    (tmp_path / "own.jsonl").write_text(f"{json.dumps(row)}\n")

    def asked(*more: str) -> int:
        before = len(guarded.received("c", "/v1/chat/completions"))
        code, _, told = said(guarded, "gate", "c", "--gate", "good", "--suites", str(tmp_path), *more)
        assert code == 1, told
        return len(guarded.received("c", "/v1/chat/completions")) - before

    assert asked() > 0
    assert asked() == 0, "a measurement counts until something changes"
    assert asked("--again") > 0


def test_a_baseline_of_another_model_decides_nothing_either(guarded: Plane) -> None:
    code, _, told = said(guarded, "eval", "canary", "c", "--record")
    assert code == 0, told
    Path(guarded.serve("c")["model"]).write_bytes(b"GGUF other weights")
    code, out, told = said(guarded, "gate", "c", "--gate", "same", "--json")
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["outcome"]) == (1, "undecided"), told
    assert "belongs to another model (model: sha256:" in finding["fix"]


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
    assert (code, "rejects the key in STOKER_KEY" in told) == (2, True), told
    if command != "canary":
        code, _, told = said(guarded, "eval", command, "a", "--key-env", "NO_SUCH")
        assert (code, "into the variable NO_SUCH" in told) == (2, True), told
