"""A task that no measured tier may serve is served by none, whatever the turn says: refused once, it stays refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.auto.flow.routed import use_router
from tests.auto.flow.test_flow_routing import LARGE, SMALL, sealed, whole
from tests.gateway.flow_stage import LoopClock, Stage, story

from stoker.domain.routing import RouterSettings, TaskClass
from stoker.domain.run import Fingerprint
from stoker.domain.task import HIGH_RISK
from stoker.domain.tier import ProfileRow, Tier, Verdict
from stoker_auto.routing.classifier import classify
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.testing.client import compose_request

RENAME = "Rename UserProfile to Account everywhere"
REMINDER = "<system-reminder>\nThe TodoWrite tool hasn't been used recently.\n</system-reminder>"
NAMES = ("Bash", "Edit", "Read", "Write")
TOOLS = [{"name": name, "description": "d", "input_schema": {"type": "object"}} for name in NAMES]
FUNCTIONS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
READER = [{"name": "get_weather", "description": "d", "input_schema": {"type": "object"}}]
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Edit", "input": {}}]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}


def route(stage: Stage, measured: tuple[str, ...] = (), cloud: bool = False, **router: Any) -> TierRouter:
    """One local tier, measured to be good enough at some classes, and perhaps a cloud."""
    tiers = (Tier("local", "small"), *((Tier("trusted", "large", cloud=True),) if cloud else ()))
    rows = {("local", name): ProfileRow("local", name, "i", "e", 40, 40, Verdict.ALLOW) for name in measured}
    sees = stage.conductor.residency
    tier_quality = TierQuality(rows)
    made = TierRouter(RouterSettings(tiers, **router), stage.serves, tier_quality, sees, LoopClock().now, classify)
    tier_quality.on_identified("small", Fingerprint("i", "e"))
    use_router(stage, made)
    return made


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def messages(turns: list[dict[str, Any]], tools: Any = TOOLS) -> bytes:
    document = {"model": "auto", "max_tokens": 100, "messages": turns, "tools": tools}
    return compose_request("POST", "/v1/messages", document)


SESSION = [
    user(f"{REMINDER}\n{RENAME}"),
    CALL,
    user(RESULT),
    CALL,
    user(RESULT, REMINDER),
    CALL,
    user(RESULT, "[Request interrupted by user for tool use]"),
    said("I stopped."),
    user("continue"),
    CALL,
    user(RESULT),
    said("One file is done."),
    user("yes go on"),
    said("And this one."),
    user(REMINDER, "now the other 11"),
    CALL,
    user(RESULT),
]


@story(SMALL)
async def test_no_turn_of_a_refused_task_is_served_by_a_tier_that_was_not_measured(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    asked = [at + 1 for at, turn in enumerate(SESSION) if turn["role"] == "user"]
    assert len(asked) == 9
    for end in asked:
        await client.send(messages(SESSION[:end]))
        reply = await client.reply()
        assert (end, reply.status) == (end, 403)
        decision = await sealed(stage)
        assert decision.routed is not None
        assert decision.routed.task == "multi-file-refactor"
    await client.send(messages([user("hello, how are you today?")]))
    (await stage.asked()).reply(whole())
    assert (await client.reply()).status == 200


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/v1/messages", {"max_tokens": 9, "tools": TOOLS, "messages": [user(REMINDER)]}),
        ("/v1/messages", {"max_tokens": 9, "tools": TOOLS, "messages": [CALL, user(RESULT)]}),
        ("/v1/chat/completions", {"tools": FUNCTIONS, "messages": [{"role": "user", "content": "continue"}]}),
        ("/v1/responses", {"tools": [{"type": "custom", "name": "apply_patch"}], "previous_response_id": "resp_1",
                           "input": [{"type": "function_call_output", "call_id": "c", "output": "ok"}]}),
        ("/api/chat", {"tools": FUNCTIONS, "messages": [{"role": "user", "content": "go on"}]}),
    ],
)  # fmt: skip
def test_a_task_that_cannot_be_found_is_high_risk_where_tools_can_change_files(
    path: str, document: dict[str, Any]
) -> None:
    @story(SMALL)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        route(stage, measured=("planning",))
        await client.send(compose_request("POST", path, {"model": "auto", **document}))
        reply = await client.reply()
        assert reply.status == 403
        assert b"could not be determined" in reply.body
        assert b"not measured at multi-file-refactor" in reply.body
        assert b"--class multi-file-refactor" in reply.body
        decision = await sealed(stage)
        assert decision.routed is not None
        assert (decision.routed.task, decision.routed.source) == ("unknown", "default")

    tell()


@story(SMALL)
async def test_a_tier_measured_at_every_high_risk_class_serves_a_task_that_cannot_be_found(stage: Stage) -> None:
    route(stage, measured=HIGH_RISK)
    client = await stage.client()
    await client.send(messages([user("continue")]))
    (await stage.asked()).reply(whole())
    assert (await client.reply()).header("x-stoker-tier") == "local"
    decision = await sealed(stage)
    assert decision.routed is not None
    assert (decision.routed.task, decision.routed.verdict) == ("unknown", "allow")


@story(SMALL, LARGE)
async def test_a_trusted_cloud_serves_a_task_that_cannot_be_found(stage: Stage) -> None:
    route(stage, cloud=True)
    client = await stage.client()
    await client.send(messages([user("continue")]))
    (await stage.asked()).reply(whole())
    assert (await client.reply()).header("x-stoker-tier") == "trusted"


@story(SMALL, LARGE)
async def test_it_goes_to_no_cloud_that_may_not_have_every_high_risk_class(stage: Stage) -> None:
    route(stage, cloud=True, cloud_classes=("planning", "chat"))
    client = await stage.client()
    await client.send(messages([user("continue")]))
    assert (await client.reply()).status == 403


@pytest.mark.parametrize("tools", [[], READER])
def test_without_tools_that_change_files_it_is_routed_as_chat(tools: Any) -> None:
    @story(SMALL)
    async def tell(stage: Stage) -> None:
        route(stage)
        client = await stage.client()
        await client.send(messages([user("continue")], tools))
        (await stage.asked()).reply(whole())
        assert (await client.reply()).header("x-stoker-tier") == "local"
        decision = await sealed(stage)
        assert decision.routed is not None
        assert (decision.routed.task, decision.routed.notes) == ("unknown", ["nothing_before"])

    tell()


@story(SMALL)
async def test_nobody_can_declare_unknown(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    document = {"model": "auto", "messages": [{"role": "user", "content": RENAME}]}
    await client.send(compose_request("POST", "/v1/chat/completions", document, (("x-stoker-class", "unknown"),)))
    assert (await client.reply()).status == 403
    decision = await sealed(stage)
    assert decision.routed is not None
    assert decision.routed.task == "multi-file-refactor"


@story(SMALL)
async def test_a_class_of_ones_own_is_inherited_by_its_words(stage: Stage) -> None:
    route(stage, classes=(TaskClass("legal", words=("contract",)),))
    client = await stage.client()
    await client.send(messages([user("Read the contract with the landlord"), said("Yes."), user("continue")]))
    (await stage.asked()).reply(whole())
    await client.reply()
    decision = await sealed(stage)
    assert decision.routed is not None
    assert (decision.routed.task, decision.routed.notes) == ("legal", ["own_word", "earlier:1"])
