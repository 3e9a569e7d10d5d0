"""Calls of MCP servers that a client of Responses has approved: whose they are, and how often they run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.gateway.flow_stage import Stage, a_serve, story
from tests.tools.test_hostile_mcp import hostile
from tests.tools.test_mcp_rounds import MCP, ask, using
from tests.tools.tool_stage import RESPONSES, called, use, worded

from stoker.domain.dialect import Dialect
from stoker.domain.key import Key
from stoker.domain.serve import Secret, Translation
from stoker_lab.testing.client import compose_request

CHAT_ONLY = a_serve(dialects=frozenset((Dialect.CHAT,)))
CLOUD = a_serve(dialects=frozenset((Dialect.RESPONSES,)), translation=Translation(cloud=True), fallback="b")
LOCAL = a_serve("b", dialects=frozenset((Dialect.CHAT,)))
ASKING = {**MCP, "require_approval": "always"}
EMPTY = {"id": "r", "object": "response", "status": "completed", "output": [], "usage": {}}
Items = list[dict[str, Any]]


def request_of(items: Items, path: str = RESPONSES, model: str = "a", key: str = "", **fields: Any) -> bytes:
    headers = (("authorization", f"Bearer {key}"),) if key else ()
    return compose_request("POST", path, {"model": model, "input": items, "tools": [ASKING], **fields}, headers)


def granted(*requests: dict[str, Any]) -> Items:
    answers = [{"type": "mcp_approval_response", "approval_request_id": one["id"], "approve": True} for one in requests]
    return [{"role": "user", "content": "go"}, *requests, *answers]


async def approved(stage: Stage, *arguments: str, **fields: Any) -> Items:
    """The model calls the tool with these arguments, and the client approves all of it."""
    calls = called(*[("desk__t", one) for one in arguments or ("{}",)])
    first = await ask(stage, request_of([{"role": "user", "content": "go"}], **fields), calls)
    return granted(*[item for item in first["output"] if item["type"] == "mcp_approval_request"])


def outcomes(answer: dict[str, Any]) -> list[str]:
    calls = [item for item in answer["output"] if item["type"] == "mcp_call"]
    return [item["output"] if item["error"] is None else item["error"]["message"] for item in calls]


@story(CHAT_ONLY)
async def test_approved_calls_count_as_calls_of_the_request(stage: Stage) -> None:
    many = [json.dumps({"n": at}) for at in range(6)]
    async with using(stage, hostile("ok")):
        items = await approved(stage, *many)
    async with using(stage, hostile("ok", max_uses=2)) as servers:
        answer = await ask(stage, request_of(items), worded("done"))
        assert servers.calls == 2
        assert outcomes(answer)[1:3] == ['ok {"n": 1}', "max_uses_exceeded"]
    async with using(stage, hostile("ok"), max_calls=3) as servers:
        await ask(stage, request_of(items), called(("desk__t", '{"n":7}')), worded("done"))
        assert servers.calls == 3
    stage.decisions.clear()


@story(CHAT_ONLY)
async def test_who_counts_tokens_runs_nothing(stage: Stage) -> None:
    async with using(stage, hostile("ok")) as servers:
        items = await approved(stage)
        client = await stage.client()
        await client.send(request_of(items, "/v1/responses/input_tokens"))
        (await stage.asked()).reply({"tokens": [1], "input_tokens": 1})
        await client.reply()
        assert servers.calls == 0
        stage.decisions.clear()


def test_an_approval_that_stoker_did_not_ask_this_caller_for_is_not_found() -> None:
    keys = [Key(f"k{at}", Secret(f"s-{at}", f"env:S{at}"), tools=("desk",)) for at in range(2)]

    @story(CHAT_ONLY, keys=tuple(keys))
    async def played(stage: Stage) -> None:
        async with using(stage, hostile("ok")) as servers:
            items = await approved(stage, key="s-0")
            changed = [item | ({"arguments": '{"n":1}'} if "arguments" in item else {}) for item in items]
            invented = json.loads(json.dumps(items).replace(items[1]["id"], "mcpr_1"))
            for given, key in ((items, "s-1"), (changed, "s-0"), (invented, "s-0")):
                answer = await ask(stage, request_of(given, key=key))
                assert answer["error"]["code"] == "approval_not_found"
            assert servers.calls == 0
            assert outcomes(await ask(stage, request_of(items, key="s-0"), worded("done"))) == ["ok {}"]
            assert len(items[1]["id"]) <= 64
            stage.decisions.clear()

    played()


@story(CHAT_ONLY)
async def test_an_approved_call_runs_once_whoever_leaves_and_however_often_it_is_sent(stage: Stage) -> None:
    async with using(stage, hostile("hang", timeout=0.5)) as servers:
        items = await approved(stage)
        clients = [await stage.client() for _ in range(2)]
        for client in clients:
            await client.send(request_of(items))
        for _ in clients:
            (await stage.asked()).reply(worded("late"))
        for client in clients:
            await client.reply()
        assert servers.calls == 1
    async with using(stage, hostile("hang")) as servers:
        items = await approved(stage)
        client = await stage.client()
        await client.send(request_of(items))
        await stage.until(lambda: servers.calls)
        client.abort()
        await stage.until(lambda: not stage.flow.settings.tool_planner.runner.counts_of(hostile("hang")).active)
        assert outcomes(await ask(stage, request_of(items), worded("?"))) == ["may_have_run"]
        assert servers.calls == 1
    stage.decisions.clear()


@story(CHAT_ONLY)
async def test_a_call_that_could_not_begin_runs_when_it_is_sent_again(stage: Stage) -> None:
    async with using(stage, hostile("ok", max_active=1)) as servers:
        items = await approved(stage)
        counts = stage.flow.settings.tool_planner.runner.counts_of(hostile("ok"))
        counts.active = 1
        assert outcomes(await ask(stage, request_of(items), worded("?"))) == ["too_many_requests"]
        counts.active = 0
        assert outcomes(await ask(stage, request_of(items), worded("done"))) == ["ok {}"]
        assert servers.calls == 1
    stage.decisions.clear()


@story(CLOUD, LOCAL)
async def test_an_approval_goes_to_who_asked_for_it_alone(stage: Stage) -> None:
    async with using(stage, hostile("ok")) as servers:
        client = await stage.client()
        request = {"type": "mcp_approval_request", "id": "mcpr_cloud", "server_label": "desk", "name": "t",
                   "arguments": "{}"}  # fmt: skip
        await client.send(request_of(granted(request)))
        talk = await stage.asked()
        assert [item.get("type") for item in talk.json()["input"]][1:] == [
            "mcp_approval_request", "mcp_approval_response",
        ]  # fmt: skip
        talk.reply(EMPTY)
        await client.reply()
        assert servers.calls == 0
        items = await approved(stage, model="b")
        assert outcomes(await ask(stage, request_of(items), worded("done"))) == ["ok {}"]
        assert servers.calls == 1
        stage.decisions.clear()


@story(CLOUD, LOCAL)
async def test_a_cloud_that_runs_the_tool_itself_is_asked_though_the_server_here_is_down(stage: Stage) -> None:
    use(stage, hostile("dies"))
    client = await stage.client()
    await client.send(request_of([{"role": "user", "content": "go"}]))
    (await asyncio.wait_for(stage.asked(), 10)).reply(EMPTY)
    assert (await client.reply()).status == 200
    stage.decisions.clear()
    stage.complaints.clear()
