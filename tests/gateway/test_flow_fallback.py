"""A serve whose device is not up to it: its fallback answers, once, before anything was sent, and the reply says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, ask, story

from stoker.domain.decision import Candidate
from stoker.domain.dialect import Dialect
from stoker.domain.key import Key
from stoker.domain.serve import FallbackCause, Secret, Slot, Status, SwapPolicy
from stoker_lab.testing.client import RawClient
from stoker_lab.testing.fleet import FakeFleet

GPU = (Slot("gpu", swap=SwapPolicy(min_residency=0.0, linger=0.0, max_wait=0.05, drain_timeout=0.05)),)
BIG = a_serve("big", slot="gpu", fallback="small")
SMALL = a_serve("small", slot="gpu")


def too_small(code: str = "out_of_memory") -> FakeFleet:
    fleet = FakeFleet()
    fleet.broken["big"] = "CUDA error: out of memory"
    fleet.failures["big"] = code
    return fleet


@pytest.mark.parametrize("code", ["out_of_memory", "startup_memory", "device_lost", "unsupported_quantization"])
def test_a_start_that_is_beyond_the_device_is_answered_by_the_fallback(code: str) -> None:
    @story(BIG, SMALL, slots=GPU, fleet=lambda: too_small(code))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(model="big"))
        talk = await stage.asked()
        talk.reply({"ok": 1})
        reply = await client.reply()
        assert reply.status == 200
        assert reply.header("x-stoker-serve") == "small"
        assert reply.header("x-stoker-fallback") == f"big: {code}"
        decision = await stage.sealed()
        assert (decision.model, decision.serve, decision.outcome) == ("big", "small", "served")
        assert decision.candidates == [Candidate("big", code), Candidate("small")]
        assert stage.fleet.journal == ["start big", "gone big", "start small", "ready small"]

    tell()


@story(BIG, SMALL, slots=GPU, fleet=lambda: too_small("exited"))
async def test_any_other_failure_is_told_as_it_is(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (503, "exited")
    assert (await stage.sealed()).serve == "big"


@story(BIG, SMALL, slots=GPU)
async def test_a_serve_that_dies_of_the_request_itself_is_replaced_and_the_request_sent_once_more(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    talk = await stage.asked()
    stage.fleet.failures["big"] = "out_of_memory"
    talk.close()
    stage.fleet.die("big", "SIGKILL")
    talk = await stage.asked()
    talk.reply({"ok": 1})
    reply = await client.reply()
    assert (reply.status, reply.header("x-stoker-serve")) == (200, "small")
    decision = await stage.sealed()
    assert decision.attempts == 2


async def dies_of(stage: Stage, talk: Talk) -> None:
    """The serve runs out of memory while it works on the request that it got."""
    assert talk.json()["model"] == "engine"
    stage.fleet.failures["big"] = "out_of_memory"
    talk.close()
    stage.fleet.die("big", "SIGKILL")


@story(a_serve("small", slot="gpu", served_name="big"), BIG, slots=GPU)  # the later one has the name
async def test_a_fallback_that_passes_through_does_not_carry_the_translation_of_the_first_serve(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    await dies_of(stage, await stage.asked())
    talk = await stage.asked()
    assert talk.json()["model"] == "big"
    talk.reply({"ok": 1})
    reply = await client.reply()
    assert (reply.header("x-stoker-serve"), reply.header("x-stoker-translation")) == ("small", None)
    assert (await stage.sealed()).translation == ""


@story(BIG, SMALL, slots=GPU)
async def test_the_503_of_a_fallback_does_not_carry_the_translation_of_the_first_serve(stage: Stage) -> None:
    stage.fleet.broken["small"] = "no weights"
    client = await stage.client()
    await client.send(ask(model="big"))
    await dies_of(stage, await stage.asked())
    reply = await client.reply()
    assert (reply.status, reply.header("x-stoker-serve")) == (503, "small")
    assert reply.header("x-stoker-translation") is None
    assert (await stage.sealed()).translation == ""


@story(BIG, SMALL, slots=GPU)
async def test_after_the_first_byte_nothing_is_sent_again(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big", stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.say("x")
    head = await client.head()
    stage.fleet.failures["big"] = "out_of_memory"
    talk.close()
    stage.fleet.die("big", "SIGKILL")
    events = [event async for event in client.events(head)]
    assert "error" in events[-1].json()
    assert (await stage.sealed()).serve == "big"


@story(BIG, SMALL, slots=GPU, fleet=too_small)
async def test_a_fallback_that_fails_too_is_the_end_of_it(stage: Stage) -> None:
    stage.fleet.broken["small"] = "out of memory as well"
    stage.fleet.failures["small"] = "out_of_memory"
    client = await stage.client()
    await client.send(ask(model="big"))
    reply = await client.reply()
    assert reply.status == 503
    assert "as well" in reply.json()["error"]["message"]
    assert stage.fleet.journal.count("start big") == 1


KEY = Key("team", Secret("k", "env:K"), models=("big",))


@story(BIG, SMALL, slots=GPU, fleet=too_small, keys=(KEY,))
async def test_a_caller_who_may_not_use_the_fallback_gets_the_first_error(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big", headers=(("Authorization", "Bearer k"),)))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (503, "out_of_memory")


@story(BIG, a_serve("small", slot="gpu", dialects=frozenset((Dialect.EMBEDDINGS,))), slots=GPU, fleet=too_small)
async def test_a_fallback_that_speaks_nothing_of_use_is_none(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    assert (await client.reply()).json()["error"]["code"] == "out_of_memory"


ANY = (FallbackCause.UNAVAILABLE, FallbackCause.BUSY)
FULL = a_serve("big", fallback="small", fallback_on=ANY, parallel=1, max_active=1, queue=0)
OTHER = a_serve("small")


async def fell_back(stage: Stage, client: RawClient, code: str) -> None:
    """The request goes to the fallback, which answers; the reply and the decision say why."""
    talk = await stage.asked()
    talk.reply({"ok": 1})
    reply = await client.reply()
    assert (reply.status, reply.header("x-stoker-serve")) == (200, "small")
    assert reply.header("x-stoker-fallback") == f"big: {code}"
    decision = next(one for one in stage.decisions if one.serve == "small")
    assert (decision.model, decision.outcome) == ("big", "served")
    assert decision.candidates == [Candidate("big", code), Candidate("small")]
    assert [(one.serve, one.outcome) for one in decision.tried] == [("big", code), ("small", "served")]


@story(FULL, OTHER)
async def test_a_full_queue_falls_back_where_busy_is_a_cause(stage: Stage) -> None:
    first, second = await stage.client(), await stage.client()
    await first.send(ask(model="big"))
    talk = await stage.asked()
    await second.send(ask(model="big"))
    await fell_back(stage, second, "queue_full")
    talk.reply({"ok": 1})
    assert (await first.reply()).header("x-stoker-serve") == "big"


@story(replace(FULL, queue=4, queue_timeout=0.05), OTHER)
async def test_a_wait_that_is_too_long_falls_back_where_busy_is_a_cause(stage: Stage) -> None:
    first, second = await stage.client(), await stage.client()
    await first.send(ask(model="big"))
    talk = await stage.asked()
    await second.send(ask(model="big"))
    await fell_back(stage, second, "queue_timeout")
    talk.reply({"ok": 1})
    await first.reply()


@pytest.mark.parametrize(
    ("status", "code"),
    [("500 Oops", "upstream_error"), ("401 No", "upstream_auth"), ("503 Later", "upstream_busy"),
     ("429 Slow", "upstream_busy")],
)  # fmt: skip
def test_a_serve_that_fails_or_is_busy_by_its_own_words_is_replaced(status: str, code: str) -> None:
    @story(FULL, OTHER)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(model="big"))
        (await stage.asked()).reply({"error": {"message": "marker"}}, status)
        await fell_back(stage, client, code)

    tell()


@story(replace(FULL, fallback_on=(FallbackCause.BUSY,)), OTHER)
async def test_a_cause_that_is_not_listed_is_answered_as_it_is(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    (await stage.asked()).reply({"error": {"message": "x"}}, "500 Oops")
    reply = await client.reply()
    assert (reply.status, reply.header("x-stoker-fallback")) == (502, None)


@story(FULL, OTHER)
async def test_a_request_that_is_wrong_is_wrong_for_the_fallback_too(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    (await stage.asked()).reply({"error": {"message": "temperature", "code": "bad"}}, "400 Bad")
    reply = await client.reply()
    assert (reply.status, reply.json()) == (400, {"error": {"message": "temperature", "code": "bad"}})
    assert (await stage.sealed()).serve == "big"


@story(FULL, OTHER)
async def test_the_fallbacks_own_429_passes_through(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    (await stage.asked()).reply({"error": {"message": "x"}}, "429 Slow")
    (await stage.asked()).reply({"error": {"message": "mine"}}, "429 Slow")
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["message"]) == (429, "mine")


@story(FULL, OTHER)
async def test_a_stream_that_began_is_never_sent_to_the_fallback(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big", stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.say("x")
    head = await client.head()
    talk.close()
    events = [event async for event in client.events(head)]
    assert "error" in events[-1].json()
    assert (await stage.sealed()).serve == "big"


@pytest.mark.parametrize("state", ["broken", "parked", "held", "rejected"])
def test_a_serve_that_takes_no_requests_is_replaced(state: str) -> None:
    serve = replace(FULL, status=Status.REJECTED) if state == "rejected" else FULL
    codes = {"broken": "exited", "parked": "parked", "held": "draining", "rejected": "needs_force"}
    fleet = FakeFleet()
    if state == "broken":
        fleet.broken["big"], fleet.failures["big"] = "no such file", "exited"

    @story(serve, OTHER, fleet=lambda: fleet)
    async def tell(stage: Stage) -> None:
        if state == "parked":
            stage.conductor.park("big", "it hangs")
            stage.complaints.clear()
        if state == "held":
            stage.conductor.set_held("big", True)
        client = await stage.client()
        await client.send(ask(model="big"))
        await fell_back(stage, client, codes[state])

    tell()


@story(replace(BIG, fallback_on=ANY), SMALL, slots=GPU, fleet=too_small)
async def test_without_memory_among_the_causes_the_fallback_is_not_started_for_it(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(model="big"))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (503, "out_of_memory")
    assert stage.fleet.journal == ["start big", "gone big"]
