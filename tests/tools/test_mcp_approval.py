"""Calls of MCP servers that a client of Responses has approved: whose they are, and how often they run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from openai.types.responses import Response
from tests.gateway.flow_stage import Stage, a_serve, story
from tests.tools.test_hostile_mcp import hostile
from tests.tools.test_mcp_rounds import MCP, ask, using
from tests.tools.test_tool_rounds import events_of
from tests.tools.tool_stage import RESPONSES, called, event_of, stream, use, worded

from stoker.domain.dialect import Dialect
from stoker.domain.key import Key
from stoker.domain.serve import FallbackCause, Secret, Translation
from stoker_lab.testing.client import compose_request
from stoker_tools.planner import MOST_APPROVED
from stoker_tools.running import MOST_ONCE, MOST_ONCE_IN_ALL, CallResult

CHAT_ONLY = a_serve(dialects=frozenset((Dialect.CHAT,)))
CLOUD = a_serve(dialects=frozenset((Dialect.RESPONSES,)), translation=Translation(cloud=True), fallback="b")
LOCAL = a_serve("b", dialects=frozenset((Dialect.CHAT,)))
ASKING = {**MCP, "require_approval": "always"}
EMPTY = {"id": "r", "object": "response", "status": "completed", "output": [], "usage": {}}
Items = list[dict[str, Any]]


def request_of(items: Items, path: str = RESPONSES, model: str = "a", key: str = "", **fields: Any) -> bytes:
    headers = (("authorization", f"Bearer {key}"),) if key else ()
    return compose_request("POST", path, {"model": model, "input": items, "tools": [ASKING]} | fields, headers)


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


def own_pair(id: str = "request_1", **fields: str) -> Items:
    """A request for approval that the client has made itself, and its approval."""
    named = {"server_label": "desk", "name": "t", "arguments": "{}", **fields}
    return granted({"type": "mcp_approval_request", "id": id, **named})


@pytest.mark.holds("V")
def test_a_client_may_bring_its_own_request_and_approval_and_has_it_run_once() -> None:
    """It is whose it is by caller, id and call."""
    keys = [Key(f"k{at}", Secret(f"s-{at}", f"env:S{at}"), tools=("desk",)) for at in range(2)]

    @story(CHAT_ONLY, keys=tuple(keys))
    async def played(stage: Stage) -> None:
        async with using(stage, hostile("ok")) as servers:
            for given, key, ran in (
                (own_pair(), "s-0", 1),
                (own_pair(), "s-0", 1),
                (own_pair(), "s-1", 2),
                (own_pair("request_2"), "s-0", 3),
                (own_pair(arguments=' {"n": 1} '), "s-0", 4),
                (own_pair(arguments='{"n":1}'), "s-0", 4),
            ):
                answer = await ask(stage, request_of(given, key=key), worded("done"))
                listing, call, _ = answer["output"]
                assert (listing["type"], call["type"]) == ("mcp_list_tools", "mcp_call")
                assert call["approval_request_id"] == given[1]["id"]
                assert call["output"] == f"ok {json.dumps(json.loads(given[1]['arguments']))}"
                assert servers.calls == ran
            items = await approved(stage, key="s-0")  # what Stoker asked one caller for
            assert outcomes(await ask(stage, request_of(items, key="s-1"), worded("done"))) == ["ok {}"]
            assert outcomes(await ask(stage, request_of(items, key="s-0"), worded("done"))) == ["ok {}"]
            assert servers.calls == 6
            assert len(items[1]["id"]) <= 64
            stage.decisions.clear()

    played()


@pytest.mark.holds("V")
def test_an_approval_of_ones_own_gives_no_tool_that_the_request_may_not_use() -> None:
    keys = (Key("k0", Secret("s-0", "env:S0"), tools=("web",)), Key("k1", Secret("s-1", "env:S1"), tools=("desk",)))

    @story(CHAT_ONLY, keys=keys)
    async def played(stage: Stage) -> None:
        async with using(stage, hostile("ok")) as servers:
            answer = await ask(stage, request_of(own_pair(), key="s-0"))
            assert answer["error"]["code"] == "mcp_server_unknown"
            for pair, fields in (
                (own_pair(name="other"), {}),
                (own_pair(server_label="other"), {}),
                (own_pair(), {"tools": [{**ASKING, "allowed_tools": ["other"]}]}),
            ):
                client = await stage.client()
                await client.send(request_of(pair, key="s-1", **fields))
                talk = await stage.asked()
                told = [turn["content"] for turn in talk.json()["messages"] if turn["role"] == "tool"]
                assert told == ["Error unavailable: the tool is not available at the moment."]
                talk.reply(worded("no"))
                assert outcomes((await client.reply()).json()) == []
            broken = await ask(stage, request_of(own_pair(arguments="{"), key="s-1"), worded("no"))
            assert outcomes(broken) == ["invalid_tool_input"]
            assert servers.calls == 0
            stage.decisions.clear()

    played()


@story(CHAT_ONLY)
async def test_half_a_character_in_an_approval_breaks_nothing(stage: Stage) -> None:
    async with using(stage, hostile("ok")):
        halves = {"id": "\ud800", "server_label": "\ud800", "name": "\ud800", "arguments": '{"n": "\\ud800"}'}
        for field, half in halves.items():
            client = await stage.client()
            await client.send(request_of(own_pair(**{field: half})))
            answering = asyncio.create_task(stage.asked())
            reply = asyncio.create_task(client.reply())
            done, _ = await asyncio.wait([answering, reply], return_when=asyncio.FIRST_COMPLETED)
            if answering in done:
                answering.result().reply(worded("done"))
            assert (await reply).status < 500
            answering.cancel()
        stage.decisions.clear()


@story(CHAT_ONLY)
async def test_one_callers_approvals_do_not_push_out_anothers(stage: Stage) -> None:
    """Of each, the last ones are known."""
    async with using(stage, hostile("ok")) as servers:
        runner = stage.flow.settings.tool_planner.runner
        tool = hostile("ok")
        for caller, ids in (("a", ["first"]), ("b", map(str, range(MOST_ONCE + 5))), ("a", ["first"]), ("b", ["0"])):
            for id in ids:
                await runner.once(caller, [id], lambda: runner.call(tool, "t", {}))
        assert servers.calls == MOST_ONCE + 7


@story(CHAT_ONLY)
async def test_results_of_all_callers_are_bounded_and_who_has_most_loses_the_first(stage: Stage) -> None:
    runner = use(stage, hostile("ok")).runner
    ran: list[str] = []

    async def call(name: str) -> CallResult:
        ran.append(name)
        return CallResult([], "", 0.0, 0)

    full = MOST_ONCE_IN_ALL // MOST_ONCE
    for caller, many in (("few", 1), *((f"c{at}", MOST_ONCE) for at in range(full))):
        for at in range(many):
            await runner.once(caller, [str(at)], partial(call, f"{caller} {at}"))
    assert len(ran) == 1 + MOST_ONCE_IN_ALL
    for caller in ("few", *(f"c{at}" for at in range(full))):
        await runner.once(caller, [str(MOST_ONCE - 1) if caller != "few" else "0"], partial(call, "again"))
    assert "again" not in ran
    await runner.once("c0", ["0"], partial(call, "again"))
    assert ran[-1] == "again"


@story(CHAT_ONLY)
async def test_one_call_that_was_approved_under_two_ids_is_known_by_both(stage: Stage) -> None:
    async with using(stage, hostile("ok")) as servers:
        first, second = (own_pair(id)[1] for id in ("first", "second"))
        for given in (granted(first, second), granted(second), granted(second, first), granted(first)):
            answer = await ask(stage, request_of(given), worded("done"))
            assert set(outcomes(answer)) == {"ok {}"}
        assert servers.calls == 1
        stage.decisions.clear()


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_to_no_request_is_a_response_that_failed(is_streamed: bool) -> None:
    answer = {"type": "mcp_approval_response", "approval_request_id": "r1", "approve": True}
    said = "MCP approval request 'r1' not found"

    @story(CHAT_ONLY)
    async def played(stage: Stage) -> None:
        async with using(stage, hostile("ok")):
            client = await stage.client()
            await client.send(request_of([answer], stream=is_streamed))
            if is_streamed:
                events = [event.json() for event in await events_of(client)]
                assert [event["type"] for event in events] == [
                    "response.created", "response.in_progress", "error", "response.failed",
                ]  # fmt: skip
                found = events[-1]["response"]
            else:
                found = (await client.reply()).json()
            assert (found["status"], found["output"]) == ("failed", [])
            assert (found["error"]["code"], found["error"]["message"]) == ("server_error", said)
            decision = await stage.sealed()
            assert (decision.outcome, decision.reason, decision.status) == ("refused", "approval_not_found", 200)
            counted = await ask(stage, request_of([answer], "/v1/responses/input_tokens"))
            assert counted["error"]["code"] == "approval_not_found"
            assert stage.talks.empty()
            stage.decisions.clear()

    played()


@story(CHAT_ONLY)
async def test_a_response_that_failed_for_a_request_without_tools_is_one_by_the_official_types(stage: Stage) -> None:
    answer = {"type": "mcp_approval_response", "approval_request_id": "r1", "approve": True}
    async with using(stage, hostile("ok")):
        found = await ask(stage, request_of([answer], tools=None))
        assert (found["status"], found["tools"]) == ("failed", [])
        Response.model_validate(found)
        stage.decisions.clear()


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("fields", [{"temperature": "hot"}, {"include": "x"}])
def test_an_approved_call_does_not_run_for_a_request_that_is_refused(fields: dict[str, Any], is_streamed: bool) -> None:
    @story(CHAT_ONLY)
    async def played(stage: Stage) -> None:
        async with using(stage, hostile("ok")) as servers:
            answer = await asyncio.wait_for(ask(stage, request_of(own_pair(), stream=is_streamed, **fields)), 5)
            assert answer["error"]["type"] == "invalid_request_error"
            assert servers.calls == 0
            stage.decisions.clear()

    played()


@story(CHAT_ONLY)
async def test_one_request_approves_so_many_calls_and_arguments_that_are_too_long_are_not_said_again(
    stage: Stage,
) -> None:
    async with using(stage, hostile("ok")) as servers:
        many = [own_pair(f"r{at}")[1] for at in range(MOST_APPROVED + 1)]
        answer = await ask(stage, request_of(granted(*many)))
        assert answer["error"]["code"] == "too_many_approvals"
        assert str(MOST_APPROVED) in answer["error"]["message"]
        long = json.dumps({"a": "x" * 100_000})
        answer = await ask(stage, request_of(own_pair(arguments=long)), worded("no"))
        (call,) = [item for item in answer["output"] if item["type"] == "mcp_call"]
        assert (call["error"]["message"], call["arguments"]) == ("request_too_large", "{}")
        assert servers.calls == 0
        stage.decisions.clear()


@story(CLOUD, LOCAL)
async def test_an_answer_to_no_request_goes_to_the_cloud_that_may_have_asked(stage: Stage) -> None:
    """It remembers what the input does not hold."""
    async with using(stage, hostile("ok")):
        client = await stage.client()
        answer = {"type": "mcp_approval_response", "approval_request_id": "r1", "approve": True}
        await client.send(request_of([answer]))
        talk = await stage.asked()
        assert talk.json()["input"] == [answer]
        talk.reply(EMPTY)
        assert (await client.reply()).status == 200
        stage.decisions.clear()


# -- a stream ----------------------------------------------------------------------------------------------------------


def kinds_of(events: Items) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


CALL_BEGINS = ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
BEGINS = [
    "created", "in_progress", "output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed",
    "output_item.done", *CALL_BEGINS,
]  # fmt: skip


@pytest.mark.holds("V")
@story(CHAT_ONLY)
async def test_a_stream_begins_before_an_approved_call_runs_and_pings_go_on(stage: Stage) -> None:
    async with using(stage, hostile("hang", timeout=0.5)) as servers:
        client = await stage.client()
        await client.send(request_of(own_pair(), stream=True))
        head = await client.head()
        seen = [event async for event in _first(client.events(head), len(BEGINS) + 2)]
        assert kinds_of([event.json() for event in seen if event.data]) == BEGINS
        assert [event for event in seen if not event.data]  # pings
        assert servers.calls == 1
        assert stage.talks.empty()
        stream(await stage.asked(), worded("late"))
        rest = [event.json() async for event in client.events(head) if event.data]
        assert kinds_of(rest)[:2] == ["mcp_call.failed", "output_item.done"]
        numbers = [event.json()["sequence_number"] for event in seen if event.data]
        assert numbers + [event["sequence_number"] for event in rest] == list(range(len(numbers) + len(rest)))
        response = Response.model_validate(rest[-1]["response"])
        assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
        stage.decisions.clear()


async def _first(events: AsyncIterator[Any], many: int) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        many -= 1
        if not many:
            return


@story(CHAT_ONLY)
async def test_a_stream_that_an_approved_call_has_begun_goes_on_through_further_rounds(stage: Stage) -> None:
    async with using(stage, hostile("ok")) as servers:
        for approval, ending in (("never", ["mcp_call", "message"]), ("always", ["mcp_approval_request"])):
            client = await stage.client()
            tools = [{**ASKING, "require_approval": approval}]
            await client.send(request_of(own_pair(approval), stream=True, tools=tools))
            stream(await stage.asked(), called(("desk__t", '{"n": 1}'), text="One more."))
            if approval == "never":
                stream(await stage.asked(), worded("done"))
            events = [event.json() for event in await events_of(client)]
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            assert kinds_of(events)[: len(BEGINS)] == BEGINS
            response = Response.model_validate(events[-1]["response"])
            assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message", *ending]
            done = [event["output_index"] for event in events if event["type"] == "response.output_item.done"]
            assert sorted(done) == list(range(len(response.output)))
        assert servers.calls == 3
        stage.decisions.clear()


@story(CHAT_ONLY)
async def test_who_leaves_the_stream_ends_the_approved_call(stage: Stage) -> None:
    async with using(stage, hostile("hang", timeout=60.0)) as servers:
        client = await stage.client()
        await client.send(request_of(own_pair(), stream=True))
        await stage.until(lambda: servers.calls)
        client.abort()
        runner = stage.flow.settings.tool_planner.runner
        await stage.until(lambda: not runner.counts_of(hostile("hang")).active)
        assert (await stage.sealed()).outcome == "client_left"


@story(a_serve(dialects=frozenset((Dialect.CHAT,)), fallback="b", fallback_on=tuple(FallbackCause)), LOCAL)
async def test_the_fallback_goes_on_with_a_stream_that_an_approved_call_has_begun(stage: Stage) -> None:
    """What the first serve had begun to say is taken back; if nobody answers, the end has the next number."""
    async with using(stage, hostile("ok")) as servers:
        for answers in (True, False):
            client = await stage.client()
            await client.send(request_of(own_pair(str(answers)), stream=True))
            first = await stage.asked()
            first.begin()
            first.chunk(event_of({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
            first.close()
            second = await stage.asked()
            if answers:
                stream(second, worded("done"))
            else:
                second.reply({"error": {"message": "no"}}, "500 No")
            events = [event.json() for event in await events_of(client)]
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            assert kinds_of(events)[: len(BEGINS)] == BEGINS
            assert kinds_of(events)[-1] == ("completed" if answers else "failed")
            kinds = [item["type"] for item in events[-1]["response"]["output"]]
            assert kinds == ["mcp_list_tools", "mcp_call", *(["message"] if answers else [])]
        assert servers.calls == 2
        stage.decisions.clear()
        stage.complaints.clear()


# -- how often it runs -------------------------------------------------------------------------------------------------


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
