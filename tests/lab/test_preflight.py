"""The run through the checks: what ends it early, what is kept, what a failure says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from stoker.domain.lease import Target
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, Subject
from stoker_lab.artifacts.fingerprint import EMBER
from stoker_lab.preflight import run as measured
from stoker_lab.preflight.check import CheckContext, CheckResult, PreflightCheck, passed
from stoker_lab.preflight.run import PreflightOptions, PreflightProgress, recorded_numbers, run_preflight
from stoker_lab.preflight.table import NAMES
from stoker_lab.requests.client import ModelClient
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

WHERE = Subject("m", "m", "http://127.0.0.1/v1")
WEATHER = {
    "blocks": [{"type": "call", "name": "get_weather", "arguments": {"city": "Oslo"}}],
    "when": "weather in Oslo",
}


def prove(script: Script, only: Sequence[str] = (), tell: Any = None, subject: Subject = WHERE, **options: Any) -> Run:
    async def run() -> Run:
        async with ScriptedServer(script) as server:
            steps: list[PreflightProgress] = []
            told = (lambda step: tell(server, step)) if tell else steps.append
            target = Target("127.0.0.1", server.port, "", script.id)
            return await run_preflight(subject, target, PreflightOptions(only=only, **options), told)

    return asyncio.run(run())


def outcomes(run: Run) -> dict[str, str]:
    return {one.name: one.outcome.value for one in run.findings}


def test_a_scripted_server_passes_what_it_can_and_says_what_the_rest_is() -> None:
    run = prove(Script(context=4096), ["model", "usage", "frames", "template"])
    assert outcomes(run) == {
        "model": "passed", "template": "not-applicable", "usage": "passed", "frames": "passed",
    }  # fmt: skip
    assert (run.outcome, run.numbers["gates.passed"], run.numbers["gates.n"]) == (Outcome.PASSED, 3, 3)
    assert run.id.split("-")[1:3] == ["preflight", "m"]
    assert bytes(run.settings["wording"]) == b'"assistant"'


@pytest.mark.parametrize(
    ("script", "check", "cause"),
    [
        (Script(shown_id="other"), "model", "another model"),
        (Script(usage=False), "usage", "counts wrongly"),
        (Script(usage=False), "prompt-tokens", "counts wrongly"),
        (Script(quirks="no_done"), "frames", "proxy"),
        (Script(prompt_tokens=7), "prompt-tokens", "dropped"),
        (Script(cached_tokens=99), "usage", "counts wrongly"),
        (Script(text="<|im_end|>"), "special-tokens", "stop id"),
        (Script(text="</think>"), "thinking", "reasoning parser"),
        (Script(tokens=2000), "eos", "end token"),
        (Script(), "tool-single", "tool parser"),
        (Script(), "json-schema", "grammar"),
        (Script(), "echo", "weights"),
        (Script(), "stop", "stop strings"),
        (Script(error_status=500), "echo", "refused or interrupted"),
        (Script(die_after=3), "frames", "refused or interrupted"),
    ],
)
def test_a_failure_has_its_likely_cause_and_a_fix(script: Script, check: str, cause: str) -> None:
    [found] = prove(script, [check]).findings
    assert found.outcome is Outcome.FAILED, found
    assert cause in found.cause
    assert found.fix


@pytest.mark.parametrize(
    "quirk", ["", "whole_call", "repeat_id", "late_name", "null_calls", "empty_deltas", "usage_each"]
)
def test_what_is_legal_on_the_wire_is_no_failure(quirk: str) -> None:
    script = Script(answers=[WEATHER], quirks=quirk)
    [found] = prove(script, ["tool-named"]).findings
    assert found.outcome is Outcome.PASSED, found


@pytest.mark.parametrize(
    ("quirk", "word"),
    [
        ("double_encoded", "encoded twice"), ("stop_for_calls", "finish reason is wrong"),
        ("no_index", "numbers calls wrongly"), ("arguments_object", "an object where text belongs"),
    ],
)  # fmt: skip
def test_what_breaks_clients_is_one(quirk: str, word: str) -> None:
    [found] = prove(Script(answers=[WEATHER], quirks=quirk), ["tool-named"]).findings
    assert found.outcome is Outcome.FAILED
    assert word in found.cause or found.name == "tool-named"
    assert any(one in found.observed for one in ("argument", "finish", "index"))


def test_a_named_tool_may_be_proved_with_another_than_the_one_that_came() -> None:
    wrong = {"blocks": [{"type": "call", "name": "get_time", "arguments": {"city": "Oslo"}}]}
    [found] = prove(Script(answers=[wrong]), ["tool-named"]).findings
    assert found.outcome is Outcome.FAILED


def test_a_model_that_always_thinks_is_none_the_worse_and_gets_room_for_it() -> None:
    """Without a switch in its template, thinking that cannot be kept from is how the model is."""
    thinks = {"blocks": [{"type": "thinking", "text": "Well."}, {"type": "text", "text": "I am some model."}]}

    async def run() -> tuple[Run, list[int]]:
        async with ScriptedServer(Script(answers=[thinks])) as server:
            target = Target("127.0.0.1", server.port, "", "scripted")
            found = await run_preflight(WHERE, target, PreflightOptions(only=["thinking", "frames"]))
            asked = [json.loads(one.body) for one in server.requests if one.path.endswith("/completions")]
            return found, [one["max_tokens"] for one in asked]

    found, room = asyncio.run(run())
    assert outcomes(found) == {"thinking": "passed", "frames": "passed"}
    assert "no switch" in found.findings[0].observed
    assert max(room) > 4096


def test_tool_choice_none_wants_text_alone() -> None:
    text = {"blocks": [{"type": "text", "text": "It is sunny in Oslo."}]}
    for answer, outcome in ((text, Outcome.PASSED), (WEATHER, Outcome.FAILED)):
        assert prove(Script(answers=[answer]), ["tool-none", "tool-abstain"]).findings[0].name == "tool-abstain"
        assert prove(Script(answers=[answer]), ["tool-none"]).findings[0].outcome is outcome


def test_ids_of_calls_that_count_within_a_conversation_are_no_fault() -> None:
    """Kimi K2 and Command R7B learned such ids: the first call of each conversation has the same."""
    for id, is_constant in (("functions.get_weather:0", False), ("0", False), ("call_0", True)):
        call = {"type": "call", "name": "get_weather", "arguments": {"city": "Oslo"}, "id": id}
        [found] = prove(Script(answers=[{"blocks": [call], "when": "weather"}]), ["tool-batch"]).findings
        assert ("all have the id" in found.observed) is is_constant


def test_two_calls_at_once_have_to_be_two() -> None:
    cities = ("Paris", "Rome", "Berlin", "Madrid", "London", "Oslo", "Lisbon", "Vienna", "Prague", "Athens")
    pairs = [(one, two) for one in cities for two in cities if one != two]

    def answers(count: int, id: str | None = None) -> list[dict[str, Any]]:
        return [
            {"blocks": [{"type": "call", "name": "get_weather", "arguments": {"city": city}, "id": id}
                        for city in pair[:count]], "when": f"in {pair[0]} and in {pair[1]}"}
            for pair in pairs
        ]  # fmt: skip

    for given, outcome in ((answers(2), "passed"), (answers(1), "failed"), (answers(2, "same"), "failed")):
        assert outcomes(prove(Script(answers=given), ["tool-parallel"])) == {"tool-parallel": outcome}


def test_a_server_that_dies_leaves_what_is_finished() -> None:
    """The check under way and those after it are interrupted."""

    def tell(server: ScriptedServer, step: PreflightProgress) -> None:
        if step.check == "usage" and step.finding is None:
            tasks.append(asyncio.get_running_loop().create_task(server.close()))

    tasks: list[Any] = []
    run = prove(Script(gap=0.01), ["model", "usage", "frames", "bleed"], tell)
    found = outcomes(run)
    assert found["model"] == "passed"
    assert [found[name] for name in ("usage", "frames", "bleed")] == ["interrupted"] * 3
    assert run.outcome is Outcome.INTERRUPTED
    assert "gone" in next(one.observed for one in run.findings if one.name == "usage")


def test_nobody_there_is_no_verdict() -> None:
    run = asyncio.run(run_preflight(WHERE, Target("127.0.0.1", 1, "", "m")))
    assert set(outcomes(run).values()) <= {"interrupted", "not-applicable"}
    assert run.outcome is Outcome.INTERRUPTED
    assert list(outcomes(run)) == list(NAMES)


def test_ctrl_c_keeps_what_is_finished() -> None:
    def tell(server: ScriptedServer, step: PreflightProgress) -> None:
        task = asyncio.current_task()
        if step.check == "frames" and step.finding is None and task is not None:
            task.cancel()

    assert outcomes(prove(Script(), ["model", "usage", "frames"], tell)) == {
        "model": "passed", "usage": "passed", "frames": "interrupted",
    }  # fmt: skip


def test_a_gate_that_takes_too_long_fails_with_that_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(client: ModelClient, ctx: CheckContext) -> CheckResult:
        await asyncio.Event().wait()
        return passed("never")

    monkeypatch.setattr(measured, "CHECKS", (PreflightCheck("echo", "", "", endless, seconds=0.05),))
    [found] = prove(Script(), ["echo"]).findings
    assert (found.outcome, "slowly" in found.cause) == (Outcome.FAILED, True)


@pytest.mark.parametrize("options", [{"only": ["nonsense"]}, {"wording": "nonsense"}])
def test_what_there_is_not_is_refused_before_anything_is_asked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        prove(Script(), **options)


def test_a_baseline_holds_prompts_to_the_tokens_that_they_cost() -> None:
    script = Script(prompt_tokens=None)
    first = prove(script, ["prompt-tokens"])
    if first.outcome is Outcome.PASSED:
        counts = recorded_numbers(first)
        assert prove(script, ["prompt-tokens"], baseline=counts).findings[0].observed.endswith("as recorded")
        [changed] = prove(script, ["prompt-tokens"], baseline=counts | {"plain": 1}).findings
        assert (changed.outcome, "changed since" in changed.cause) == (Outcome.FAILED, True)
    answers = recorded_numbers(prove(script, ["same-model"]))
    assert sorted(answers) == ["answer-1", "answer-2", "answer-3", "answer-4"]
    assert prove(script, ["same-model"], baseline=answers).findings[0].observed.endswith("as recorded")
    [changed] = prove(script, ["same-model"], baseline=dict.fromkeys(answers, 1)).findings
    assert (changed.outcome, "another model" in changed.cause) == (Outcome.FAILED, True)
    assert recorded_numbers(Run("", first.kind, 0, 0, WHERE, Outcome.PASSED, [Finding("x", Outcome.PASSED)])) == {}


def test_long_texts_are_new_in_each_run_so_that_no_cache_has_read_them() -> None:
    def texts() -> list[str]:
        async def run() -> list[str]:
            async with ScriptedServer(Script(context=4096, prompt_tokens=None)) as server:
                target = Target("127.0.0.1", server.port, "", "scripted")
                await run_preflight(WHERE, target, PreflightOptions(only=["needle", "over-context"]))
                asked = [json.loads(one.body) for one in server.requests if one.path.endswith("/completions")]
                return [one["messages"][-1]["content"] for one in asked if len(one["messages"][-1]["content"]) > 4000]

        return asyncio.run(run())

    first, second = texts(), texts()
    assert len(first) == len(second) > 18
    assert {text[:100] for text in first}.isdisjoint(text[:100] for text in second)


def test_a_model_is_asked_in_its_own_words_whatever_its_serve_is_called() -> None:
    subject = Subject("m", "m", "http://127.0.0.1/v1", fingerprint=Fingerprint(parts={"model": EMBER}))
    run = prove(Script(), ["model"], subject=subject)
    assert run.setting("wording") == "ember"
