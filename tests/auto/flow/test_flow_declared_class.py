"""The class that a caller declares: in any case, with blanks around it; and an unknown one is told."""

from __future__ import annotations

import pytest
from tests.auto.flow.test_flow_routing import LARGE, SMALL, route, sealed, whole
from tests.gateway.flow_stage import Stage, ask, story

from stoker.domain.key import Key, RequestDefaults
from stoker.domain.routing import TaskClass
from stoker.domain.serve import Secret

NOTE = "x-stoker-class-unknown"


@pytest.mark.parametrize("word", ["review", "Review", "REVIEW", " review ", "\treview"])
@pytest.mark.parametrize("way", ["header", "metadata", "model"])
def test_case_and_blanks_of_a_declared_class_do_not_count(word: str, way: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage, high_risk=())
        client = await stage.client()
        headers = (("x-stoker-class", word),) if way == "header" else ()
        fields = {"metadata": {"stoker_class": word}} if way == "metadata" else {}
        for model in (f"auto:{word}", f"AUTO:{word}") if way == "model" else ("auto", "Auto"):
            await client.send(ask(model=model, headers=headers, **fields))
            (await stage.asked()).reply(whole())
            reply = await client.reply()
            assert (reply.status, reply.header(NOTE)) == (200, None)
            decision = await sealed(stage)
            assert decision.routed is not None
            assert (decision.routed.task, decision.routed.source) == ("review", "declared")

    tell()


@pytest.mark.parametrize("way", ["header", "metadata"])
def test_a_class_that_is_not_known_is_told_to_the_caller_and_noted(way: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage)
        client = await stage.client()
        headers = (("x-stoker-class", " Reveiw"),) if way == "header" else ()
        fields = {"metadata": {"stoker_class": "Reveiw "}} if way == "metadata" else {}
        await client.send(ask(model="auto", headers=headers, **fields))
        (await stage.asked()).reply(whole())
        reply = await client.reply()
        assert (reply.status, reply.header(NOTE)) == (200, "Reveiw")
        decision = await sealed(stage)
        assert decision.routed is not None
        assert "unknown_class" in decision.routed.notes
        assert "Reveiw" not in str(decision.routed), "the caller's word is in no record"

    tell()


@story(SMALL, LARGE)
async def test_an_unknown_one_is_noted_also_where_something_else_tells_the_class(stage: Stage) -> None:
    route(stage, high_risk=(), classes=(TaskClass("greeting", ("hi",)),))
    client = await stage.client()
    for model, metadata, task in (
        ("auto", {}, "greeting"), ("auto", {"stoker_class": "review"}, "review"), ("auto:planning", {}, "planning"),
    ):  # fmt: skip
        await client.send(ask(model=model, headers=(("x-stoker-class", "nonsense"),), metadata=metadata))
        (await stage.asked()).reply(whole())
        assert (await client.reply()).header(NOTE) == "nonsense"
        decision = await sealed(stage)
        assert decision.routed is not None
        assert (decision.routed.task, decision.routed.notes[0]) == (task, "unknown_class")


@story(SMALL, LARGE)
async def test_a_header_that_says_nothing_declares_nothing(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", headers=(("x-stoker-class", "  "),)))
    (await stage.asked()).reply(whole())
    assert (await client.reply()).header(NOTE) is None
    decision = await sealed(stage)
    assert decision.routed is not None
    assert "unknown_class" not in decision.routed.notes


@story(SMALL, LARGE)
async def test_what_no_header_can_hold_is_told_as_far_as_it_can(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    name = "plan\r\nx-evil: 1é" + "x" * 200
    await client.send(ask(model="auto", metadata={"stoker_class": name}))
    (await stage.asked()).reply(whole())
    reply = await client.reply()
    assert (reply.header(NOTE), reply.header("x-evil")) == ("plan??x-evil: 1?" + "x" * 48, None)
    await sealed(stage)


@story(SMALL, LARGE)
async def test_a_model_name_of_an_unknown_class_is_refused_with_the_nearest_one(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto:Reveiw"))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (404, "unknown_model")
    assert reply.json()["error"]["message"] == "there is no class 'Reveiw'; did you mean 'auto:review'?"
    assert (await sealed(stage)).outcome == "refused"


@pytest.mark.parametrize(
    ("models", "model", "status"),
    [(("small",), "auto:CHAT", 200), (("small",), "auto: chat", 200), (("small",), "auto:Reveiw", 404),
     (("small", "auto"), "auto:Reveiw", 404)],
)  # fmt: skip
def test_a_key_with_a_default_model_gets_it_for_a_class_that_it_may_not_ask_for(
    models: tuple[str, ...], model: str, status: int
) -> None:
    key = Key("narrow", Secret("k", "env:K"), models=models, defaults=RequestDefaults(model="small"))

    @story(SMALL, LARGE, keys=(key,))
    async def tell(stage: Stage) -> None:
        route(stage)
        client = await stage.client()
        await client.send(ask(model, headers=(("authorization", "Bearer k"),)))
        if status == 200:
            (await stage.asked()).reply(whole())
        assert (await client.reply()).status == status

    tell()
