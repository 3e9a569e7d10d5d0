"""Admission: places, queues, and what is refused before it costs anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import PATHS, Talk, ask, budget, document, story
from tests.scenarios.plane import Plane, running, serve, until

from stoker_lab.testing.client import RawClient, compose_request
from stoker_lab.testing.script.script import Script

HOLD = "script: first_event_after=60"


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("eight", slot=None, max_active=8, queue_timeout="0s"),
        serve("one", slot=None, max_active=1, queue_timeout="10s", queue=3),
        serve("brief", slot=None, max_active=1, queue_timeout="200ms"),
        serve("loads", Script(listen_after=0.6), slot=None, max_active=1, queue_timeout="0s"),
        serve("patient", Script(never_ready=True), slot="impatient", ready_timeout="20s"),
        serve("counts", Script(context=100), slot=None, context=100),
        slots='[slots.impatient.swap]\nswap_timeout = "300ms"',
        swap="",
        keeps_engines=True,
    ) as plane:
        yield plane


@pytest.mark.parametrize("dialect", ["chat", "messages"])
@story
async def test_the_ninth_of_eight_gets_its_503_at_once_and_before_any_event(plane: Plane, dialect: str) -> None:
    """Behaviour 25."""
    await ask(plane, "eight")
    async with contextlib.AsyncExitStack() as open_:
        began = time.monotonic()
        talks = [
            await open_.enter_async_context(Talk(plane, "eight", "script: first_event_after=1", dialect, stream=True))
            for _ in range(9)
        ]
        tasks = await open_.enter_async_context(asyncio.TaskGroup())
        heads = {tasks.create_task(talk.opened()): talk for talk in talks}
        done, others = await asyncio.wait(heads, return_when=asyncio.FIRST_COMPLETED)
        took = time.monotonic() - began
        assert [task.result().status for task in done] == [503]
        assert took < 3 * 0.25
        assert plane.serve("eight")["in_flight"] == 8
        head = done.pop().result()
        assert int(head.header("retry-after") or 0) >= 1
        assert head.header("content-type") == "application/json"
        assert [(await task).status for task in others] == [200] * 8


@story
async def test_a_waiter_runs_when_a_place_is_freed_first_come_first_served_its_wait_recorded(plane: Plane) -> None:
    """Behaviour 26."""
    order: list[str] = []
    ids: dict[str, str] = {}

    async def wait_in_line(name: str) -> None:
        reply = await ask(plane, "one", "script: tokens=1", headers=(("x-request-id", f"fifo-{name}"),))
        assert reply.status == 200
        order.append(name)
        ids[name] = reply.header("x-request-id") or ""

    async with Talk(plane, "one", "script: gap=0.02 tokens=30", stream=True) as holder:
        await holder.event()
        async with asyncio.TaskGroup() as tasks:
            for place, name in enumerate(("first", "second", "third"), 1):
                tasks.create_task(wait_in_line(name))
                await until(lambda place=place: plane.serve("one")["queued"] == place, f"{place} wait")  # type: ignore[misc]
            await holder.text()
            order.append("holder")
    assert order == ["holder", "first", "second", "third"]
    assert ids["first"] == "fifo-first"
    waits = [plane.decision(ids[name])["queued"] for name in ("first", "second", "third")]
    assert all(0 < wait < 10 for wait in waits), waits


@story
async def test_a_full_queue_refuses_and_memory_does_not_grow(plane: Plane) -> None:
    """Behaviour 27, and the end of it: every place given back."""
    body = compose_request("POST", PATHS["chat"], document("one", "x" * 50_000))
    await ask(plane, "one")
    async with contextlib.AsyncExitStack() as open_:
        held = [await open_.enter_async_context(Talk(plane, "one", HOLD)) for _ in range(4)]
        await until(lambda: plane.serve("one")["queued"] == 3, "the queue is full")
        client = await open_.enter_async_context(RawClient(plane.port, timeout=30))
        sizes = []
        for number in range(600):
            await client.send(body)
            reply = await client.reply()
            assert (reply.status, reply.json()["error"]["code"]) == (503, "queue_full")
            if number in (199, 599):
                sizes.append(plane.memory())
        assert reply.header("retry-after") is not None
        assert sizes[1] - sizes[0] < 8 * 2**20, "400 refused requests of 50 KB are kept"
        assert plane.serve("one")["queued"] == 3
        for one in held:
            one.abort()
    await until(plane.is_settled, "every place is given back")


@story
async def test_a_waiter_that_leaves_frees_its_place_in_the_queue(plane: Plane) -> None:
    """Behaviour 28."""
    async with Talk(plane, "one", "script: gap=0.02 tokens=50", stream=True) as holder:
        await holder.event()
        async with Talk(plane, "one") as first, Talk(plane, "one") as second, Talk(plane, "one") as third:
            await until(lambda: plane.serve("one")["queued"] == 3, "the queue is full")
            assert (await ask(plane, "one")).status == 503
            second.abort()
            await until(lambda: plane.serve("one")["queued"] == 2, "its place is free")
            async with Talk(plane, "one") as late:
                await until(lambda: plane.serve("one")["queued"] == 3, "another one takes it")
                await holder.text()
                assert [(await one.reply()).status for one in (first, third, late)] == [200, 200, 200]


@story
async def test_waiting_for_a_place_ends_with_queue_timeout(plane: Plane) -> None:
    """The neighbour of behaviour 26: the time is over before a place is free."""
    async with Talk(plane, "brief", HOLD) as holder:
        await until(lambda: plane.serve("brief")["in_flight"] == 1, "the place is taken")
        reply = await ask(plane, "brief")
        assert (reply.status, reply.json()["error"]["code"]) == (503, "queue_timeout")
        assert reply.header("retry-after") is not None
        holder.abort()


@story
async def test_queue_timeout_zero_does_not_refuse_who_waits_for_a_load(plane: Plane) -> None:
    """Behaviour 63."""
    reply = await ask(plane, "loads")
    assert reply.status == 200
    waited = plane.decision(reply.header("x-request-id") or "")["queued"]
    assert waited >= 0.5
    async with Talk(plane, "loads", HOLD) as holder:
        await until(lambda: plane.serve("loads")["in_flight"] == 1, "the place is taken")
        refused = await ask(plane, "loads")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "no_place")
        holder.abort()


@story
async def test_waiting_for_a_load_ends_with_swap_timeout(plane: Plane) -> None:
    """Behaviour 63: its own bound."""
    reply = await ask(plane, "patient")
    assert (reply.status, reply.json()["error"]["code"]) == (503, "swap_timeout")
    assert reply.header("retry-after") is not None


@story
async def test_models_status_and_health_are_never_counted(plane: Plane) -> None:
    """A full serve still answers what is no generation."""
    async with Talk(plane, "one", HOLD) as holder, RawClient(plane.port, timeout=30) as client:
        await until(lambda: plane.serve("one")["in_flight"] == 1, "the place is taken")
        for path in ("/v1/models", "/status", "/healthz", "/readyz", "/upstream/one/v1/models"):
            assert (await client.ask("GET", path)).status == 200, path
        counted = await client.ask("POST", "/v1/messages/count_tokens", document("one", "a b c", "messages"))
        assert counted.json()["input_tokens"] == 3
        holder.abort()


@pytest.mark.parametrize(
    ("dialect", "temperature"), [("chat", "cold"), ("chat", "warm"), ("messages", "cold"), ("responses", "warm")]
)
@story
async def test_a_prompt_above_the_context_is_refused_and_an_output_limit_above_the_room_is_lowered(
    plane: Plane, temperature: str, dialect: str
) -> None:
    """Behaviour 29 with a serve that counts words; with the real llama.cpp in test_real_models.py."""
    plane.unload("counts")
    if temperature == "warm":
        await ask(plane, "counts", dialect="completions")
    over = await ask(plane, "counts", " ".join(["word"] * 100), dialect, **budget(dialect, 41))
    assert over.status == 400
    error = over.json()["error"]
    assert (error["code"], error["source"]) == ("context_length_exceeded", "stoker")
    assert (error["prompt_tokens"], error["output_tokens"], error["context"]) == (100, 41, 100)
    assert ("100 tokens > 100" if dialect == "messages" else "100 prompt + 41 output") in error["message"]
    assert (over.json().get("type") == "error") == (dialect == "messages")
    assert plane.received("counts", PATHS[dialect]) == [], "it reached the serve"
    text = " ".join(["word"] * 60)
    exact = await ask(plane, "counts", text, dialect, **budget(dialect, 40))
    assert (exact.status, exact.header("x-stoker-edits")) == (200, None)
    lowered = await ask(plane, "counts", text, dialect, **budget(dialect, 41))
    assert (lowered.status, lowered.header("x-stoker-edits")) == (200, f"{next(iter(budget(dialect, 1)))}=40")
    for received in plane.received("counts", PATHS[dialect]):
        assert budget(dialect, 40).items() <= json.loads(received["body"]).items()
