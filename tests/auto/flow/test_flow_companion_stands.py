"""Where a model that tells classes is not asked, or does not help, what the built-in classifier said stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.auto.flow.test_flow_companion import CLOUD, SMALL, TELLER, UNSURE, house, seen, sent
from tests.auto.flow.test_flow_routing import whole
from tests.gateway.flow_stage import PATIENCE, LoopClock, Stage, Talk, ask, story

from stoker.domain.run import Fingerprint
from stoker.domain.task import ClassSource, Task
from stoker_lab.testing.client import compose_request


@pytest.mark.parametrize(
    ("task", "below"),
    [
        (UNSURE._replace(sure=0.8), 0.8),
        (UNSURE._replace(sure=0.0), 0.0),
        (Task("json-extract", ClassSource.RULES, ("wants_json",)), 1.0),
        (Task("chat", ClassSource.DEFAULT), 1.0),
    ],
)
def test_nobody_is_asked_where_it_is_sure_or_the_text_did_not_decide(task: Task, below: float) -> None:
    @story(SMALL, TELLER)
    async def tell(stage: Stage) -> None:
        async with house(stage, task, below) as it:
            await it.load()
            await sent(stage)
            assert seen(await it.served()) == (task.name, task.source.value, list(task.notes))
            assert it.counts == {}

    tell()


@story(SMALL, TELLER)
async def test_nobody_is_asked_for_a_class_that_the_caller_declared(stage: Stage) -> None:
    async with house(stage, below=1.0) as it:
        await it.load()
        await sent(stage, "auto:creative")
        assert (await it.served()).source == "declared"
        assert it.counts == {}


@story(SMALL, TELLER)
async def test_with_below_1_it_is_asked_however_sure_the_built_in_one_is(stage: Stage) -> None:
    async with house(stage, UNSURE._replace(sure=1.0), below=1.0) as it:
        await it.load()
        await sent(stage)
        await it.say('{"class": "chat"}')
        assert (await it.served()).source == "model"


@story(SMALL, TELLER)
async def test_counting_tokens_asks_nobody_for_a_class(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        document = {"model": "auto", "messages": [{"role": "user", "content": "hi"}]}
        await client.send(compose_request("POST", "/v1/messages/count_tokens", document))
        (await stage.asked()).reply({"input_tokens": 12})
        assert (await client.reply()).json() == {"input_tokens": 12}
        assert it.counts == {}


@story(SMALL, TELLER)
async def test_a_model_that_takes_too_long_is_left_alone_and_the_request_goes_on(stage: Stage) -> None:
    async with house(stage, timeout=0.05) as it:
        await it.load()
        began = LoopClock().now()
        await sent(stage)
        talk = await it.told()
        assert seen(await it.served()) == ("chat", "learned", ["model_timed_out", "sure:50%"])
        assert LoopClock().now() - began < PATIENCE / 2
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert it.counts == {"timed_out": 1}


@story(SMALL, TELLER)
async def test_where_it_has_no_free_place_nobody_waits_for_one(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        lease = stage.conductor.acquire("teller")
        assert not isinstance(lease, asyncio.Future)
        await sent(stage)
        assert (await it.served()).notes[0] == "model_busy"
        lease.release()


@story(SMALL, TELLER)
async def test_nothing_is_loaded_to_tell_a_class(stage: Stage) -> None:
    async with house(stage) as it:
        await sent(stage)
        assert (await it.served()).notes[0] == "model_not_loaded"
        it.tier_quality.on_stopped("teller")
        await sent(stage)
        assert (await it.served()).notes[0] == "model_not_loaded"
        assert not it.router.is_up("teller")
        assert it.counts == {"not_loaded": 2}


Fails = Callable[[Talk], None]


@pytest.mark.parametrize(
    ("outcome", "fails"),
    [
        ("unclear", lambda talk: talk.reply(whole("It is planning, I think."))),
        ("unclear", lambda talk: talk.reply(whole('{"class": "gardening"}'))),
        ("unclear", lambda talk: talk.reply(whole('{"class": "vision"}'))),
        ("unclear", lambda talk: talk.reply(whole('{"class": "chat"} {"class": "review"}'))),
        ("busy", lambda talk: talk.reply({}, "429 Too Many Requests")),
        ("failed", lambda talk: talk.reply({}, "500 Internal Server Error")),
        ("failed", lambda talk: talk.reply(b"no JSON")),
        ("failed", lambda talk: talk.close()),
    ],
)
def test_what_is_no_class_counts_for_nothing(outcome: str, fails: Fails) -> None:
    @story(SMALL, TELLER)
    async def tell(stage: Stage) -> None:
        async with house(stage) as it:
            await it.load()
            await sent(stage)
            fails(await it.told())
            assert seen(await it.served()) == ("chat", "learned", [f"model_{outcome}", "sure:50%"])
            assert it.counts == {outcome: 1}

    tell()


@story(SMALL, TELLER)
async def test_settings_that_it_refuses_are_left_out_from_then_on(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await sent(stage)
        (await it.told()).reply({"error": {"message": "no temperature"}}, "400 Bad Request")
        assert "temperature" not in (await it.say('{"class": "review"}')).json()
        assert (await it.served()).task == "review"


@story(SMALL, TELLER)
async def test_one_that_fails_again_and_again_rests(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        for _ in range(2):
            await sent(stage)
            (await it.told()).reply({}, "500 Internal Server Error")
            await it.served()
        await sent(stage)
        assert (await it.served()).notes[0] == "model_resting"
        assert it.counts == {"failed": 2, "resting": 1}


@story(SMALL, TELLER)
async def test_a_client_that_leaves_takes_the_question_with_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        await client.send(ask(model="auto"))
        talk = await it.told()
        await client.close()
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert (await stage.sealed()).outcome == "client_left"
        await stage.quiet()
        assert it.counts == {}


@pytest.mark.parametrize("router", [{"allow_cloud": False}, {"cloud_classes": ("review",)}])
def test_what_may_not_go_to_a_cloud_is_not_shown_to_a_model_in_one(router: dict[str, Any]) -> None:
    @story(SMALL, CLOUD)
    async def tell(stage: Stage) -> None:
        async with house(stage, **router) as it:
            it.prove(Fingerprint("teller-1"))
            await it.load()
            await sent(stage)
            assert (await it.served()).notes[0] == "model_not_permitted"

    tell()


@story(SMALL, CLOUD)
async def test_a_cloud_is_asked_where_it_may_be_and_is_known_by_the_name_of_its_model(stage: Stage) -> None:
    async with house(stage) as it:
        it.prove(Fingerprint("teller-1"))
        await it.load()
        await sent(stage)
        await it.say('{"class": "review"}')
        assert (await it.served()).task == "review"
