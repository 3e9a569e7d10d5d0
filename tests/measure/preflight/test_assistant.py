"""The scripted assistant thinks and calls tools in parallel: clean it passes, broken it fails by the right check."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from stoker.domain.lease import Target
from stoker.domain.run import Finding, Outcome, Run, Subject
from stoker.measure.preflight.run import PreflightOptions, run_preflight
from stoker.measure.preflight.table import CHECKS
from stoker.testing.faults.calls import CALLS
from stoker.testing.faults.fault import ServingFault
from stoker.testing.faults.grafts import GRAFTS
from stoker.testing.faults.pieces import PIECES
from stoker.testing.faults.proxy import FaultProxy
from stoker.testing.faults.table import FAULTS, NONE
from stoker.testing.script.script import Script
from stoker.testing.server import ScriptedServer

ASSISTANT = Script(id="assistant", assistant=True, thinks=True, context=8192, engine="vllm")
PLAYED = ("thinking", "parallel")
"""What the assistant does by itself."""
BROKEN = [pytest.param(fault, marks=[pytest.mark.heavy] if fault.share < 1 else [], id=fault.name)
          for fault in (*CALLS, *PIECES) if not fault.needs_real_engine]  # fmt: skip


def behind(fault: ServingFault, only: Sequence[str] = (), **changes: Any) -> Run:
    async def run() -> Run:
        async with ScriptedServer(ASSISTANT.amended(changes)) as server:
            grafts = [GRAFTS[name] for name in fault.needed_abilities if name not in PLAYED]
            async with FaultProxy(Target("127.0.0.1", server.port, "", "assistant"), fault, grafts) as proxy:
                own = Target("127.0.0.1", proxy.port, "", "assistant")
                where = Subject("assistant", "assistant", "http://127.0.0.1/v1", route="direct")
                return await run_preflight(where, own, PreflightOptions(only=only, needle_ctx=500))

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
        fault = fault._replace(delay=0.25 if fault.every > 1 else 0.3)
    changes = {"gap": 0.001} if "pace" in fault.checks else {}
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
    ],
)
def test_the_sentence_says_what_was_seen(name: str, check: str, word: str) -> None:
    [found] = alarms(behind(FAULTS[name], [check]))
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


def test_each_check_says_what_it_cannot_see() -> None:
    assert all(check.cannot_see and check.proves for check in CHECKS)
