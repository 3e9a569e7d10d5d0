"""A model that has not proved the better is off, says why, and no request knows of it."""

from __future__ import annotations

import json

from tests.auto.flow.test_flow_companion import MARK, SMALL, TELLER, House, house, seen, sent
from tests.auto.flow.test_flow_routing import whole
from tests.gateway.flow_stage import Stage, story

from stoker.domain.routing import RouterSettings
from stoker.domain.run import Fingerprint
from stoker_auto.classifier import proof as proofs
from stoker_auto.classifier.labelled_prompts import held_out


async def is_off(it: House, why: str) -> None:
    assert it.companion.why == why
    helps = "try another model" if why.startswith("its mistakes") else "`stoker eval classifier teller`"
    assert f"{why}; {helps}" in it.companion.problem
    status = it.companion.status()
    assert status is not None
    assert (status["on"], status["why"]) == (False, why)
    await sent(it.stage)
    assert seen(await it.served()) == ("chat", "learned", ["sure:50%"])
    assert it.counts == {}


@story(SMALL, TELLER)
async def test_one_that_was_not_measured_is_off(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        proofs.path_of(it.state, "teller").unlink()
        it.begin()
        await is_off(it, "it was not measured")
        it.prove(MARK, rows=3)
        await is_off(it, f"it was measured with 3 of {len(held_out())} prompts")


@story(SMALL, TELLER)
async def test_one_that_lost_is_off(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.prove(MARK, word="creative")
        assert not it.is_on
        settings = it.router.settings.classifier
        assert settings is not None
        lost = proofs.prove(proofs.load_answers(proofs.path_of(it.state, "teller")).answers, settings, ()).rejection
        assert lost.startswith("its mistakes cost ")
        await is_off(it, lost)


@story(SMALL, TELLER)
async def test_another_model_than_was_measured_is_off_and_back_on_when_the_old_one_is_back(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.know(Fingerprint("another", "e"))
        await is_off(it, "it changed since it was measured")
        it.know(MARK)
        assert (it.companion.why, it.companion.problem) == ("", "")
        it.tier_quality.on_stopped("teller")
        assert (it.companion.why, it.companion.problem) == ("it is not loaded, or not identified yet", "")


@story(SMALL, TELLER)
async def test_without_one_requests_know_nothing_of_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.router.configure(RouterSettings(it.router.settings.tiers), stage.serves)
        it.begin()
        assert (it.is_on, it.companion.status(), it.companion.problem) == (False, None, "")
        await sent(stage)
        assert (await it.served()).source == "learned"


@story(SMALL, TELLER)
async def test_a_question_under_way_when_it_is_taken_out_still_ends_in_order(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await sent(stage)
        talk = await it.told()
        it.router.configure(RouterSettings(it.router.settings.tiers), stage.serves)
        it.begin()
        talk.reply(whole(json.dumps({"class": "review"})))
        assert (await it.served()).task == "review"
