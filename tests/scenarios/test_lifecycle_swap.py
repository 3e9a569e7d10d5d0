"""Swapping: who goes when, what a drain is, what it costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import STREAMING, Talk, ask, closing_errors, errors, is_complete, said, story, words
from tests.scenarios.plane import Plane, running, serve, until

from stoker_lab.testing.script.script import Script


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("a"),
        serve("b"),
        serve("c"),
        serve("short", slot="brief"),
        serve("next", slot="brief"),
        serve("stubborn", Script(ignore_sigterm=True), slot="rough", stop_grace="500ms"),
        serve("large", slot="memory", memory="6GiB"),
        serve("small", slot="memory", memory="3GiB"),
        serve("middle", slot="memory", memory="5GiB"),
        slots="""
[slots.gpu0]
[slots.rough]
[slots.memory]
memory = "10GiB"
[slots.brief.swap]
drain_timeout = "300ms"
""",
    ) as plane:
        yield plane


@story
async def test_a_victim_with_two_streams_is_stopped_only_after_both_ended(plane: Plane) -> None:
    """Behaviour 4."""
    script = "script: gap=0.02 tokens={}"
    async with (
        Talk(plane, "a", script.format(40), stream=True) as one,
        Talk(plane, "a", script.format(60), stream=True) as two,
    ):
        await one.event()
        await two.event()
        pid = plane.serve("a")["pid"]
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(ask(plane, "b"))
            await until(lambda: plane.slot()["swap"] is not None, "the swap is decided")
            swap = plane.slot()["swap"]
            assert (swap["phase"], swap["target"], swap["stopping"]) == ("draining", "b", ["a"])
            assert await one.text() == words(40)
            assert (plane.serve("a")["pid"], plane.starts("b")) == (pid, 0), "two still streams"
            assert await two.text() == words(60)
    assert asked.result().status == 200
    assert (plane.slot()["resident"], plane.starts("b")) == (["b"], 1)


@story
async def test_three_models_in_one_slot_are_each_started_once_and_serve_two(plane: Plane) -> None:
    """Behaviour 5."""
    before = {name: plane.starts(name) for name in "abc"}
    async with asyncio.TaskGroup() as tasks:
        asked = []
        for name in "abcabc":
            asked.append(tasks.create_task(ask(plane, name)))
            await asyncio.sleep(0.005)  # in this order on the wire; all before the first is loaded
    assert [task.result().status for task in asked] == [200] * 6
    assert {name: plane.starts(name) - before[name] for name in "abc"} == {"a": 1, "b": 1, "c": 1}


@story
async def test_a_request_during_a_stop_waits_for_it_and_gets_a_fresh_process(plane: Plane) -> None:
    """Behaviour 9."""
    await ask(plane, "stubborn")
    old = plane.serve("stubborn")["pid"]
    async with asyncio.TaskGroup() as tasks:
        unload = tasks.create_task(asyncio.to_thread(plane.admin, "unload", serve="stubborn"))
        await until(lambda: plane.serve("stubborn")["state"] == "stopping", "SIGTERM is out")
        reply = await ask(plane, "stubborn")
    assert (reply.status, unload.result()[0]) == (200, 200)
    assert plane.serve("stubborn")["pid"] != old
    assert old not in plane.processes()


@pytest.mark.heavy
@story
async def test_the_swaps_of_two_alternating_clients_are_bounded_by_the_settings(plane: Plane) -> None:
    """Behaviour 14."""
    residency, rounds = 0.5, 24
    text = f'min_residency = "{residency}s"\nlinger = "20ms"\nmax_wait = "2s"\ndrain_timeout = "2s"'

    async def client(name: str) -> None:
        for _ in range(rounds):
            assert (await ask(inner, name, "script: tokens=2")).status == 200
            await asyncio.sleep(0.06)  # think time, longer than linger: each gap would be enough for a swap

    with running(serve("a"), serve("b"), swap=text) as inner:
        began = time.monotonic()
        await asyncio.gather(client("a"), client("b"))
        took = time.monotonic() - began
        swaps = inner.slot()["swaps"]
    assert swaps >= 2
    assert swaps <= took / residency + 2
    assert swaps < 2 * rounds / 4, f"{swaps} swaps for {2 * rounds} requests"


@story
async def test_a_client_that_keeps_a_busy_for_ever_does_not_starve_b(plane: Plane) -> None:
    """Behaviour 15; with k other models it is held by the scheduler's own tests."""
    is_over = False

    async def busy(lane: int) -> None:
        await until(lambda: plane.serve("short")["in_flight"] == lane, "the lanes overlap: it is never idle")
        while not is_over:
            await ask(plane, "short", f"script: first_event_after={0.2 + 0.07 * lane}")

    await ask(plane, "short")
    async with asyncio.TaskGroup() as tasks:
        for lane in range(3):
            tasks.create_task(busy(lane))
        await until(lambda: plane.serve("short")["in_flight"] == 3, "a is busy")
        began = time.monotonic()
        assert (await ask(plane, "next")).status == 200
        waited = time.monotonic() - began
        is_over = True
    max_wait, drain_timeout, stop_grace, start = 0.3, 0.3, 2.0, plane.serve("next")["swap_seconds"]
    assert waited < max_wait + drain_timeout + stop_grace + 3 * start


@story
async def test_a_request_for_a_draining_victim_queues_behind_the_swap_and_does_not_prolong_it(plane: Plane) -> None:
    """Behaviour 16."""
    order: list[str] = []

    async def done(name: str) -> None:
        assert (await ask(plane, name, "script: tokens=1")).status == 200
        order.append(name)

    async with Talk(plane, "a", "script: gap=0.02 tokens=60", stream=True) as stream, asyncio.TaskGroup() as tasks:
        await stream.event()
        before = plane.starts("a")
        tasks.create_task(done("b"))
        await until(lambda: plane.serve("a")["state"] == "draining", "the drain")
        tasks.create_task(done("a"))
        await until(lambda: plane.serve("a")["queued"] == 1, "it is not admitted")
        assert plane.serve("a")["in_flight"] == 1
        assert await stream.text() == words(60)
        order.append("stream")
    assert order == ["stream", "b", "a"]
    assert plane.starts("a") == before + 1


@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_streams_past_the_drain_timeout_end_with_one_error_event_in_their_dialect(
    plane: Plane, dialect: str
) -> None:
    """Behaviour 17."""
    async with Talk(plane, "short", "script: gap=0.02 tokens=5000", dialect, stream=True) as stream:
        await stream.event()
        async with asyncio.TaskGroup() as tasks:
            swap = tasks.create_task(asyncio.to_thread(plane.admin, "switch", serve="next"))
            events = await stream.rest()
        assert swap.result()[0] == 200
        request_id = (await stream.opened()).header("x-request-id")
    found = errors(events, dialect)
    assert len(found) == 1
    assert closing_errors(events, dialect) == found, "something came after the error"
    assert found[0]["code"] == "cut"
    assert "next" in found[0]["message"]
    assert not is_complete(events, dialect)
    assert any(said(event, dialect) for event in events[:-1])
    assert plane.decision(request_id or "")["outcome"] == "cut"
    metrics = plane.ask("GET", "/metrics")[1]
    series = f'endpoint="{stream.path}",outcome="cut",serve="short",status="200"'
    counted = [line for line in metrics.splitlines() if series in line]
    assert [line.split()[-1] for line in counted if line.startswith("stoker_requests_total")] == ["1.0"], counted


@story
async def test_a_serve_that_does_not_fit_takes_the_place_of_the_one_that_must_go(plane: Plane) -> None:
    """Behaviour 22: what a victim takes is counted as credit, and what fits beside it stays."""
    for name in ("large", "small"):
        assert (await ask(plane, name)).status == 200
    assert plane.slot("memory")["resident"] == ["large", "small"]
    small = plane.serve("small")["pid"]
    assert (await ask(plane, "middle")).status == 200
    assert sorted(plane.slot("memory")["resident"]) == ["middle", "small"]
    assert plane.serve("small")["pid"] == small


@story
async def test_a_serve_that_can_never_fit_is_refused_with_the_shortfall_and_nothing_stops() -> None:
    """Behaviour 22."""
    with running(
        serve("kept", memory="6GiB", keep_loaded=True),
        serve("b", memory="5GiB"),
        slots='[slots.gpu0]\nmemory = "10GiB"',
    ) as plane:
        await until(lambda: plane.serve("kept")["state"] == "ready", "the kept one is loaded by itself")
        async with Talk(plane, "kept", "script: gap=0.02 tokens=20", stream=True) as stream:
            await stream.event()
            reply = await ask(plane, "b")
            assert (reply.status, reply.json()["error"]["code"]) == (503, "no_fit")
            assert "1.0 GiB" in reply.json()["error"]["message"]
            assert reply.header("retry-after") is not None
            assert await stream.text() == words(20)
        assert (plane.serve("kept")["state"], plane.starts("kept"), plane.starts("b")) == ("ready", 1, 0)
