"""A request that names a task: which tier answers, what the client never sees of the others, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from tests.auto.flow.routed import use_router, work_with
from tests.gateway.flow_stage import PATIENCE, LoopClock, Stage, Talk, a_serve, ask, story

from stoker.domain.decision import Candidate, Decision
from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.key import Key
from stoker.domain.routing import BreakerLimits, RouterSettings, Unmeasured
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Secret
from stoker.domain.serve_phase import ServePhase
from stoker.domain.task import ClassSource, Outline, Task
from stoker.domain.tier import Cost, ProfileRow, Tier, Verdict, Verify
from stoker_auto.routing.classes import Classify
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.testing.client import RawClient, SseEvent, compose_request

SMALL = a_serve("small", served_name="small-1", dialects=frozenset((Dialect.CHAT,)))
LARGE = a_serve("large", served_name="large-1", dialects=frozenset((Dialect.CHAT,)))
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "required": ["at"]}}}


def classify(seen: Outline, declared: str | None, known: Collection[str]) -> Task:
    return Task(declared or "chat", ClassSource.DECLARED if declared else ClassSource.RULES, ("word:test",))


def route(
    stage: Stage,
    verify: Verify = Verify.HOLD_TOOLS,
    rows: Mapping[tuple[str, str], ProfileRow] | None = None,
    classify: Classify = classify,
    **router: Any,
) -> TierRouter:
    """Two tiers: `cheap` is local and in doubt, `dear` is a cloud."""
    tiers = (
        Tier("cheap", "small", verify=verify),
        Tier("dear", "large", cloud=True, cost=Cost(1.0, 2.0), verify=Verify.OFF),
    )
    router = {"breaker": BreakerLimits(failures=2, window=30.0, cool_down=60.0), **router}
    sees = stage.conductor.residency
    settings = RouterSettings(tiers, unmeasured=Unmeasured.CHEAPEST, **router)
    made = TierRouter(settings, stage.serves, TierQuality(rows or {}), sees, LoopClock().now, classify)
    use_router(stage, made)
    return made


def whole(text: str = "hello", calls: object = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "c", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}


def a_call(name: str = "look", arguments: str = '{"at":"it"}') -> list[dict[str, Any]]:
    return [{"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}]


def piece(**fields: Any) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": None}
    return b"data: %b\n\n" % json.dumps({"id": "c", "choices": [choice]}).encode()


async def told(client: RawClient) -> list[SseEvent]:
    head = await client.head()
    assert head.status == 200
    return [event async for event in client.events(head)]


async def sealed(stage: Stage) -> Decision:
    """The newest decision; those before it are forgotten."""
    decision = await stage.sealed()
    stage.decisions.clear()
    return decision


@story(SMALL, LARGE)
async def test_the_cheapest_tier_that_may_serve_answers_and_the_reply_says_which(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto"))
    talk = await stage.asked()
    assert talk.json()["model"] == "small-1"
    talk.reply(whole())
    reply = await client.reply()
    assert (reply.status, reply.header("x-stoker-tier"), reply.header("x-stoker-serve")) == (200, "cheap", "small")
    assert reply.json()["choices"][0]["message"]["content"] == "hello"
    decision = await sealed(stage)
    assert (decision.model, decision.serve, decision.outcome) == ("auto", "small", "served")
    routed = decision.routed
    assert routed is not None
    assert (routed.task, routed.source, routed.tier, routed.verdict) == ("chat", "rules", "cheap", "allow-with-verify")
    assert [(one.tier, one.outcome, one.output_tokens, one.cost) for one in routed.attempts] == [
        ("cheap", "served", 100, 0.0)
    ]


@story(SMALL, LARGE)
async def test_a_name_that_is_no_task_is_served_as_ever(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="large"))
    talk = await stage.asked()
    talk.reply(whole())
    assert (await client.reply()).header("x-stoker-tier") is None
    assert (await sealed(stage)).routed is None


@story(SMALL, LARGE)
async def test_the_class_is_declared_by_the_model_name_before_header_and_metadata(stage: Stage) -> None:
    route(stage, high_risk=())
    client = await stage.client()
    for model, headers, metadata, task in (
        ("auto:review", (("x-stoker-class", "planning"),), {"stoker_class": "creative"}, "review"),
        ("auto", (("x-stoker-class", "planning"),), {"stoker_class": "creative"}, "planning"),
        ("auto", (), {"stoker_class": "creative"}, "creative"),
    ):
        await client.send(ask(model=model, headers=headers, metadata=metadata))
        (await stage.asked()).reply(whole())
        await client.reply()
        decision = await sealed(stage)
        assert decision.routed is not None
        assert decision.routed.task == task


@story(SMALL, LARGE)
async def test_an_alias_says_what_it_stands_for_in_every_dialect(stage: Stage) -> None:
    route(stage, high_risk=(), aliases={"fast": "auto", "checker": "auto:review"})
    client = await stage.client()
    for model, headers, task in (
        ("checker", (("x-stoker-class", "planning"),), "review"),
        ("fast", (("x-stoker-class", "planning"),), "planning"),
        ("fast", (), "chat"),
    ):
        await client.send(ask(model=model, headers=headers))
        (await stage.asked()).reply(whole())
        assert (await client.reply()).header("x-stoker-tier") == "cheap"
        decision = await sealed(stage)
        assert decision.routed is not None
        assert (decision.model, decision.routed.task) == (model, task)


@story(SMALL, LARGE)
async def test_a_tier_that_fails_before_the_first_byte_is_followed_by_the_next_and_costs_what_it_cost(
    stage: Stage,
) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True))
    talk = await stage.asked()
    talk.reply({"error": "secret of the serve"}, "500 Internal Server Error")
    talk = await stage.asked()
    assert talk.json()["model"] == "large-1"
    talk.begin()
    talk.say("from the dear one")
    talk.end()
    events = await told(client)
    assert any("from the dear one" in event.data for event in events)
    assert not any("secret" in event.data for event in events)
    decision = await sealed(stage)
    assert decision.routed is not None
    assert [(one.tier, one.outcome) for one in decision.routed.attempts] == [
        ("cheap", "upstream_error"), ("dear", "served"),
    ]  # fmt: skip
    assert decision.candidates == [Candidate("small", "upstream_error"), Candidate("large")]
    assert decision.attempts == 2


@story(SMALL, LARGE)
async def test_a_callers_own_error_is_not_tried_elsewhere(stage: Stage) -> None:
    router = route(stage)
    client = await stage.client()
    for _ in range(3):
        await client.send(ask(model="auto"))
        (await stage.asked()).reply({"error": {"message": "bad temperature"}}, "400 Bad Request")
        assert (await client.reply()).status == 400
        decision = await sealed(stage)
        assert decision.routed is not None
        assert [one.tier for one in decision.routed.attempts] == ["cheap"]
    assert router.health.state("cheap") == "closed", "behaviour 48"


@story(SMALL, LARGE)
async def test_given_a_class_denied_on_local_and_no_cloud_then_a_clear_refusal(stage: Stage) -> None:
    """Behaviour 42, through the front door."""
    route(stage, allow_cloud=False)
    client = await stage.client()
    await client.send(ask(model="auto:planning"))
    reply = await client.reply()
    error = reply.json()["error"]
    assert (reply.status, error["code"]) == (403, "no_tier")
    assert "class 'planning'" in error["message"]
    assert "cheap: not measured at planning" in error["message"]
    assert "dear: requests do not go to the cloud" in error["message"]
    decision = await sealed(stage)
    assert decision.candidates == [Candidate("small", "denied"), Candidate("large", "cloud_not_permitted")]


@story(SMALL, LARGE)
async def test_a_wrong_call_is_repaired_once_and_then_the_next_tier_is_asked_and_the_client_sees_none_of_it(
    stage: Stage,
) -> None:
    """Behaviour 45."""
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True, tools=[TOOL]))
    for number in range(2):
        talk = await stage.asked()
        assert talk.json()["model"] == "small-1"
        assert ("not valid" in json.dumps(talk.json()["messages"])) == (number == 1)
        talk.begin()
        talk.chunk(piece(tool_calls=a_call("no_such_tool")))
        talk.end()
    talk = await stage.asked()
    assert talk.json()["model"] == "large-1"
    talk.begin()
    talk.chunk(piece(tool_calls=a_call()))
    talk.end()
    events = await told(client)
    assert not any("no_such_tool" in event.data for event in events)
    assert any('"look"' in event.data for event in events)
    decision = await sealed(stage)
    assert decision.routed is not None
    cheap, dear = decision.routed.attempts
    assert (cheap.outcome, cheap.repairs, cheap.findings) == ("failed_verification", 1, ["unknown_tool"])
    assert (dear.outcome, dear.repairs) == ("served", 0)


@story(SMALL, LARGE)
async def test_a_whole_answer_that_is_wrong_is_held_back_too(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", tools=[TOOL]))
    (await stage.asked()).reply(whole("", a_call(arguments="[]")))
    (await stage.asked()).reply(whole("", a_call()))
    reply = await client.reply()
    assert reply.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"at":"it"}'
    decision = await sealed(stage)
    assert decision.routed is not None
    (attempt,) = decision.routed.attempts
    assert (attempt.tier, attempt.repairs, attempt.findings) == ("cheap", 1, ["arguments"])
    assert (attempt.input_tokens, attempt.output_tokens) == (2000, 200), "what nobody got was paid for, too"


@story(SMALL, LARGE)
async def test_after_text_went_out_a_wrong_call_is_asked_for_once_more_and_only_the_right_one_is_sent(
    stage: Stage,
) -> None:
    """What the second reply says beside its call is left out: the client has the text already."""
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True, tools=[TOOL]))
    talk = await stage.asked()
    talk.begin()
    talk.say("let me look")
    head = await client.head()
    talk.chunk(piece(tool_calls=a_call("no_such_tool")))
    talk.end()
    talk = await stage.asked()
    assert "not valid" in json.dumps(talk.json()["messages"][-1])
    talk.begin()
    talk.say("sorry")
    talk.chunk(piece(tool_calls=a_call()))
    talk.end()
    events = [event async for event in client.events(head)]
    told = "".join(event.data for event in events)
    assert ("let me look" in told, '"look"' in told) == (True, True)
    assert [word for word in ("no_such_tool", "sorry", "error", "failed_verification") if word in told] == []
    assert told.count('"finish_reason":"tool_calls"') == 1
    decision = await sealed(stage)
    assert decision.routed is not None
    assert [(one.outcome, one.repairs) for one in decision.routed.attempts] == [("served", 1)]


@pytest.mark.parametrize("second", ["wrong", "none"])
def test_if_it_is_wrong_again_there_is_exactly_one_error_event(second: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage)
        client = await stage.client()
        await client.send(ask(model="auto", stream=True, tools=[TOOL]))
        talk = await stage.asked()
        talk.begin()
        talk.say("let me look")
        head = await client.head()
        talk.chunk(piece(tool_calls=a_call("no_such_tool")))
        talk.end()
        talk = await stage.asked()
        talk.begin()
        talk.chunk(piece(tool_calls=a_call(arguments="[]"))) if second == "wrong" else talk.say("never mind")
        talk.end()
        events = [event async for event in client.events(head)]
        assert [event for event in events if "no_such_tool" in event.data or "never mind" in event.data] == []
        assert len([event for event in events if "failed_verification" in event.data]) == 1
        assert "failed_verification" in events[-1].data
        assert (await sealed(stage)).outcome == "upstream_failed"

    tell()


@story(SMALL, LARGE)
async def test_where_a_right_call_went_out_already_a_wrong_one_is_not_repaired(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True, tools=[TOOL]))
    talk = await stage.asked()
    talk.begin()
    talk.chunk(piece(tool_calls=a_call()))
    talk.chunk(piece(tool_calls=[{**a_call(arguments="[]")[0], "index": 1, "id": "call_2"}]))
    head = await client.head()
    talk.end()
    events = [event async for event in client.events(head)]
    assert any('"look"' in event.data for event in events)
    assert "failed_verification" in events[-1].data
    assert not any("call_2" in event.data for event in events)


@story(SMALL, LARGE)
async def test_what_is_only_watched_passes_byte_for_byte_and_is_counted(stage: Stage) -> None:
    """Behaviour 43: a measured allow of what it still is."""
    row = ProfileRow("cheap", "chat", "i", "e", 40, 40, Verdict.ALLOW)
    router = route(stage, rows={("cheap", "chat"): row})
    router.tier_quality.on_identified("small", Fingerprint("i", "e"))
    client = await stage.client()
    odd = piece(tool_calls=a_call("no_such_tool")).replace(b'"choices":', b'"choices"  :')
    await client.send(ask(model="auto", stream=True, tools=[TOOL], stream_options={"include_usage": True}))
    talk = await stage.asked()
    talk.begin()
    talk.chunk(odd)
    talk.end()
    events = await told(client)
    assert events[0].data.encode() == odd[6:-2]
    decision = await sealed(stage)
    assert decision.routed is not None
    assert (decision.routed.verify, decision.routed.attempts[0].findings) == ("observe", ["unknown_tool"])


@story(SMALL, LARGE)
async def test_after_some_faults_the_circuit_opens_and_the_next_requests_go_elsewhere_at_once(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    for _ in range(2):
        await client.send(ask(model="auto"))
        (await stage.asked()).reply({}, "500 Internal Server Error")
        (await stage.asked()).reply(whole())
        assert (await client.reply()).header("x-stoker-tier") == "dear"
        await sealed(stage)
    await client.send(ask(model="auto"))
    talk = await stage.asked()
    assert talk.json()["model"] == "large-1"
    talk.reply(whole())
    await client.reply()
    decision = await sealed(stage)
    assert decision.candidates == [Candidate("small", "circuit_open"), Candidate("large")]


@story(SMALL, LARGE)
async def test_a_client_that_leaves_while_the_second_tier_works_leaves_nothing_behind(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    await client.send(ask(model="auto", stream=True))
    (await stage.asked()).reply({}, "500 Internal Server Error")
    talk = await stage.asked()
    await client.close()
    await talk.gone.wait()
    decision = await sealed(stage)
    assert decision.outcome == "client_left"
    assert decision.routed is not None
    assert [one.outcome for one in decision.routed.attempts] == ["upstream_error", "left"]


@story(SMALL, LARGE)
async def test_tokens_are_counted_and_not_generated_for_a_request_that_names_a_task(stage: Stage) -> None:
    """Coding agents ask for the count of every prompt, by the same name."""
    route(stage)
    client = await stage.client()
    document = {"model": "auto", "messages": [{"role": "user", "content": "hi"}]}
    await client.send(compose_request("POST", "/v1/messages/count_tokens", document))
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/chat/completions/input_tokens ")
    talk.reply({"input_tokens": 12})
    reply = await client.reply()
    assert (reply.status, reply.json(), reply.header("x-stoker-tier")) == (200, {"input_tokens": 12}, "cheap")


def careful(outline: Outline, declared: str | None, known: Collection[str]) -> Task:
    return Task("planning", ClassSource.LEARNED, ("sure:34%",), else_="chat")


@story(SMALL, LARGE)
async def test_what_is_high_risk_only_to_be_careful_goes_to_who_proved_itself_if_there_is_one(stage: Stage) -> None:
    route(stage, classify=careful)
    client = await stage.client()
    await client.send(ask("auto"))
    (await stage.asked()).reply(whole())
    assert (await client.reply()).header("x-stoker-tier") == "dear"
    routed = (await stage.sealed()).routed
    assert routed is not None
    assert (routed.task, routed.notes) == ("planning", ["sure:34%"])


@story(SMALL, LARGE)
async def test_and_is_no_reason_to_refuse_where_there_is_none(stage: Stage) -> None:
    route(stage, allow_cloud=False, classify=careful)
    client = await stage.client()
    await client.send(ask("auto"))
    (await stage.asked()).reply(whole())
    assert (await client.reply()).header("x-stoker-tier") == "cheap"
    routed = (await stage.sealed()).routed
    assert routed is not None
    assert (routed.task, routed.notes) == ("chat", ["sure:34%", "nobody_for:planning"])


def watched(seen: list[Outline]) -> Classify:
    """A classifier that keeps what it is shown."""

    def watching(outline: Outline, declared: str | None, known: Collection[str]) -> Task:
        seen.append(outline)
        return classify(outline, declared, known)

    return watching


@story(SMALL, LARGE)
async def test_a_prompt_that_may_be_long_is_counted_once_by_a_tier_that_runs(stage: Stage) -> None:
    seen: list[Outline] = []
    route(stage, long_context=300, classify=watched(seen))
    client = await stage.client()
    await client.send(ask("auto", messages=[{"role": "user", "content": "hi"}]))
    talk = await stage.asked()
    talk.reply(whole())
    await client.reply()
    assert [(one.tokens, one.is_long) for one in seen] == [(None, False)], "too few bytes to be long: nobody is asked"
    for tokens, is_long in ((300, True), (299, False)):
        await client.send(ask("auto", messages=[{"role": "user", "content": "word " * 80}]))
        counting = await stage.asked()
        assert counting.head.startswith(b"POST /v1/chat/completions/input_tokens ")
        counting.reply({"input_tokens": tokens})
        talk = await stage.asked()
        assert talk.head.startswith(b"POST /v1/chat/completions ")
        talk.reply(whole())
        await client.reply()
        assert (seen[-1].tokens, seen[-1].is_long) == (tokens, is_long)


@story(SMALL, LARGE)
async def test_where_nobody_can_count_the_size_of_a_prompt_has_to_do(stage: Stage) -> None:
    seen: list[Outline] = []
    route(stage, long_context=300, classify=watched(seen))
    client = await stage.client()
    for words, is_long in ((80, False), (400, True)):
        await client.send(ask("auto", messages=[{"role": "user", "content": "word " * words}]))
        while (talk := await stage.asked()).head.split(b" ")[1] != b"/v1/chat/completions":
            talk.reply({}, "404 Not Found")
        talk.reply(whole())
        await client.reply()
        assert (seen[-1].tokens, seen[-1].is_long) == (None, is_long)


async def two_local_tiers(stage: Stage) -> None:
    """Both are loaded; 300 tokens are long."""
    local = Tier("cheap", "small"), Tier("big", "large")
    route(stage).configure(RouterSettings(local, long_context=300), stage.serves)
    await stage.conductor.switch("small")
    await stage.conductor.switch("large")


@story(SMALL, LARGE)
async def test_a_count_loads_no_tier_that_was_unloaded_since(stage: Stage) -> None:
    await two_local_tiers(stage)
    client = await stage.client()
    await client.send(ask("auto", messages=[{"role": "user", "content": "word " * 80}]))
    talk = await stage.asked()
    await stage.conductor.unload("large")
    await answered_by_cheap(stage, client, talk)
    assert stage.fleet.journal.count("start large") == 1


@story(SMALL, LARGE)
async def test_a_count_waits_for_no_tier_that_is_on_its_way_out(stage: Stage) -> None:
    await two_local_tiers(stage)
    last = await stage.client()
    await last.send(ask("large"))
    held = await stage.asked()
    client = await stage.client()
    await client.send(ask("auto", messages=[{"role": "user", "content": "word " * 80}]))
    talk = await stage.asked()
    async with asyncio.TaskGroup() as others:
        others.create_task(stage.conductor.unload("large", drain_timeout=PATIENCE))
        await stage.until(lambda: stage.conductor.scheduler.serves["large"].phase is ServePhase.DRAINING)
        await answered_by_cheap(stage, client, talk)
        held.reply(whole())
        assert (await last.reply()).status == 200
    assert stage.fleet.journal.count("start large") == 1
    stage.decisions.clear()


async def answered_by_cheap(stage: Stage, client: RawClient, talk: Talk) -> None:
    """It can count in no way that Stoker knows."""
    while talk.head.split(b" ")[1] != b"/v1/chat/completions":
        talk.reply({}, "404 Not Found")
        talk = await stage.asked()
    talk.reply(whole())
    assert (await client.reply()).header("x-stoker-tier") == "cheap"


@story(SMALL, a_serve("large", served_name="large-1", dialects=frozenset((Dialect.CHAT,)), context=2000))
async def test_what_was_counted_before_a_repair_is_counted_again_for_the_longer_question(stage: Stage) -> None:
    router = route(stage, long_context=300)
    tier = Tier("big", "large", verify=Verify.HOLD_ALL)
    router.configure(RouterSettings((tier,), long_context=300), stage.serves)
    await stage.conductor.switch("large")
    client = await stage.client()
    await client.send(ask("auto", tools=[TOOL], messages=[{"role": "user", "content": "word " * 400}]))
    counted = 0
    for tokens, answer in ((900, whole("", a_call(arguments="{}"))), (1000, whole("fine"))):
        talk = await stage.asked()
        assert talk.head.startswith(b"POST /v1/chat/completions/input_tokens ")
        talk.reply({"input_tokens": tokens})
        counted += 1
        (await stage.asked()).reply(answer)
    reply = await client.reply()
    assert (reply.status, counted) == (200, 2)


@story(SMALL, LARGE)
async def test_what_is_far_longer_than_long_is_not_counted(stage: Stage) -> None:
    seen: list[Outline] = []
    route(stage, long_context=100, classify=watched(seen))
    client = await stage.client()
    await client.send(ask("auto", messages=[{"role": "user", "content": "word " * 320}]))
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/chat/completions ")
    talk.reply(whole())
    await client.reply()
    assert (seen[-1].tokens, seen[-1].is_long) == (None, True)


@story(SMALL, LARGE)
async def test_a_client_that_leaves_while_its_prompt_is_counted_leaves_nothing_behind(stage: Stage) -> None:
    route(stage, long_context=300)
    client = await stage.client()
    await client.send(ask("auto", messages=[{"role": "user", "content": "word " * 400}]))
    await stage.asked()
    await client.close()
    assert (await stage.sealed()).outcome == "client_left"
    assert not stage.flow.active


@story(SMALL, LARGE)
async def test_a_reload_that_takes_a_tier_out_leaves_the_requests_that_are_under_way_alone(stage: Stage) -> None:
    router = route(stage)
    client = await stage.client()
    await client.send(ask(model="auto"))
    talk = await stage.asked()
    router.configure(RouterSettings((Tier("other", "large", cloud=True),)), [LARGE])
    talk.reply({}, "500 Internal Server Error")
    talk = await stage.asked()
    assert talk.json()["model"] == "large-1"
    talk.reply(whole())
    reply = await client.reply()
    assert (reply.status, reply.header("x-stoker-tier")) == (200, "dear")
    decision = await sealed(stage)
    assert decision.candidates == [Candidate("small", "upstream_error"), Candidate("large")]


@story(SMALL, LARGE)
async def test_new_settings_of_the_breaker_count_from_the_reload_on(stage: Stage) -> None:
    router = route(stage)
    tiers = router.settings.tiers
    router.health.on_error("cheap", UpstreamError("x"))
    router.configure(
        RouterSettings(tiers, unmeasured=Unmeasured.CHEAPEST, breaker=router.settings.breaker), stage.serves
    )
    router.health.on_error("cheap", UpstreamError("x"))
    assert router.health.state("cheap") == "open", "the same settings: what was counted still counts"
    router.configure(
        RouterSettings(tiers, unmeasured=Unmeasured.CHEAPEST, breaker=BreakerLimits(failures=1)), stage.serves
    )
    assert router.health.state("cheap") == "closed"
    router.health.on_error("cheap", UpstreamError("x"))
    assert router.health.state("cheap") == "open"


def test_what_has_no_answer_that_is_read_passes_through_unchecked() -> None:
    speaking = frozenset((Dialect.COMPLETIONS,))

    @story(a_serve("small", dialects=speaking), a_serve("large", dialects=speaking))
    async def tell(stage: Stage) -> None:
        route(stage, verify=Verify.HOLD_ALL)
        client = await stage.client()
        await client.send(compose_request("POST", "/v1/completions", {"model": "auto", "prompt": "hi"}))
        (await stage.asked()).reply({"ok": 1})
        reply = await client.reply()
        assert (reply.status, reply.json()["ok"], reply.header("x-stoker-tier")) == (200, 1, "cheap")
        decision = await sealed(stage)
        assert decision.routed is not None
        assert not decision.routed.attempts[0].checked

    tell()


@story(SMALL, LARGE)
async def test_a_share_of_the_requests_goes_first_to_another_tier_that_proved_good_enough(stage: Stage) -> None:
    rows = {(tier, "chat"): ProfileRow(tier, "chat", "i", "e", 40, 40, Verdict.ALLOW) for tier in ("cheap", "dear")}
    router = route(stage, rows=rows, explore=0.1)
    router.tier_quality.on_identified("small", Fingerprint("i", "e"))
    await stage.conductor.switch("large")
    client = await stage.client()
    for drawn, served in ((0.1, "cheap"), (0.05, "dear")):
        work_with(stage, chance=lambda drawn=drawn: drawn)
        await client.send(ask(model="auto"))
        (await stage.asked()).reply(whole())
        assert (await client.reply()).header("x-stoker-tier") == served
        decision = await sealed(stage)
        assert decision.routed is not None
        assert decision.routed.why[0].startswith("dear: allow, explored, ") == (served == "dear")


@story(SMALL, LARGE)
async def test_ollamas_clients_see_and_use_the_names_that_ask_for_a_choice(stage: Stage) -> None:
    route(stage, aliases={"planner": "auto:planning"}, high_risk=())
    client = await stage.client()
    tags = (await client.ask("GET", "/api/tags")).json()["models"]
    names = [one["name"] for one in tags]
    assert [one["id"] for one in (await client.ask("GET", "/v1/models")).json()["data"]] == names, "the two lists agree"
    assert names[-2:] == ["auto", "planner"]
    assert set(names) - {"auto", "planner"} == {"small", "small-1", "large", "large-1"}
    for name in ("auto", "auto:planning", "planner"):
        shown = (await (await stage.client()).ask("POST", "/api/show", {"model": name})).json()
        assert shown["capabilities"] == ["completion", "tools"]
    assert (await (await stage.client()).ask("POST", "/api/show", {"model": "auto:nothing"})).status == 404
    assert (await client.ask("GET", "/api/ps")).json()["models"] == []
    await client.send(
        compose_request(
            "POST", "/api/chat", {"model": "planner", "stream": False, "messages": [{"role": "user", "content": "hi"}]}
        )
    )
    (await stage.asked()).reply(whole())
    assert (await client.reply()).json()["message"]["content"] == "hello"
    decision = await sealed(stage)
    assert decision.routed is not None
    assert (decision.routed.task, decision.routed.tier) == ("planning", "cheap")


@story(SMALL, LARGE, keys=(Key("one", Secret("k", "env:A"), models=("small",)),), auth=True)
async def test_a_key_that_may_not_ask_for_a_choice_does_not_see_the_names(stage: Stage) -> None:
    route(stage)
    client = await stage.client()
    tags = (await client.ask("GET", "/api/tags", authorization="Bearer k")).json()["models"]
    assert {one["name"] for one in tags} == {"small", "small-1"}
    assert (await client.ask("POST", "/api/show", {"model": "auto"}, authorization="Bearer k")).status == 404
