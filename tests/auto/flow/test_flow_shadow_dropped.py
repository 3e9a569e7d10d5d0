"""What was drawn and is not graded: each with its reason, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.auto.flow.test_flow_routing import whole
from tests.auto.flow.test_flow_shadow import CHAT, LARGE, SMALL, house, served, verdict
from tests.gateway.flow_stage import PATIENCE, Stage, Talk, a_serve, ask, story

from stoker.domain.routing import RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver
from stoker.domain.tier import ProfileRow, Verdict, Verify
from stoker_lab.judging import Judging


@pytest.mark.parametrize(
    ("reason", "fields", "answer"),
    [
        ("too_long", {"messages": [{"role": "user", "content": "x" * 33_000}]}, whole()),
        ("too_long", {"messages": [{"role": "user", "content": "x" * 300_000}]}, whole()),
        ("too_long", {}, whole("y" * 33_000)),
        ("cut_short", {}, {**whole(), "choices": [{**whole()["choices"][0], "finish_reason": "length"}]}),
        (
            "not_text",
            {"messages": [{"role": "user", "content": [
                {"type": "text", "text": "what is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ]}]},
            whole(),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_graded_is_counted_and_nobody_is_asked(
    reason: str, fields: dict[str, Any], answer: object
) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage, Verify.OFF) as it:
            await it.load()
            client = await stage.client()
            await client.send(ask(model="auto:chat", **fields))
            (await stage.asked()).reply(answer)
            assert (await client.reply()).status == 200
            await it.dropped(reason)
            assert it.counts.graded == {}

    tell()


@story(SMALL, LARGE)
async def test_a_tier_that_nobody_has_looked_at_is_not_graded(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.tier_quality.on_stopped("small")
        await served(stage)
        await it.dropped("tier_unknown")


@pytest.mark.parametrize("router", [{"allow_cloud": False}, {"cloud_classes": ()}])
def test_what_may_not_go_to_a_cloud_is_not_shown_to_a_judge_in_one(router: dict[str, Any]) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage, router=router) as it:
            await it.load()
            await served(stage)
            await it.dropped("not_permitted")

    tell()


@story(SMALL, LARGE)
async def test_a_full_queue_drops_and_no_request_waits_for_it(stage: Stage) -> None:
    async with house(stage, queue=1) as it:
        await it.load()
        await served(stage)
        first = await it.judged()
        for _ in range(3):
            await served(stage)
        assert it.counts.ungraded == {"queue_full": 2}
        first.reply(verdict("pass"))
        await it.grade("fail")
        await it.graded(2)
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_where_the_judge_has_no_free_place_the_live_traffic_goes_first(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        lease = stage.conductor.acquire("large")
        assert not isinstance(lease, asyncio.Future)
        await served(stage)
        await it.dropped("judge_busy")
        lease.release()


@story(SMALL, LARGE)
async def test_nothing_is_loaded_for_a_grade(stage: Stage) -> None:
    async with house(stage) as it:
        await served(stage)
        await it.dropped("judge_not_loaded")
        assert not it.router.is_loaded(it.router.settings.tiers[1])


Fails = Callable[[Talk], None]


@pytest.mark.parametrize(
    ("reason", "fails"),
    [
        ("judge_failed", lambda talk: talk.reply({}, "500 Internal Server Error")),
        ("judge_failed", lambda talk: talk.close()),
        ("judge_failed", lambda talk: talk.reply(b"no JSON")),
        ("judge_busy", lambda talk: talk.reply({}, "429 Too Many Requests")),
        ("judge_unclear", lambda talk: talk.reply(whole("I like it"))),
        ("unsure", lambda talk: talk.reply(verdict("unsure"))),
    ],
)
def test_a_judge_that_fails_or_says_no_grade_gives_no_sample(reason: str, fails: Fails) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage) as it:
            await it.load()
            await served(stage)
            fails(await it.judged())
            await it.dropped(reason)
            assert (it.tier_quality.grades, it.counts.graded) == ({}, {})

    tell()


@story(SMALL, LARGE)
async def test_a_judge_that_refuses_the_settings_is_asked_without_them_from_then_on(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        talk = await it.judged()
        assert talk.json()["temperature"] == 0
        talk.reply({"error": {"message": "no temperature"}}, "400 Bad Request")
        talk = await it.judged()
        assert "temperature" not in talk.json()
        talk.reply(verdict("pass"))
        await it.graded()
        await served(stage)
        talk = await it.judged()
        assert "temperature" not in talk.json()
        talk.reply({}, "400 Bad Request")
        await it.dropped("judge_failed")
        assert it.router.health.state("dear") == "closed"
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_a_judge_that_takes_too_long_is_given_up_and_paid_for_as_far_as_can_be_told(stage: Stage) -> None:
    async with house(stage, timeout=0.02) as it:
        await it.load()
        await served(stage)
        talk = await it.judged()
        await it.dropped("judge_timeout")
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert it.shadow.spent.amount > 0


@story(SMALL, LARGE)
async def test_a_judge_that_fails_too_often_is_left_alone_and_serves_as_a_tier_all_the_same(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        for number in (1, 2):
            await served(stage)
            (await it.judged()).reply({}, "500 Internal Server Error")
            await it.dropped("judge_failed", number)
        await served(stage)
        await it.dropped("judge_resting")
        assert it.router.health.state("dear") == "closed"
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_whoever_wants_the_judges_only_place_gets_it_at_once(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        talk = await it.judged()
        client = await stage.client()
        await client.send(ask(model="large"))
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        (await stage.asked()).reply(whole())
        assert (await client.reply()).status == 200
        await it.dropped("judge_busy")
        assert it.router.health.state("dear") == "closed"


@story(SMALL, LARGE)
async def test_a_drain_of_the_judge_ends_the_grading_and_is_no_fault_of_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        talk = await it.judged()
        stage.conductor.restart("large", "the story")
        await it.dropped("judge_busy")
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert it.router.health.state("dear") == "closed"


@story(SMALL, a_serve("large", served_name="large-1", dialects=CHAT, driver=Driver.EXTERNAL))
async def test_a_judge_that_runs_elsewhere_is_looked_at_first_where_nobody_used_it_yet(stage: Stage) -> None:
    async with house(stage) as it:
        stage.fleet.gates["large"] = asyncio.Event()
        await served(stage)
        await stage.until(lambda: "start large" in stage.fleet.journal, "it is looked at")
        stage.fleet.gates["large"].set()
        await it.grade("pass")
        await it.graded()


@story(SMALL, a_serve("large", served_name="large-1", dialects=CHAT, driver=Driver.EXTERNAL))
async def test_the_end_while_the_judge_is_looked_at_leaves_nobody_waiting(stage: Stage) -> None:
    async with house(stage, timeout=0.02) as it:
        stage.fleet.gates["large"] = asyncio.Event()
        await served(stage)
        await it.dropped("judge_timeout")
        assert stage.left()["seated"] == 0
        await served(stage)
        await stage.until(lambda: stage.left()["seated"] == 1, "it waits")
        await it.shadow.close()
        stage.fleet.gates["large"].set()
        stage.decisions.clear()


@story(SMALL, a_serve("large", served_name="large-1", dialects=CHAT, context=700))
async def test_what_is_longer_than_the_judges_context_is_not_sent_to_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        await it.dropped("too_long")


@pytest.mark.parametrize("reason", ["tier_unknown", "not_permitted"])
def test_a_reload_counts_for_what_waits_already(reason: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage) as it:
            await it.load()
            await served(stage)
            first = await it.judged()
            await served(stage)
            settings = it.router.settings
            tiers = settings.tiers[1:] if reason == "tier_unknown" else settings.tiers
            fresh = RouterSettings(tiers, shadow=settings.shadow, allow_cloud=reason == "tier_unknown")
            it.router.configure(fresh, stage.serves)
            it.begin()
            first.reply(verdict("pass"))
            await it.dropped(reason)
            stage.decisions.clear()

    tell()


@story(SMALL, LARGE)
async def test_a_cloud_is_graded_by_the_name_of_its_model_and_another_model_begins_anew(stage: Stage) -> None:
    async with house(stage, judge="cheap") as it:
        it.tier_quality.on_measured({("cheap", "chat"): ProfileRow("cheap", "chat", "i", "e", 3, 0, Verdict.DENY)})
        await stage.conductor.switch("small")
        client = await stage.client()
        await client.send(ask(model="auto:chat"))
        (await it.judged()).reply(whole())
        await client.reply()
        talk = await stage.asked()
        assert talk.json()["model"] == "small-1"
        talk.reply(verdict("fail"))
        await it.graded()
        stage.decisions.clear()
        graded, dear = it.tier_quality.grades["dear", "chat"], it.router.settings.tiers[1]
        assert (graded.identity, graded.judge_identity) == ("large-1", "i")
        it.tier_quality.on_judging(Judging("cheap", "small", {"chat": Fingerprint("i", "e")}))
        it.tier_quality.on_graded(structs.replace(graded, n=20, verdict=Verdict.DENY))
        assert it.router.standing(dear, "chat").why == "denied: live answers: 0 of 20 passed"
        it.router.configure(it.router.settings, [SMALL, replace(LARGE, served_name="large-2")])
        assert it.router.standing(dear, "chat").why == "trusted, not measured"
