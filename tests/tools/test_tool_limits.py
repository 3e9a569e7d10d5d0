"""What limits calls of a tool: how many there are in a minute, and what they cost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, a_serve, story
from tests.tools.test_hostile_mcp import hostile
from tests.tools.test_mcp_approval import approved, request_of
from tests.tools.test_mcp_rounds import ask, using
from tests.tools.tool_stage import (
    SEARCH,
    Web,
    called,
    fetcher_for,
    http,
    messages,
    search_for,
    searxng,
    use,
    web,
    worded,
)

from stoker.domain.dialect import Dialect
from stoker.domain.key import Key, UsageLimits
from stoker.domain.serve import Secret
from stoker.domain.server_tools import ServerToolKind
from stoker.gateway.explain.facts import facts
from stoker_lab.testing.client import compose_request
from stoker_tools.running import ToolRunner
from stoker_tools.search import SearchQuery
from stoker_tools.server import families

CHAT_ONLY = a_serve(dialects=frozenset((Dialect.CHAT,)))
HEADERS = (("authorization", "Bearer s-0"),)


def a_key(**limits: float) -> Key:
    return Key("k0", Secret("s-0", "env:S0"), tools=("web", "desk"), limits=UsageLimits(**limits))


def errors_of(answer: dict[str, Any]) -> list[str]:
    """Of the searches, in order; empty: it worked."""
    results = [block["content"] for block in answer["content"] if block["type"] == "web_search_tool_result"]
    return ["" if isinstance(one, list) else one["error_code"] for one in results]


# -- calls in a minute -------------------------------------------------------------------------------------------------


def test_a_tool_is_called_so_often_in_any_minute() -> None:
    async def played() -> None:
        times = iter((0.0, 0.0, 30.0, 30.0, 59.0, 60.0, 60.0, 61.0, 90.0, 90.0))  # a refused call asks once
        async with web() as site:
            tool = searxng(site, per_minute=2)
            runner = ToolRunner(lambda: next(times), fetcher_for())
            errors = []
            for _ in range(6):
                result = await runner.run(tool, SearchQuery("tower", 8))
                errors.append(result.error)
                assert ("per_minute" in result.why) is bool(result.error)
            assert errors == ["", "", "too_many_requests", "", "too_many_requests", ""]
            assert len(site.asked) == 4

    asyncio.run(played())


@pytest.mark.holds("W")
@story(CHAT_ONLY)
async def test_the_model_is_told_that_there_were_too_many(stage: Stage) -> None:
    async with web() as site:
        use(stage, searxng(site, per_minute=1))
        client = await stage.client()
        await client.send(messages(SEARCH))
        (await stage.asked()).reply(called(search_for("one"), search_for("two")))
        talk = await stage.asked()
        assert talk.json()["messages"][-1]["content"].startswith("Error too_many_requests: too many requests")
        talk.reply(worded("done"))
        assert sorted(errors_of((await client.reply()).json())) == ["", "too_many_requests"]


# -- money -------------------------------------------------------------------------------------------------------------


def money(stage: Stage) -> tuple[float, float]:
    """What the key's limit has counted, and usage."""
    (entry,) = stage.door.keyring.entries().values()
    (state,) = entry.caller.limits()
    return state.used, sum(row[1][6] for row in stage.usage.pending())


def failing(site: Web) -> None:
    site.answer = lambda path: http(b"no", status="500 No")


@pytest.mark.holds("W")
def test_answered_calls_cost_money_of_the_key_until_it_has_none() -> None:
    @story(CHAT_ONLY, keys=(a_key(cost_per_day=0.25),))
    async def played(stage: Stage) -> None:
        async with web() as site:
            planner = use(stage, searxng(site, cost=0.1))
            searches = [called(search_for(f"q{at}")) for at in range(3)]
            answer = await ask(stage, messages(SEARCH, headers=HEADERS), *searches, worded("done"))
            assert errors_of(answer) == ["", "", "max_uses_exceeded"]
            assert len(site.asked) == 2
            assert money(stage) == pytest.approx((0.2, 0.2))
            (decision,) = stage.decisions
            assert [(one.calls, one.failed, one.cost) for one in decision.tools] == [(3, 1, 0.2)]
            assert any("cost 0.2" in fact.words for fact in facts(decision))
            (*_, costs) = families({"web": planner.runner.counts["web"]})
            assert (costs.name, costs.samples[0].value) == ("stoker_tool_cost", pytest.approx(0.2))
            stage.decisions.clear()

    played()


def test_a_call_that_is_not_answered_costs_nothing() -> None:
    @story(CHAT_ONLY, keys=(a_key(cost_per_day=1.0),))
    async def played(stage: Stage) -> None:
        async with web() as site:
            use(stage, searxng(site, cost=0.1))
            failing(site)
            answer = await ask(stage, messages(SEARCH, headers=HEADERS), called(search_for()), worded("done"))
            assert errors_of(answer) == ["unavailable"]
            assert money(stage) == (0.0, 0.0)
            stage.decisions.clear()
            stage.complaints.clear()

    played()


def test_an_approved_call_is_paid_once() -> None:
    @story(CHAT_ONLY, keys=(a_key(cost_per_day=0.15),))
    async def played(stage: Stage) -> None:
        async with using(stage, hostile("ok", cost=0.1)) as servers:
            items = await approved(stage, key="s-0")
            for _ in range(2):
                await ask(stage, request_of(items, key="s-0"), worded("done"))
            assert money(stage) == pytest.approx((0.1, 0.1))
            told = [fact.words for fact in facts(stage.decisions[1]) if fact.name == "tools"]
            assert told == ["the client had approved these calls"]
            items = await approved(stage, json.dumps({"n": 2}), key="s-0")
            answer = await ask(stage, request_of(items, key="s-0"), worded("done"))
            (call,) = [item for item in answer["output"] if item["type"] == "mcp_call"]
            assert call["error"]["message"] == "max_uses_exceeded"
            assert servers.calls == 1
            stage.decisions.clear()

    played()


@pytest.mark.parametrize("is_late", [False, True])
def test_an_approved_call_sent_again_costs_nothing_though_no_money_is_left(is_late: bool) -> None:
    """Both after it has run, and while it runs."""

    @story(CHAT_ONLY, keys=(a_key(cost_per_day=0.15),))
    async def played(stage: Stage) -> None:
        way = "hang" if is_late else "ok"
        async with using(stage, hostile(way, cost=0.1, timeout=0.5)) as servers:
            items = await approved(stage, key="s-0")
            clients = [await stage.client() for _ in range(2)]
            for client in clients:
                await client.send(request_of(items, key="s-0"))
                if not is_late:
                    (await stage.asked()).reply(worded("done"))
            for client in clients:
                if is_late:
                    (await stage.asked()).reply(worded("done"))
                (call,) = [item for item in (await client.reply()).json()["output"] if item["type"] == "mcp_call"]
                assert (call["error"] or {}).get("message") == ("unavailable" if is_late else None)
            assert servers.calls == 1
            assert money(stage) == pytest.approx((0.1, 0.1))
            stage.decisions.clear()
            stage.complaints.clear()

    played()


def test_approved_calls_that_ran_are_in_the_decision_though_the_client_left_before_the_model_was_asked() -> None:
    @story(CHAT_ONLY, keys=(a_key(cost_per_day=1.0),))
    async def played(stage: Stage) -> None:
        async with using(stage, hostile("some", cost=0.1)) as servers:
            items = await approved(stage, '{"n":0}', '{"n":1}', key="s-0")
            await stage.sealed()
            client = await stage.client()
            await client.send(request_of(items, key="s-0"))
            counts = stage.flow.settings.tool_planner.runner.counts_of(hostile("some"))
            await stage.until(lambda: servers.calls == 2 and counts.calls == 1)
            client.abort()
            await stage.until(lambda: len(stage.decisions) == 2)
            decision = stage.decisions[-1]
            assert decision.outcome == "client_left"
            (record,) = decision.tools
            assert (record.calls, record.failed, record.cost) == (2, 1, 0.2)  # of one nobody knows
            assert money(stage) == pytest.approx((0.2, 0.2))
            assert counts.cost == pytest.approx(0.2)
            stage.decisions.clear()

    played()


def test_who_leaves_during_a_call_has_paid_it() -> None:
    @story(CHAT_ONLY, keys=(a_key(cost_per_day=0.25),))
    async def played(stage: Stage) -> None:
        async with web() as site:
            planner = use(stage, searxng(site, cost=0.1))
            counts = planner.runner.counts
            site.answer = lambda path: None
            for many in (1, 2):
                client = await stage.client()
                await client.send(compose_request("POST", "/api/web_search", {"query": f"q{many}"}, HEADERS))
                await stage.until(lambda: len(site.asked) == many)  # noqa: B023
                client.abort()
                await stage.until(lambda: not counts["web"].active)
            client = await stage.client()
            await client.send(compose_request("POST", "/api/web_search", {"query": "q3"}, HEADERS))
            assert (await client.reply()).status == 429
            assert len(site.asked) == 2
            assert money(stage)[0] == pytest.approx(0.2)
            assert (counts["web"].calls, counts["web"].cost) == (2, pytest.approx(0.2))
            (entry,) = stage.door.keyring.entries().values()
            told: list[float] = []  # what usage hears
            left = asyncio.create_task(planner.run_tool(entry.caller, None, ServerToolKind.SEARCH, "q", 1, told.append))
            await stage.until(lambda: len(site.asked) == 3)
            left.cancel()
            await asyncio.wait([left])
            assert told == [0.1]

    played()


def test_a_client_that_searches_without_a_model_pays_too() -> None:
    @story(CHAT_ONLY, keys=(a_key(cost_per_day=0.15),))
    async def played(stage: Stage) -> None:
        async with web() as site:
            use(stage, searxng(site, cost=0.1))
            for status in (200, 429):
                client = await stage.client()
                await client.send(compose_request("POST", "/api/web_search", {"query": "tower"}, HEADERS))
                reply = await client.reply()
                assert reply.status == status
            assert "cost_per_day" in reply.json()["error"]
            assert len(site.asked) == 1
            assert money(stage)[0] == pytest.approx(0.1)

    played()
