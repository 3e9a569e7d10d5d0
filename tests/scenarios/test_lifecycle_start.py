"""Starting: once, together, alone, and what happens when it fails."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import Talk, ask, document, story, words
from tests.scenarios.plane import Plane, free_port, poll, running, serve, until

from stoker_lab.testing.client import RawClient, RawReply
from stoker_lab.testing.script.script import Script

FIXED = free_port()


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("quick"),
        serve("slow", Script(listen_after=0.7)),
        serve("other", Script(listen_after=0.7), slot="gpu1"),
        serve("late", Script(ready_after=0.7)),
        serve("dies", Script(listen_after=10, crash_after=0.5, exit_code=3, last_words="boom: out of memory")),
        serve("wrong", Script(shown_id="somebody-else")),
        serve("missing", engine="llama.cpp", model="gone.gguf", cmd=None, embedded=True, dialects=["chat"]),
        serve("fixed", port=FIXED, slot=None),
        slots="[slots.gpu0]\n[slots.gpu1]",
    ) as plane:
        yield plane


@story
async def test_a_stopped_serve_that_is_named_starts_once_and_answers(plane: Plane) -> None:
    """Behaviour 1."""
    reply = await ask(plane, "quick")
    assert reply.json()["choices"][0]["message"]["content"] == words(20)
    assert plane.starts("quick") == 1
    assert reply.header("x-stoker-serve") == "quick"


@story
async def test_three_requests_for_a_loading_serve_make_one_start(plane: Plane) -> None:
    """Behaviour 2."""
    before = plane.starts("slow")
    replies = await asyncio.gather(*(ask(plane, "slow") for _ in range(3)))
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert plane.starts("slow") == before + 1
    assert plane.scripted("slow")["finished"] == 3


@story
async def test_a_failed_start_tells_every_waiter_and_the_next_attempt_waits_for_the_back_off(plane: Plane) -> None:
    """Behaviour 3."""
    replies = await asyncio.gather(*(ask(plane, "dies", stream=stream) for stream in (True, False, True)))
    for reply in replies:
        assert reply.status == 503
        assert "boom: out of memory" in reply.json()["error"]["message"]
        assert reply.json()["error"]["source"] == "stoker"
        assert reply.header("retry-after") == "1"
    entry = plane.serve("dies")
    assert (entry["state"], entry["in_flight"], entry["queued"]) == ("backoff", 0, 0)
    assert "boom" in entry["last_error"]
    began = time.monotonic()
    async with Talk(plane, "dies", stream=True) as waiting:
        await until(lambda: plane.serve("dies")["queued"] == 1, "it waits for the back-off")
        assert plane.serve("dies")["state"] in ("backoff", "starting")
        await until(lambda: plane.serve("dies")["state"] == "starting", "the next attempt")
        assert time.monotonic() - began > 0.5, "the back-off of one second was not kept"
        assert (await waiting.reply()).status == 503


@story
async def test_two_slots_load_in_parallel_and_neither_waits_for_the_other(plane: Plane) -> None:
    """Behaviour 6."""
    async with Talk(plane, "slow") as one, Talk(plane, "other") as two:
        await until(
            lambda: plane.serve("slow")["state"] == plane.serve("other")["state"] == "starting", "both load at once"
        )
        assert [(await one.reply()).status, (await two.reply()).status] == [200, 200]


@story
async def test_a_client_that_leaves_while_its_model_is_queued_never_starts_it(plane: Plane) -> None:
    """Behaviour 7."""
    before = plane.starts("quick")
    async with Talk(plane, "slow") as loading:
        await until(lambda: plane.serve("slow")["state"] == "starting", "slow loads")
        async with Talk(plane, "quick") as leaving:
            await until(lambda: plane.serve("quick")["queued"] == 1, "quick is queued")
            leaving.abort()
        await until(lambda: plane.serve("quick")["queued"] == 0, "the client's leaving is noticed")
        assert (await loading.reply()).status == 200
    assert plane.slot()["waiting"] == 0
    assert plane.starts("quick") == before


@story
async def test_clients_that_leave_around_the_moment_of_their_grant_leave_no_lease(plane: Plane) -> None:
    """Behaviour 8."""

    async def leave_after(seconds: float) -> None:
        async with Talk(plane, "slow", "script: gap=0.01 tokens=1000", stream=True) as talk:
            await asyncio.sleep(seconds)  # the very subject: leaving at moments spread over the grant
            talk.abort()

    async with Talk(plane, "slow", "script: gap=0.01 tokens=100", stream=True) as first:
        leaving = asyncio.gather(*(leave_after(0.6 + 0.02 * at) for at in range(30)))
        await first.opened()
        await leaving
        await first.text()
    await until(plane.is_settled, "no lease is left")
    assert plane.serve("slow")["in_flight"] == 0


@story
async def test_an_engine_killed_from_outside_is_noticed_without_a_request_and_starts_again(plane: Plane) -> None:
    """Behaviour 11."""
    assert (await ask(plane, "quick")).status == 200
    first = plane.serve("quick")
    os.kill(first["pid"], signal.SIGKILL)
    await until(lambda: plane.serve("quick")["state"] != "ready", "the exit is noticed", 3.0)
    assert plane.serve("quick")["pid"] is None
    assert "SIGKILL" in plane.serve("quick")["last_error"] or "signal 9" in plane.serve("quick")["last_error"]
    assert (await ask(plane, "quick")).status == 200
    assert plane.serve("quick")["pid"] != first["pid"]


@story
async def test_a_target_without_weights_is_refused_before_the_running_serve_is_touched(plane: Plane) -> None:
    """Behaviour 12."""
    async with Talk(plane, "quick", "script: gap=0.02 tokens=30", stream=True) as talk:
        await talk.event()
        pid = plane.serve("quick")["pid"]
        status, answer = await asyncio.to_thread(plane.admin, "switch", serve="missing")
        assert (status, answer["error"]["code"]) == (503, "cannot_load")
        assert "gone.gguf" in answer["error"]["message"]
        refused = await ask(plane, "missing")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "cannot_load")
        assert (plane.serve("quick")["pid"], plane.serve("quick")["state"]) == (pid, "ready")
        assert (await talk.text()).endswith("tok29")
    assert plane.slot()["resident"] == ["quick"]


@story
async def test_a_target_that_dies_while_loading_is_reported_and_the_previous_serve_is_back(plane: Plane) -> None:
    """Behaviour 13."""
    await ask(plane, "quick")
    before = plane.starts("quick")
    await until(lambda: plane.serve("dies")["backoff"] is None, "an earlier story's back-off is over")
    status, answer = await asyncio.to_thread(plane.admin, "switch", serve="dies")
    assert status == 503
    assert "boom: out of memory" in answer["error"]["message"]
    await until(lambda: plane.serve("quick")["state"] == "ready", "the previous serve is restored", 9.0)
    assert plane.starts("quick") == before + 1
    assert "boom" in plane.serve("dies")["last_error"]


@story
async def test_an_engine_that_answers_with_another_id_is_not_ready_and_the_reason_is_shown(plane: Plane) -> None:
    """Behaviour 23."""
    reply = await ask(plane, "wrong")
    assert reply.status == 503
    for shown in (reply.json()["error"]["message"], plane.serve("wrong")["last_error"]):
        assert "'wrong'" in shown
        assert "'somebody-else'" in shown
    assert plane.serve("wrong")["state"] == "backoff"
    assert not plane.processes(), "the wrong engine still runs"


@story
async def test_status_answers_within_100_ms_during_a_load(plane: Plane) -> None:
    """Behaviour 24."""
    async with Talk(plane, "late") as loading:
        await until(lambda: plane.serve("late")["state"] == "starting", "it loads")
        times = []
        while plane.serve("late")["state"] == "starting":
            began = time.perf_counter()
            swap = plane.slot()["swap"]
            times.append(time.perf_counter() - began)
            assert swap is None or swap["target"] == "late"
        assert (await loading.reply()).status == 200
    assert len(times) > 3
    assert sorted(times)[len(times) * 9 // 10 - 1] < 0.3


@story
async def test_a_stranger_on_the_port_is_named_and_left_alone(plane: Plane) -> None:
    """Behaviour 18, the part about strangers."""
    stranger = await asyncio.create_subprocess_exec(*Script(id="fixed").command(FIXED), stdout=asyncio.subprocess.PIPE)
    assert stranger.stdout is not None
    try:
        await stranger.stdout.readline()
        reply = await ask(plane, "fixed")
        assert (reply.status, reply.json()["error"]["code"]) == (503, "cannot_start")
        assert str(FIXED) in reply.json()["error"]["message"]
        assert str(stranger.pid) in reply.json()["error"]["message"]
        async with RawClient(FIXED) as direct:
            answer: RawReply = await direct.ask("POST", "/v1/chat/completions", document("fixed"))
        assert answer.status == 200, "the stranger was touched"
    finally:
        stranger.terminate()
        await stranger.communicate()


def test_the_plane_itself_prints_where_it_listens(shared: Plane) -> None:
    """What a person sees on the terminal."""
    assert f"listening on http://127.0.0.1:{shared.port}" in shared.said()
    poll(lambda: shared.ask("GET", "/readyz")[0] == 200, "it is ready")
