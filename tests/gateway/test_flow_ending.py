"""A request that Stoker itself ends: drain cut, operator's cancel, limits, shutdown; told once, and nothing is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.gateway.flow_stage import CHAT, Stage, Talk, a_serve, ask, story

from stoker.domain.dialect import Dialect
from stoker.domain.errors import CapacityError
from stoker.domain.key import Key
from stoker.domain.serve import Secret, Slot, SwapPolicy
from stoker.fleet.swapping.conductor import Conductor
from stoker.request.codec.reply_formats import FORMATS
from stoker_lab.testing.client import RawClient

GPU = (Slot("gpu", swap=SwapPolicy(drain_timeout=0.05)),)
BOTH = (a_serve("a", slot="gpu"), a_serve("b", slot="gpu"))


def error_of(body: bytes) -> Any:
    return json.loads(body)["error"]


async def begun(stage: Stage, **fields: Any) -> tuple[RawClient, Talk]:
    client = await stage.client()
    await client.send(ask(**fields))
    return client, await stage.asked()


# -- 17: the drain's deadline ----------------------------------------------------------------------------------------


@story(*BOTH, slots=GPU)
async def test_at_the_drain_timeout_a_stream_ends_with_one_error_event(stage: Stage) -> None:
    client, talk = await begun(stage, stream=True)
    talk.begin()
    talk.say("x")
    head = await client.head()
    await stage.conductor.switch("b")
    await talk.gone.wait()
    events = [event async for event in client.events(head)]
    assert [e.json()["error"]["code"] for e in events[1:]] == ["cut"]
    assert (await stage.sealed()).outcome == "cut"


@story(*BOTH, slots=GPU)
async def test_at_the_drain_timeout_a_request_without_a_byte_gets_503(stage: Stage) -> None:
    client, talk = await begun(stage)
    await stage.conductor.switch("b", drain_timeout=0)
    reply = await client.reply()
    assert (reply.status, error_of(reply.body)["code"], reply.header("retry-after")) == (503, "cut", "1")
    await talk.gone.wait()


# -- the operator ----------------------------------------------------------------------------------------------------


def only(stage: Stage) -> str:
    (request_id,) = stage.flow.active
    return request_id


@story()
async def test_cancel_in_the_middle_of_a_stream(stage: Stage) -> None:
    client, talk = await begun(stage, stream=True)
    talk.begin()
    talk.say("x")
    head = await client.head()
    assert stage.flow.cancel(only(stage))
    events = [event async for event in client.events(head)]
    assert events[-1].json()["error"]["code"] == "cut"
    await talk.gone.wait()
    assert not stage.flow.cancel("req_unknown")


@story(a_serve(slot="gpu"), slots=GPU)
async def test_cancel_while_it_waits_for_a_load(stage: Stage) -> None:
    stage.fleet.gates["a"] = asyncio.Event()
    client = await stage.client()
    await client.send(ask())
    await stage.until(lambda: stage.conductor.statistics()["waiting"])
    assert stage.flow.cancel(only(stage))
    assert (await client.reply()).status == 503
    assert (await stage.sealed()).outcome == "cut"
    stage.fleet.gates["a"].set()


@story(a_serve(context=100))
async def test_cancel_while_its_tokens_are_counted(stage: Stage) -> None:
    client, talk = await begun(stage, filler="x" * 400)
    assert stage.flow.cancel(only(stage))
    reply = await client.reply()
    assert (reply.status, error_of(reply.body)["code"]) == (503, "cut")
    await talk.gone.wait()


@story()
async def test_cancel_while_its_body_comes_is_heard_when_it_is_there(stage: Stage) -> None:
    client = await stage.client()
    request = ask()
    await client.send(request[:-3])
    await stage.until(lambda: stage.flow.active)
    assert stage.flow.cancel(only(stage))
    await client.send(request[-3:])
    assert error_of((await client.reply()).body)["code"] == "cut"
    assert stage.lines == []


class Held:
    """A conductor's `acquire` whose grant the story makes itself."""

    def __init__(self) -> None:
        self.waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def acquire(self, name: str, *details: Any) -> asyncio.Future[Any]:
        return self.waiting


@pytest.mark.parametrize("how", ["cancel", "leave", "task"])
def test_what_ends_a_request_in_the_moment_of_its_grant_is_not_lost(how: str) -> None:
    """The lease is granted, but the request has not heard of it yet."""

    @story()
    async def tell(stage: Stage) -> None:
        got = stage.conductor.acquire("a")
        lease = await got if isinstance(got, asyncio.Future) else got
        held = Held()
        client = await stage.client()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Conductor, "acquire", held.acquire)
            await client.send(ask())
            await stage.until(lambda: stage.flow.active)
        (call,) = stage.flow.active.values()
        held.waiting.set_result(lease)
        match how:
            case "cancel":
                assert stage.flow.cancel(call.decision.id)
            case "leave":
                call.leave()
            case "task":
                (task,) = stage.state.tasks
                task.cancel()
        decision = await stage.sealed()
        assert decision.outcome == ("client_left" if how == "leave" else "cut")
        await stage.quiet()
        assert stage.lines == []
        if how == "leave":
            client.abort()
        else:
            assert (await client.reply()).status == 503
        stage.complaints.clear()  # a task that was cancelled is logged

    tell()


# -- limits ----------------------------------------------------------------------------------------------------------


@story(a_serve(max_active=1, queue=1, queue_timeout=0.0))
async def test_25_without_patience_one_too_many_is_503_before_any_byte(stage: Stage) -> None:
    first, talk = await begun(stage, stream=True)
    second = await stage.client()
    await second.send(ask(stream=True))
    reply = await second.reply()
    assert (reply.status, error_of(reply.body)["code"], reply.header("retry-after")) == (503, "no_place", "1")
    assert error_of(reply.body)["source"] == "stoker"
    talk.reply({})
    assert (await first.reply()).status == 200


@story(a_serve(max_active=1, queue=1))
async def test_27_a_full_queue_is_503(stage: Stage) -> None:
    first, talk = await begun(stage)
    waiting, third = await stage.client(), await stage.client()
    await waiting.send(ask(seed=2))
    await stage.until(lambda: stage.conductor.statistics()["waiting"])
    reply = await third.ask("POST", CHAT, {"model": "a"})
    assert (reply.status, reply.json()["error"]["code"]) == (503, "queue_full")
    talk.reply({})
    await first.reply()
    (await stage.asked()).reply({})
    assert (await waiting.reply()).status == 200
    assert max(d.queued or 0.0 for d in stage.decisions) > 0


@story(keys=(Key("k", Secret("v", "env:K"), max_active=1),))
async def test_a_keys_own_limit_is_429_and_its_place_comes_back(stage: Stage) -> None:
    key = (("authorization", "Bearer v"),)
    first, talk = await begun(stage, headers=key)
    second = await stage.client()
    await second.send(ask(headers=key))
    assert (await second.reply()).status == 429
    talk.reply({})
    await first.reply()
    again, talk = await begun(stage, headers=key)
    assert b"authorization" not in talk.head.lower(), "the key never reaches an upstream"
    talk.reply({})
    assert (await again.reply()).status == 200
    assert {d.key for d in stage.decisions} == {"k"}, "also of the one that was refused"


@pytest.mark.parametrize(("tokens", "status"), [(990, 200), (999, 200), (1000, 400)])
def test_29_a_prompt_that_leaves_room_is_accepted_any_other_is_not(tokens: int, status: int) -> None:
    @story(a_serve(context=1000))
    async def tell(stage: Stage) -> None:
        client, counting = await begun(stage, filler="x" * 1000, max_tokens=10)
        assert counting.head.startswith(b"POST /v1/chat/completions/input_tokens ")
        assert counting.json()["model"] == "engine"
        counting.reply({"input_tokens": tokens})
        if status == 200:
            (await stage.asked()).reply({})
        reply = await client.reply()
        assert reply.status == status
        if status == 400:
            assert error_of(reply.body)["code"] == "context_length_exceeded"

    tell()


@pytest.mark.parametrize("answer", [{"n": 1}, [], "x"])
def test_a_serve_that_cannot_count_lets_it_pass(answer: object) -> None:
    @story(a_serve(context=10))
    async def tell(stage: Stage) -> None:
        client, counting = await begun(stage)
        counting.reply(answer)
        (await stage.asked()).reply({})
        assert (await client.reply()).status == 200

    tell()


@story()
async def test_a_small_request_is_not_counted(stage: Stage) -> None:
    client, talk = await begun(stage)
    assert talk.head.startswith(b"POST /v1/chat/completions ")
    talk.reply({})
    assert (await client.reply()).status == 200


# -- ids, draining, shutdown, bugs -----------------------------------------------------------------------------------


@story()
async def test_two_requests_under_one_given_id_are_two(stage: Stage) -> None:
    same = (("x-request-id", "mine"),)
    first, one = await begun(stage, headers=same)
    second, two = await begun(stage, headers=same)
    assert len(stage.flow.active) == 2
    one.reply({})
    assert (await first.reply()).header("x-request-id") == "mine"
    await stage.until(lambda: len(stage.flow.active) == 1)
    two.reply({})
    other = (await second.reply()).header("x-request-id")
    assert other is not None
    assert other.startswith("req_")


@pytest.mark.parametrize(
    ("given", "kept"), [("a.b:C-1_", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("é", False)]
)
def test_a_plain_request_id_is_kept(given: str, kept: bool) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        reply = await client.ask("POST", CHAT, {"model": "zz"}, x_request_id=given)
        assert (reply.header("x-request-id") == given) is kept

    tell()


@story()
async def test_while_draining_nothing_new_is_admitted(stage: Stage) -> None:
    stage.flow.is_draining = True
    client = await stage.client()
    reply = await client.ask("POST", "/v1/messages", {"model": "a"})
    assert (reply.status, reply.json()["error"]["type"]) == (529, "overloaded_error")
    client = await stage.client()
    assert (await client.ask("GET", "/readyz")).status == 503
    assert (await client.ask("GET", "/healthz")).json() == {"status": "draining"}


@story()
async def test_shutdown_cuts_what_does_not_end(stage: Stage) -> None:
    client, talk = await begun(stage, stream=True)
    talk.begin()
    talk.say("x")
    head = await client.head()
    await stage.conductor.shut_down(0.01)
    events = [event async for event in client.events(head)]
    assert events[-1].json()["error"]["code"] == "cut"


def failing(error: Exception) -> Callable[..., Any]:
    """A conductor's `acquire` that raises."""

    def acquire(self: Conductor, name: str, *details: Any) -> Any:
        raise error

    return acquire


@story()
async def test_a_bug_of_ours_is_500_without_its_words(stage: Stage) -> None:
    client = await stage.client()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Conductor, "acquire", failing(ZeroDivisionError("secret inner words")))
        reply = await client.ask("POST", CHAT, {"model": "a"})
    assert (reply.status, reply.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in reply.body.decode()
    decision = await stage.sealed()
    assert (decision.outcome, decision.id in reply.json()["error"]["message"]) == ("bug", True)
    assert any("secret inner words" in text for text in stage.complaints), "the log has it"
    stage.complaints.clear()


@story()
async def test_a_bug_in_the_relay_ends_the_request_all_the_same(stage: Stage) -> None:
    """Socket callbacks have nobody above them: without care the request would wait for ever."""
    client, talk = await begun(stage)
    with pytest.MonkeyPatch.context() as patched:
        patched.delitem(FORMATS, Dialect.CHAT)
        talk.reply({"choices": []})
        reply = await client.reply()
    assert reply.status == 500
    stage.complaints.clear()


def test_leases_that_are_refused_at_once_are_told() -> None:
    @story()
    async def tell(stage: Stage) -> None:
        error = CapacityError("full", code="full", retry_after=7.0)
        client = await stage.client()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Conductor, "acquire", failing(error))
            reply = await client.ask("POST", CHAT, {"model": "a", "stream": True})
        assert (reply.status, reply.header("retry-after")) == (503, "7")

    tell()
