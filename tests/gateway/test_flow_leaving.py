"""A client that leaves is noticed wherever its request stands: the upstream call ends, the place is free."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.flow_stage import CHAT, Stage, a_serve, ask, story

from stoker.domain.serve import Slot
from stoker.request.relay.pool import ConnectionPool
from stoker_lab.testing.client import RawClient, compose_request
from stoker_lab.testing.fleet import FakeFleet

LARGE = "x" * 300_000


async def leave(client: RawClient, how: str) -> None:
    if how == "reset":
        client.abort()
    else:
        await client.close()


async def client_left(stage: Stage) -> None:
    """The one decision says so, and everything is given back."""
    decision = await stage.sealed()
    assert decision.outcome == "client_left"
    await stage.quiet()


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("filler", ["", LARGE], ids=["small", "large"])
def test_before_the_first_byte(filler: str, stream: bool, how: str) -> None:
    """A large body too: reading must not stay paused behind it."""

    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(stream=stream, filler=filler))
        talk = await stage.asked()
        await leave(client, how)
        async with asyncio.timeout(1):
            await talk.gone.wait()
        await client_left(stage)

    tell()


@story()
async def test_within_its_body(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask()[:-5])
    await stage.until(lambda: stage.flow.active)
    await leave(client, "close")
    await client_left(stage)
    assert stage.lines == []


@pytest.mark.parametrize("filler", ["", LARGE], ids=["small", "large"])
def test_while_queued_its_place_is_free(filler: str) -> None:
    @story(a_serve(max_active=1, queue=1))
    async def tell(stage: Stage) -> None:
        first, second, third = [await stage.client() for _ in range(3)]
        await first.send(ask())
        talk = await stage.asked()
        await second.send(ask(filler=filler))
        await stage.until(lambda: stage.conductor.statistics()["waiting"])
        await leave(second, "close")
        await stage.until(lambda: not stage.conductor.statistics()["waiting"])
        assert [d.outcome for d in stage.decisions] == ["client_left"]
        await third.send(ask(seed=3))
        await stage.until(lambda: stage.conductor.statistics()["waiting"])
        talk.reply({})
        talk = await stage.asked()
        assert talk.json()["seed"] == 3
        talk.reply({})
        assert (await third.reply()).status == 200

    tell()


def gated(*names: str) -> FakeFleet:
    fleet = FakeFleet()
    fleet.gates = {name: asyncio.Event() for name in names}
    return fleet


@story(a_serve(slot="gpu"), slots=(Slot("gpu"),), fleet=lambda: gated("a"))
async def test_while_its_model_loads(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(filler=LARGE))
    await stage.until(lambda: "start a" in stage.fleet.journal)
    await leave(client, "close")
    await stage.until(lambda: not stage.left()["seated"])
    stage.fleet.gates["a"].set()  # the load itself goes on: whoever comes next finds the model ready
    await client_left(stage)
    assert stage.lines == []


@pytest.mark.parametrize("how", ["close", "reset"])
def test_in_the_middle_of_its_stream(how: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(stream=True))
        talk = await stage.asked()
        talk.begin()
        talk.say("x")
        await client.head()
        await leave(client, how)
        async with asyncio.timeout(1):
            await talk.gone.wait()
        await client_left(stage)

    tell()


@story()
async def test_after_the_opening_frames(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.chunk(b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n')
    await asyncio.sleep(0.01)
    await leave(client, "close")
    await talk.gone.wait()
    await client_left(stage)


@story()
async def test_in_the_middle_of_a_reply_that_is_no_stream(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    talk = await stage.asked()
    talk.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    await asyncio.sleep(0.01)
    await leave(client, "close")
    await talk.gone.wait()
    await client_left(stage)


@story(a_serve(context=100))
async def test_while_its_tokens_are_counted(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(filler="x" * 400))
    talk = await stage.asked()
    assert b"input_tokens" in talk.head
    await leave(client, "close")
    async with asyncio.timeout(1):
        await talk.gone.wait()
    await client_left(stage)


@story()
async def test_while_the_connection_to_the_serve_is_made(stage: Stage) -> None:
    """A host that swallows packets must not hold the lease for the whole connect timeout."""
    begun, hangs = asyncio.Event(), asyncio.Event()

    async def never(self: ConnectionPool, target: object) -> object:
        begun.set()
        try:
            await hangs.wait()
        finally:
            hangs.set()
        return None

    client = await stage.client()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ConnectionPool, "open", never)
        await client.send(ask())
        await begun.wait()
    assert stage.conductor.statistics()["leases"]
    await leave(client, "close")
    async with asyncio.timeout(5):
        await hangs.wait()
    await client_left(stage)


@story()
async def test_with_a_request_behind_it_in_the_pipeline(stage: Stage) -> None:
    """Neither the request under way nor the one that never began may complain."""
    client = await stage.client()
    await client.send(ask(stream=True) + ask(seed=2))
    talk = await stage.asked()
    talk.begin()
    talk.say("x")
    await client.head()
    await leave(client, "reset")
    while not talk.gone.is_set():  # nobody reads on behind a pipelined request: the next writes tell
        talk.say("y")
        await asyncio.sleep(0.001)
    await client_left(stage)
    assert len(stage.lines) == 1


@story()
async def test_after_its_reply_nothing_is_touched(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.say("x")
    talk.end()
    head = await client.head()
    await client.body(head)
    await leave(client, "reset")
    await stage.until(lambda: not stage.state.connections)
    assert (await stage.sealed()).outcome == "served"
    other = await stage.client()
    await other.send(ask())
    again = await stage.asked()
    assert again is talk, "the kept connection is used again"
    again.reply({})
    assert (await other.reply()).status == 200


@story(a_serve(max_active=100, queue=100))
async def test_a_hundred_clients_that_leave_anywhere_leave_nothing(stage: Stage) -> None:
    async def one(n: int) -> None:
        client = await stage.client()
        request = ask(stream=n % 2 == 0, n=n)
        await client.send(request[: len(request) - n % 7])
        for _ in range(n % 11):
            await asyncio.sleep(0)
        await leave(client, "reset" if n % 3 else "close")

    async def answer() -> None:
        while True:
            talk = await stage.talks.get()
            talk.begin()
            talk.say("x")
            if talk.json()["n"] % 5 == 0:
                talk.end()

    async with asyncio.TaskGroup() as group:
        answering = group.create_task(answer())
        for at in range(0, 100, 10):
            async with asyncio.TaskGroup() as clients:
                for n in range(at, at + 10):
                    clients.create_task(one(n))
        await stage.quiet()
        answering.cancel()
    assert {d.outcome for d in stage.decisions} <= {"client_left", "served"}


@story()
async def test_a_health_check_that_leaves_at_once_is_no_matter(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("GET", "/healthz") + compose_request("POST", CHAT))
    await leave(client, "reset")
    await stage.until(lambda: not stage.state.connections)
