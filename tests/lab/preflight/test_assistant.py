"""The scripted assistant thinks and calls tools in parallel: clean it passes, broken it fails by the right check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stoker.domain.lease import Target
from stoker.domain.run import Finding, Outcome, Run, Subject
from stoker_lab.preflight.resuming import finished
from stoker_lab.preflight.run import PreflightOptions, run_preflight
from stoker_lab.preflight.table import CHECKS
from stoker_lab.testing.faults.answers import ANSWERS
from stoker_lab.testing.faults.calls import CALLS
from stoker_lab.testing.faults.fault import ServingFault
from stoker_lab.testing.faults.grafts import GRAFTS
from stoker_lab.testing.faults.pieces import PIECES
from stoker_lab.testing.faults.proxy import CHAT, FaultProxy
from stoker_lab.testing.faults.table import FAULTS, NONE
from stoker_lab.testing.faults.vectors import VECTORS
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

ASSISTANT = Script(id="assistant", assistant=True, thinks=True, context=8192, engine="vllm")
PLAYED = ("thinking", "parallel", "descriptions")
"""What the assistant does by itself."""
SHOWN = (*CALLS, *PIECES, *ANSWERS, *VECTORS, FAULTS["system-cut"], FAULTS["answers-dropped"])
BROKEN = [pytest.param(fault, marks=[pytest.mark.heavy] if fault.share < 1 else [], id=fault.name)
          for fault in SHOWN if not fault.needs_real_engine]  # fmt: skip


def behind(
    fault: ServingFault, only: Sequence[str] = (), kept: list[Run] | None = None, earlier: Run | None = None,
    **changes: Any,
) -> Run:  # fmt: skip
    """`kept` gets the run as it is after each check but the last; `earlier`: one of these, which goes on."""
    keep = (lambda run: None) if kept is None else kept.append

    async def run() -> Run:
        async with ScriptedServer(ASSISTANT.amended(changes)) as server:
            grafts = [GRAFTS[name] for name in fault.needed_abilities if name not in PLAYED]
            async with FaultProxy(Target("127.0.0.1", server.port, "", "assistant"), fault, grafts) as proxy:
                own = Target("127.0.0.1", proxy.port, "", "assistant")
                where = Subject("assistant", "assistant", "http://127.0.0.1/v1", route="direct")
                options = PreflightOptions(only=only, needle_ctx=500)
                return await run_preflight(where, own, options, keep=keep, earlier=earlier)

    return asyncio.run(run())


def alarms(run: Run) -> list[Finding]:
    return [one for one in run.findings if one.outcome not in (Outcome.PASSED, Outcome.NOT_APPLICABLE)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"thinks": False, "engine": "llama.cpp", "quirks": "whole_call,empty_deltas"},
        {"reasoning_field": "reasoning", "quirks": "interleave,together,null_calls", "split": (40, 700)},
    ],
    ids=["thinks", "does not think", "legal habits"],
)
def test_clean_it_raises_no_alarm(changes: dict[str, Any]) -> None:
    run = behind(NONE, **changes)
    assert alarms(run) == []
    assert [one.name for one in run.findings] == [check.name for check in CHECKS]


@pytest.mark.parametrize("fault", BROKEN)
def test_each_fault_is_named_with_cause_and_fix(fault: ServingFault) -> None:
    if fault.delay:
        fault = fault._replace(delay=0.4)
    changes: dict[str, Any] = {"gap": 0.001} if "pace" in fault.checks else {}
    changes |= {"absent": CHAT} if fault.needs_embeddings else {}
    found = alarms(behind(fault, sorted(fault.checks), **changes))
    assert found
    assert all(one.cause and one.fix and one.observed for one in found)


@pytest.mark.parametrize(
    ("name", "check", "word"),
    [
        ("arguments-object", "tool-single", "an object, not text"),
        ("shared-index", "tool-parallel", "two calls share the index 0"),
        ("no-index", "tool-single", "no index"),
        ("id-per-piece", "tool-single", "several ids"),
        ("letters-cut", "unicode", "not UTF-8"),
        ("limit-ignored", "max-tokens", "60 words came"),
        ("stop-for-length", "max-tokens", "its finish reason is end"),
        ("part-dropped", "parts", "costs nothing"),
        ("counts-plus", "usage", "41 tokens are counted"),
        ("thought-spaces-eaten", "chunks", "thoughts in a stream"),
        ("image-ignored", "image", "0 of 3 seen"),
        ("thoughts-last", "thinking", "after the text"),
        ("other-model", "model", "'another-model'"),
        ("system-cut", "whole-prompt", "in a system prompt"),
        ("answers-dropped", "whole-prompt", "costs 0 in an earlier answer"),
        ("descriptions-dropped", "tool-descriptions", "costs 0 in a tool's description"),
        ("count-plus-one", "max-tokens", "so +1 wherever an answer is cut"),
        ("count-minus-one", "max-tokens", "so -1 wherever an answer is cut"),
        ("limit-capped", "max-tokens", "max_tokens 512, not streamed: the answer was cut after 48 tokens"),
        ("logprobs-missing-stream", "logprobs", "streamed: log probabilities were asked for, and none came"),
        ("logprobs-linear", "logprobs", "above 0"),
        ("logprobs-shifted", "logprobs", "the tokens that have log probabilities write"),
        ("temperature-forced", "determinism", "differ with the seed"),
        ("temperature-zero", "determinism", "4 seeds give the same answer"),
        ("constant-ids", "ids", "each of 24 answers has the id 'chatcmpl-0'"),
        ("constant-call-ids", "tool-batch", "all have the id 'call_0'"),
        ("prefix-cache", "prefix", "with its word"),
        ("thoughts-copied", "thinking", "repeats its thoughts"),
        ("other-tokenizer-long", "long-prompts", "is counted as"),
        ("other-name-long", "long-prompts", "'another-model'"),
        ("vectors-reversed", "embeddings", "belong to another text"),
        ("vectors-noisy", "embeddings", "another vector when it is asked again"),
        ("vectors-mixed", "embeddings", "nearer to nearly the same text"),
    ],
)
def test_the_sentence_says_what_was_seen(name: str, check: str, word: str) -> None:
    [found] = alarms(behind(FAULTS[name], [check], **({"absent": CHAT} if check == "embeddings" else {})))
    assert word in found.observed


def test_a_server_that_refuses_tools_forms_and_pictures_is_told_so_and_not_blamed() -> None:
    def refuse(path: str, document: dict[str, Any]) -> None:
        if {"tools", "response_format"} & document.keys() or "image_url" in str(document.get("messages")):
            document["messages"] = [{"role": "user", "content": "too long " * 20_000}]

    checks = [check.name for check in CHECKS if check.name.startswith(("tool-", "json", "image", "prompt"))]
    run = behind(ServingFault("refuses", "", frozenset(("model",)), request=refuse), checks)
    assert alarms(run) == []
    refused = {one.name for one in run.findings if "it refuses" in one.observed}
    assert refused == {one.name for one in run.findings} - {"prompt-tokens"}


def refusing(is_refused: Callable[[dict[str, Any]], bool]) -> ServingFault:
    """What is too long for the server is answered as 400."""

    def refuse(path: str, document: dict[str, Any]) -> None:
        if is_refused(document):
            document["messages"] = [{"role": "user", "content": "too long " * 20_000}]

    return ServingFault("refuses", "", frozenset(("model",)), request=refuse)


def longest_description(document: dict[str, Any]) -> int:
    return max((len(tool["function"]["description"]) for tool in document.get("tools", ())), default=0)


def counts_thoughts_apart(asked: dict[str, Any], reply: dict[str, Any]) -> None:
    if asked["max_tokens"] == 512:
        reply["choices"][0]["finish_reason"] = "length"
        reply["usage"] |= {"completion_tokens": 40, "total_tokens": reply["usage"]["prompt_tokens"] + 512}


def one_text_alone(path: str, document: Any) -> Any:
    return None if path == "/v1/embeddings" and len(document["data"]) > 1 else document


@pytest.mark.parametrize(
    ("fault", "check", "outcome", "word"),
    [
        (refusing(lambda asked: longest_description(asked) > 1024), "tool-descriptions", Outcome.PASSED, "read whole"),
        (refusing(lambda asked: longest_description(asked) > 200), "tool-descriptions", Outcome.NOT_APPLICABLE, "long"),
        (
            refusing(lambda asked: asked.get("temperature", 0) > 1),
            "determinism",
            Outcome.PASSED,
            "temperature 1.0 they",
        ),
        (refusing(lambda asked: asked.get("temperature", 0) > 0), "determinism", Outcome.PASSED, "1.0 is refused"),
        (NONE._replace(whole=counts_thoughts_apart), "max-tokens", Outcome.PASSED, "each says length"),
        (NONE._replace(page=one_text_alone), "embeddings", Outcome.NOT_APPLICABLE, "9 texts at once"),
        (FAULTS["vectors-mixed"], "embeddings", Outcome.PASSED, "of 3 near texts are nearer"),
        (FAULTS["vectors-unnormalised"], "embeddings", Outcome.PASSED, "0 of 9 are of length 1"),
    ],
    ids=["descriptions", "no descriptions", "to 1.0", "cold only", "thoughts apart", "one text", "mixed", "longer"],
)
def test_the_limits_of_a_cloud_are_no_fault(fault: ServingFault, check: str, outcome: Outcome, word: str) -> None:
    [found] = behind(fault, [check]).findings
    assert (found.outcome, word in found.observed) == (outcome, True), found.observed


def test_a_forced_temperature_is_taken_for_no_other_fault() -> None:
    """What compares answers is not judged then: it would name another model, or lost pieces. Nor is it when the
    preflight is interrupted after `determinism` and goes on."""
    checks, kept = ["determinism", "frames", "chunks", "same-model"], list[Run]()
    run = behind(FAULTS["temperature-forced"], checks, kept)
    assert [one.name for one in alarms(run)] == ["determinism"]
    assert "sampling is forced" in alarms(run)[0].cause
    part = next(one for one in kept if "determinism" in finished(one))
    assert len(finished(part)) < len(checks)
    resumed = behind(FAULTS["temperature-forced"], checks, earlier=part)
    assert [one.outcome for one in resumed.findings] == [one.outcome for one in run.findings]


def test_what_makes_embeddings_only_is_asked_for_nothing_else() -> None:
    run = behind(NONE, absent=CHAT)
    assert alarms(run) == []
    assert {one.name for one in run.findings if one.outcome is Outcome.PASSED} == {"model", "embeddings"}
    assert all("it makes embeddings only" in one.observed for one in run.findings if one.name == "needle")


def test_an_engine_that_may_have_no_log_probabilities_is_not_blamed_for_it() -> None:
    run = behind(FAULTS["logprobs-missing"], ["logprobs"], engine="llama.cpp", absent="/props")
    assert [one.outcome for one in run.findings] == [Outcome.NOT_APPLICABLE]


def test_each_check_says_what_it_cannot_see() -> None:
    assert all(check.cannot_see and check.proves for check in CHECKS)
