"""What one request holds and records while it is asked of one serve or replica after the other."""

from __future__ import annotations

from tests.gateway.flow_stage import Stage, a_serve, ask, story
from tests.gateway.test_flow_translation import CHAT_ONLY

from stoker.domain.decision import Candidate
from stoker.domain.key import Key, Priority
from stoker.domain.serve import FallbackCause, Secret, Slot
from stoker_lab.testing.client import compose_request

NOBODY_LISTENS = 1
"""A port."""
TWO = a_serve(slot="g0", slots=("g0", "g1"), replicas=2)
SLOTS = (Slot("g0"), Slot("g1"))


async def dies_and_comes_back(stage: Stage, name: str) -> None:
    """A process that cannot be reached turns out to have exited; a new one answers."""
    stage.fleet.ports[name] = stage.model_port
    stage.fleet.die(name, "SIGKILL")


@story(TWO, slots=SLOTS)
async def test_the_last_replica_that_cannot_be_reached_is_started_again_and_each_attempt_is_recorded(
    stage: Stage,
) -> None:
    stage.fleet.ports |= {"a@g0": NOBODY_LISTENS, "a@g1": NOBODY_LISTENS}
    client = await stage.client()
    await client.send(ask())
    await stage.until(lambda: any(call.decision.attempts == 2 for call in stage.flow.active.values()), "both refused")
    last = next(iter(stage.flow.active.values())).decision.replica
    await dies_and_comes_back(stage, last)
    (await stage.asked()).reply({"ok": 1})
    assert (await client.reply()).status == 200
    decision = await stage.sealed()
    (first,) = {"a@g0", "a@g1"} - {last}
    assert decision.candidates == [Candidate(first, "unreachable"), Candidate("a")]
    assert [(one.serve, one.outcome) for one in decision.tried] == [(first, "unreachable"), (last, "served")]
    assert (decision.attempts, decision.replica) == (3, last)
    assert all(one.seconds is not None for one in decision.tried)


@story(TWO, slots=SLOTS)
async def test_where_the_other_replica_does_not_start_the_request_ends(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    talk = await stage.asked()
    first = next(iter(stage.flow.active.values())).decision.replica
    (other,) = {"a@g0", "a@g1"} - {first}
    stage.fleet.broken[other] = "no such file"
    talk.reply({"error": {"message": "x"}}, "500 Oops")
    assert (await client.reply()).status == 503
    decision = await stage.sealed()
    assert decision.candidates == [Candidate(first, "upstream_error"), Candidate("a")]
    assert [one.serve for one in decision.tried] == [first, "a"]
    assert decision.tried[0].outcome == "upstream_error"


@story(a_serve())
async def test_a_request_whose_serve_answers_records_no_attempts(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    (await stage.asked()).reply({"ok": 1})
    assert (await client.reply()).status == 200
    assert (await stage.sealed()).tried == []


NIGHT = Key("night", Secret("n", "env:N"), priority=Priority.BACKGROUND)
DAY = Key("day", Secret("d", "env:D"))


def request_of(key: str, *headers: tuple[str, str]) -> bytes:
    return ask(headers=(("Authorization", f"Bearer {key}"), *headers))


@story(a_serve(max_active=1), keys=(NIGHT, DAY))
async def test_a_request_that_is_sent_again_still_gives_way(stage: Stage) -> None:
    stage.fleet.ports["a"] = NOBODY_LISTENS
    night, day = await stage.client(), await stage.client()
    await night.send(request_of("n", ("x-stoker-preemptible", "true")))
    await stage.until(lambda: any(call.decision.attempts == 1 for call in stage.flow.active.values()), "refused")
    await dies_and_comes_back(stage, "a")
    await stage.asked()
    await day.send(request_of("d"))
    (await stage.asked()).reply({"ok": 1})
    assert (await day.reply()).status == 200
    assert (await night.reply()).status == 503


WITH_FALLBACK = a_serve(slot="g0", slots=("g0", "g1"), replicas=2, fallback="b", fallback_on=frozenset(FallbackCause))


@story(CHAT_ONLY)
async def test_a_token_count_is_never_sent_as_a_request_for_an_answer(stage: Stage) -> None:
    stage.fleet.ports["a"] = NOBODY_LISTENS
    client = await stage.client()
    body = {"model": "a", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    await client.send(compose_request("POST", "/v1/messages/count_tokens", body))
    assert (await client.reply()).status == 502
    assert (await stage.sealed()).attempts == 0, "no request for an answer was sent, to whatever port"


@story(WITH_FALLBACK, a_serve("b"), slots=SLOTS)
async def test_every_replica_that_failed_before_the_fallback_is_named(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    for _ in range(2):
        (await stage.asked()).reply({"error": {"message": "x"}}, "500 Internal Server Error")
    (await stage.asked()).reply({"ok": 1})
    assert (await client.reply()).status == 200
    decision = await stage.sealed()
    assert sorted(one.serve for one in decision.tried) == ["a@g0", "a@g1", "b"]
    assert decision.tried[-1].serve == "b"


@story(a_serve(fallback="b", fallback_on=frozenset(FallbackCause)), a_serve("b"))
async def test_an_attempt_that_its_client_left_has_its_tokens(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(stream=True))
    (await stage.asked()).reply({"error": {"message": "x"}}, "500 Internal Server Error")
    asked = await stage.asked()
    asked.begin()
    asked.say("x")
    head = await client.head()
    async for _ in client.events(head):
        break
    client.abort()
    decision = await stage.sealed()
    assert decision.outcome == "client_left"
    left = decision.tried[-1]
    assert (left.serve, left.outcome) == ("b", "left")
    assert (left.input_tokens, left.output_tokens) == (decision.input_tokens, decision.output_tokens) != (None, None)
