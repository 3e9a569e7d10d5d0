"""A first tier that hangs, refuses, breaks or asks for a pause: the next one answers, and the record says why."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
from tests.auto.flow.routed import use_router
from tests.auto.flow.test_flow_routing import LARGE, SMALL, classify, piece, sealed, told, whole
from tests.gateway.flow_stage import LoopClock, Stage, ask, story

from stoker.domain.decision import Decision
from stoker.domain.routing import BreakerLimits, RouterSettings, Unmeasured
from stoker.domain.tier import Cost, Tier, Verify
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.testing.client import RawReply

MODES = (Verify.OFF, Verify.HOLD_TOOLS)
"""A reply that passes through, and one that is read."""


class Clock:
    """Real time, and as much more as the test adds."""

    def __init__(self) -> None:
        self.added = 0.0

    def now(self) -> float:
        return LoopClock().now() + self.added


def route(stage: Stage, verify: Verify = Verify.OFF, now: Any = None, first: float | None = None) -> TierRouter:
    """Two tiers; `first`: the first tier's first_byte_timeout."""
    tiers = (
        Tier("cheap", "small", verify=verify, first_byte_timeout=first),
        Tier("dear", "large", cloud=True, cost=Cost(1.0, 2.0), verify=verify),
    )
    router = RouterSettings(
        tiers, unmeasured=Unmeasured.CHEAPEST, breaker=BreakerLimits(failures=2, window=30.0, cool_down=60.0)
    )
    sees = stage.conductor.residency
    made = TierRouter(router, stage.serves, TierQuality({}), sees, now or LoopClock().now, classify)
    use_router(stage, made)
    return made


async def outcomes(stage: Stage) -> tuple[Decision, list[tuple[str, str]]]:
    decision = await sealed(stage)
    assert decision.routed is not None
    return decision, [(one.tier, one.outcome) for one in decision.routed.attempts]


async def refused(stage: Stage, status: str, *headers: str, stream: bool = False) -> RawReply | None:
    """The first tier answers so, and the second one well. None: the reply is streamed, and was read."""
    client = await stage.client()
    await client.send(ask(model="auto", stream=stream))
    talk = await stage.asked()
    assert talk.json()["model"] == "small-1"
    talk.reply({"error": {"message": "no", "type": "t", "code": "c"}}, status, *headers)
    talk = await stage.asked()
    assert talk.json()["model"] == "large-1"
    if stream:
        talk.begin()
        talk.say("from the second")
        talk.end()
        assert any("from the second" in event.data for event in await told(client))
        return None
    talk.reply(whole("from the second"))
    reply = await client.reply()
    assert (reply.status, reply.header("x-stoker-tier")) == (200, "dear")
    return reply


@pytest.mark.parametrize("verify", MODES)
@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 413, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_that_another_tier_may_not_have_goes_on_to_it(status: int, verify: Verify) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage, verify)
        for stream in (False, True):
            await refused(stage, f"{status} No", stream=stream)
            decision, tried = await outcomes(stage)
            assert decision.outcome == "served"
            assert [tier for tier, _ in tried] == ["cheap", "dear"]
            assert tried[0][1] not in ("served", "left", "")
            use_router(stage, None)
            route(stage, verify)

    tell()


@pytest.mark.parametrize("verify", MODES)
@pytest.mark.parametrize("status", [400, 415, 422])
def test_what_would_fail_anywhere_is_told_at_once_as_what_it_is(status: int, verify: Verify) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        router = route(stage, verify)
        client = await stage.client()
        await client.send(ask(model="auto"))
        (await stage.asked()).reply({"error": {"message": "bad temperature"}}, f"{status} No")
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["message"]) == (status, "bad temperature")
        decision, tried = await outcomes(stage)
        assert (decision.outcome, decision.reason, tried) == (
            "refused", "upstream_refused", [("cheap", "upstream_refused")],
        )  # fmt: skip
        assert decision.routed is not None
        assert decision.routed.tier == "", "nobody answered"
        assert router.health.state("cheap") == "closed"

    tell()


@pytest.mark.parametrize("verify", MODES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "error",
    [{"message": "boom", "type": "server_error"}, {"message": "x", "code": 503}, {"message": "x", "code": 429}, "boom"],
    ids=["type", "503", "429", "text"],
)
def test_an_error_in_a_reply_with_status_200_goes_on_to_the_next_tier(
    error: object, stream: bool, verify: Verify
) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage, verify)
        client = await stage.client()
        await client.send(ask(model="auto", stream=stream))
        talk = await stage.asked()
        if stream:
            talk.begin()
            talk.chunk(piece(role="assistant"))
            talk.chunk(b"data: %b\n\n" % json.dumps({"error": error}).encode())
        else:
            talk.reply({"error": error})
        talk = await stage.asked()
        assert talk.json()["model"] == "large-1"
        if stream:
            talk.begin()
            talk.say("fine")
            talk.end()
            assert not any("boom" in event.data for event in await told(client))
        else:
            talk.reply(whole("fine"))
            assert (await client.reply()).status == 200
        decision, tried = await outcomes(stage)
        assert (decision.outcome, [tier for tier, _ in tried]) == ("served", ["cheap", "dear"])

    tell()


@story(SMALL)
async def test_an_error_with_status_200_from_the_only_one_is_a_502_in_its_words_and_is_not_called_served(
    stage: Stage,
) -> None:
    client = await stage.client()
    await client.send(ask(model="small"))
    (await stage.asked()).reply({"error": {"message": "boom", "type": "server_error"}})
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["message"]) == (502, "boom")
    decision = await sealed(stage)
    assert (decision.outcome, decision.reason) == ("upstream_failed", "upstream_unusable")


@story(SMALL)
async def test_an_answer_in_a_coding_that_is_not_read_is_unusable(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="small"))
    (await stage.asked()).reply(b"compressed", "200 OK", "content-encoding: br")
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (502, "upstream_unusable")


@pytest.mark.parametrize("how", ["close", "reset", "role only"])
def test_a_connection_that_breaks_before_the_first_byte_goes_on_to_the_next_tier(how: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage)
        client = await stage.client()
        await client.send(ask(model="auto", stream=True))
        talk = await stage.asked()
        if how == "role only":
            talk.begin()
            talk.chunk(piece(role="assistant"))
        if how == "reset":
            talk.transport.abort()
        else:
            talk.close()
        talk = await stage.asked()
        assert talk.json()["model"] == "large-1"
        talk.begin()
        talk.say("fine")
        talk.end()
        await told(client)
        assert (await outcomes(stage))[1] == [("cheap", "upstream_broke"), ("dear", "served")]

    tell()


# -- Retry-After ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_tier_that_asks_for_a_pause_is_skipped_until_it_is_over(status: str, form: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        clock = Clock()
        router = route(stage, now=clock.now)
        date = f"date: {formatdate(1_800_000_000, usegmt=True)}"
        until = "40" if form == "seconds" else formatdate(1_800_000_040, usegmt=True)
        await refused(stage, status, f"retry-after: {until}", date)
        await sealed(stage)
        assert router.health.state("cheap") == "rate-limited"
        (shown, _) = router.status()["tiers"]
        assert (shown["circuit"], 35 < shown["retry_in"] <= 40) == ("rate-limited", True)
        client = await stage.client()
        await client.send(ask(model="auto"))
        talk = await stage.asked()
        assert talk.json()["model"] == "large-1", "the first one is not asked"
        talk.reply(whole())
        await client.reply()
        decision, tried = await outcomes(stage)
        assert tried == [("dear", "served")]
        assert decision.candidates[0].dropped == "rate_limited"
        assert decision.routed is not None
        assert any("it asked for a pause" in why for why in decision.routed.why)
        clock.added = 41
        assert router.health.state("cheap") == "closed"
        await client.send(ask(model="auto"))
        talk = await stage.asked()
        assert talk.json()["model"] == "small-1"
        talk.reply(whole())
        await client.reply()
        stage.decisions.clear()

    tell()


@pytest.mark.parametrize("verify", MODES)
def test_where_every_tier_asked_for_a_pause_the_client_is_told_when_the_first_of_them_ends(verify: Verify) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage, verify)
        client = await stage.client()
        await client.send(ask(model="auto"))
        for pause in (20, 50):
            talk = await stage.asked()
            talk.reply({"error": {"message": "slow down"}}, "429 Too Many Requests", f"retry-after: {pause}")
        reply = await client.reply()
        assert reply.status == 429
        assert int(reply.header("retry-after") or "0") == (20 if verify is Verify.HOLD_TOOLS else 50)
        decision, tried = await outcomes(stage)
        assert (decision.outcome, decision.reason) == ("refused", "upstream_busy")
        assert tried == [("cheap", "upstream_busy"), ("dear", "upstream_busy")]
        await client.send(ask(model="auto"))
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (429, "rate_limited"), "nobody is asked"
        assert 15 <= int(reply.header("retry-after") or "0") <= 20
        assert (await sealed(stage)).outcome == "refused"

    tell()


# -- the first byte ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", [*MODES, Verify.HOLD_ALL])
@pytest.mark.parametrize("says", ["nothing", "a head", "a role", "pings"])
def test_a_tier_from_which_nothing_comes_in_time_is_left_and_the_next_one_answers(says: str, verify: Verify) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        router = route(stage, verify, first=0.05)
        client = await stage.client()
        await client.send(ask(model="auto", stream=True))
        hung = await stage.asked()
        if says != "nothing":
            hung.begin()
        if says == "a role":
            hung.chunk(piece(role="assistant"))
        if says == "pings":
            hung.chunk(b": ping\n\n")
        talk = await stage.asked()
        assert talk.json()["model"] == "large-1"
        talk.begin()
        talk.say("fine")
        talk.end()
        await told(client)
        await stage.until(hung.gone.is_set, "the first one is let go")
        decision, tried = await outcomes(stage)
        assert tried == [("cheap", "first_byte_timeout"), ("dear", "served")]
        assert (decision.outcome, decision.candidates[0].dropped) == ("served", "first_byte_timeout")
        assert router.health.state("cheap") == "open", "the next request does not wait as long"

    tell()


@story(SMALL, LARGE)
async def test_an_answer_in_one_piece_is_not_waited_for_longer_than_the_tier_says(stage: Stage) -> None:
    route(stage, first=0.05)
    client = await stage.client()
    await client.send(ask(model="auto"))
    await stage.asked()
    (await stage.asked()).reply(whole())
    assert (await client.reply()).header("x-stoker-tier") == "dear"
    assert (await outcomes(stage))[1][0] == ("cheap", "first_byte_timeout")


@pytest.mark.parametrize("verify", [*MODES, Verify.HOLD_ALL])
def test_once_anything_of_an_answer_came_the_tier_has_its_time(verify: Verify) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage, verify, first=0.05)
        client = await stage.client()
        await client.send(ask(model="auto", stream=True))
        talk = await stage.asked()
        talk.begin()
        talk.say("slowly")
        await asyncio.sleep(0.1)
        talk.end()
        await told(client)
        assert (await outcomes(stage))[1] == [("cheap", "served")]

    tell()


@story(SMALL, LARGE)
async def test_the_last_tier_has_the_time_of_its_serve(stage: Stage) -> None:
    router = route(stage, first=0.05)
    tiers = tuple(tier for tier in router.settings.tiers if tier.name == "cheap")
    router.configure(RouterSettings(tiers, unmeasured=Unmeasured.CHEAPEST), stage.serves)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True))
    talk = await stage.asked()
    await asyncio.sleep(0.1)
    talk.begin()
    talk.say("at last")
    talk.end()
    await told(client)
    assert (await outcomes(stage))[1] == [("cheap", "served")]


@story(SMALL, LARGE)
async def test_an_engine_that_is_known_to_work_on_the_prompt_is_waited_for(stage: Stage) -> None:
    route(stage, first=0.02)
    stage.is_working = True
    client = await stage.client()
    await client.send(ask(model="auto", stream=True))
    talk = await stage.asked()
    await stage.until(lambda: len(stage.looks) > 2, "it is asked again and again")
    talk.begin()
    talk.say("read at last")
    talk.end()
    await told(client)
    assert (await outcomes(stage))[1] == [("cheap", "served")]
    assert set(stage.looks) == {"small"}


@story(SMALL, LARGE, stall_timeout=0.1)
async def test_an_engine_that_works_and_says_nothing_is_waited_for_no_longer_than_the_stall_timeout(
    stage: Stage,
) -> None:
    route(stage, first=0.03)
    stage.is_working = True
    client = await stage.client()
    await client.send(ask(model="auto"))
    await stage.asked()
    (await stage.asked()).reply(whole())
    assert (await client.reply()).header("x-stoker-tier") == "dear"
    assert (await outcomes(stage))[1][0] == ("cheap", "first_byte_timeout")


@story(SMALL, LARGE, commit_after=0.02)
async def test_a_200_with_pings_is_nothing_of_an_answer_and_the_next_tier_is_tried_all_the_same(stage: Stage) -> None:
    route(stage, first=0.1)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True))
    await stage.asked()
    head = await client.head()
    assert head.status == 200
    talk = await stage.asked()
    assert talk.json()["model"] == "large-1"
    talk.begin()
    talk.say("fine")
    talk.end()
    events = [event.data async for event in client.events(head)]
    assert any("fine" in data for data in events)
    assert not any("error" in data for data in events)
    assert (await outcomes(stage))[1] == [("cheap", "first_byte_timeout"), ("dear", "served")]


@story(SMALL, LARGE, commit_after=0.02)
async def test_a_wrong_request_is_wrong_for_every_tier_also_after_a_200_with_pings(stage: Stage) -> None:
    router = route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True))
    talk = await stage.asked()
    head = await client.head()
    talk.reply({"error": {"message": "bad temperature"}}, "400 Bad")
    events = [event.data async for event in client.events(head)]
    assert any("error" in data for data in events)
    assert (await outcomes(stage))[1] == [("cheap", "upstream_refused")]
    assert router.health.state("cheap") == "closed"


@story(SMALL, LARGE)
async def test_a_client_that_leaves_while_an_engine_is_looked_at_leaves_nothing_behind(stage: Stage) -> None:
    route(stage, first=0.02)
    stage.is_working = True
    client = await stage.client()
    await client.send(ask(model="auto", stream=True))
    await stage.asked()
    await stage.until(lambda: stage.looks, "a look")
    await client.close()
    decision = await stage.sealed()
    assert decision.outcome == "client_left"


# -- what the record says ------------------------------------------------------------------------------------------


@story(SMALL)
async def test_a_stream_that_fails_after_its_first_bytes_is_not_called_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="small", stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.say("half")
    head = await client.head()
    talk.chunk(b'data: {"error": {"message": "x", "type": "overloaded_error"}}\n\n')
    assert [event async for event in client.events(head)]
    assert (await sealed(stage)).outcome == "upstream_failed"


@story(SMALL, replace(LARGE, served_name="auto"))
async def test_a_tier_that_passes_through_does_not_carry_the_translation_of_the_first_one(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto"))
    talk = await stage.asked()
    assert talk.json()["model"] == "small-1"
    talk.reply({"error": {"message": "no"}}, "503 No")
    talk = await stage.asked()
    assert talk.json()["model"] == "auto"
    talk.reply(whole("from the second"))
    reply = await client.reply()
    assert (reply.header("x-stoker-tier"), reply.header("x-stoker-translation")) == ("dear", None)
    assert (await sealed(stage)).translation == ""
