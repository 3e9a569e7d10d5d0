"""Stopping and coming back: groups, idle serves, reloads, restarts, crashes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import STREAMING, Talk, ask, closing_errors, errors, is_complete, story, words
from tests.scenarios.plane import Plane, config, free_port, poll, running, serve, until

from stoker_lab.testing.script.script import Script

LONG = "script: gap=0.02 tokens=40"


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("wrapped", Script(wrapper=True)),
        serve("idle", slot=None, idle_unload="400ms"),
        *(serve(f"killed-{dialect}", slot=None) for dialect in STREAMING),
    ) as plane:
        yield plane


@story
async def test_stopping_a_wrapper_script_ends_its_whole_process_group(plane: Plane) -> None:
    """Behaviour 10."""
    await ask(plane, "wrapped")
    before = plane.processes()
    assert len(before) == 2, f"a wrapper and its grandchild: {before}"
    assert plane.serve("wrapped")["pid"] in before
    status, _ = await asyncio.to_thread(plane.admin, "unload", serve="wrapped")
    assert status == 200
    assert not plane.processes(), "the answer came before the group was gone"
    await until(lambda: not plane.opened(), "its pipes are closed")


@story
async def test_a_grandchild_that_outlives_its_killed_wrapper_is_collected(plane: Plane) -> None:
    """Behaviour 10, when the wrapper is killed from outside."""
    await ask(plane, "wrapped")
    os.kill(plane.serve("wrapped")["pid"], signal.SIGKILL)
    await until(lambda: not plane.processes(), "the grandchild goes too")
    assert plane.serve("wrapped")["state"] != "ready"


@story
async def test_an_idle_serve_is_unloaded_and_one_that_is_used_stays(plane: Plane) -> None:
    """Behaviour 21; a request a millisecond before is held by the scheduler's own tests."""
    await ask(plane, "idle")
    pid = plane.serve("idle")["pid"]
    for _ in range(6):
        await asyncio.sleep(0.15)  # the idle time itself is the subject
        assert (await ask(plane, "idle")).status == 200
    assert plane.serve("idle")["pid"] == pid, "it was unloaded between two requests"
    async with Talk(plane, "idle", LONG, stream=True) as stream:
        assert await stream.text() == words(40), "a stream longer than idle_unload"
    assert plane.serve("idle")["pid"] == pid
    await until(lambda: plane.serve("idle")["state"] == "stopped", "it is unloaded")
    assert (await ask(plane, "idle")).status == 200


@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_an_engine_killed_in_mid_stream_gives_one_error_event_and_is_started_again(
    plane: Plane, dialect: str
) -> None:
    """SIGKILL of the engine under a stream: no lease, process or descriptor is left; `settle` looks."""
    name = f"killed-{dialect}"
    async with (
        Talk(plane, name, "script: gap=0.02 tokens=5000", dialect, stream=True) as stream,
        Talk(plane, name, "script: first_event_after=60", dialect) as silent,
    ):
        await stream.event()
        await until(lambda: plane.scripted(name)["in_flight"] == 2, "both are in the engine")
        os.kill(plane.serve(name)["pid"], signal.SIGKILL)
        events = await stream.rest()
        found = errors(events, dialect)
        assert len(found) == 1
        assert closing_errors(events, dialect) == found
        assert found[0]["code"] == "upstream_broke"
        assert not is_complete(events, dialect)
        reply = await silent.reply()
        assert reply.status == 502
        assert reply.json()["error"]["source"] == "stoker"
    assert plane.serve(name)["in_flight"] == 0


@story
async def test_a_reload_of_one_serve_leaves_the_others_and_their_streams_untouched() -> None:
    """Behaviour 20."""
    with running(serve("a", slot=None), serve("b", slot=None)) as plane:
        await ask(plane, "b")
        async with Talk(plane, "a", "script: gap=0.02 tokens=60", stream=True) as stream:
            await stream.event()
            a, b = plane.serve("a")["pid"], plane.serve("b")["pid"]
            changed = serve("b", Script(context=2048), slot=None)
            plane.write(config(serve("a", slot=None, queue=7), changed, serve("c", slot=None)))
            status, answer = plane.admin("reload")
            assert status == 200, answer
            assert (answer["changed"], answer["added"], answer["removed"]) == (["a", "b"], ["c"], [])
            assert (await ask(plane, "b")).status == 200
            assert (await ask(plane, "c")).status == 200
            assert await stream.text() == words(60)
        assert plane.serve("a")["pid"] == a
        assert plane.serve("b")["pid"] != b
        assert plane.serve("b")["facts"]["n_ctx"] == 2048


@story
async def test_a_reload_with_problems_changes_nothing() -> None:
    """The neighbour of behaviour 20."""
    with running(serve("a", slot=None)) as plane:
        await ask(plane, "a")
        pid = plane.serve("a")["pid"]
        plane.write(config(serve("a", slot=None, contxt=5)))
        status, answer = plane.admin("reload")
        assert (status, answer["error"]["code"]) == (400, "config_error")
        assert "contxt" in answer["error"]["message"]
        assert "context" in answer["error"]["message"], "the nearest known key"
        assert (await ask(plane, "a")).status == 200
        assert plane.serve("a")["pid"] == pid


@story
async def test_sigterm_lets_a_stream_end_normally_and_the_exit_code_is_0() -> None:
    """Behaviour 19."""
    with running(serve("a")) as plane:
        async with Talk(plane, "a", LONG, stream=True) as stream:
            await stream.event()
            plane.signal(signal.SIGTERM)
            assert await stream.text() == words(40)
        assert await asyncio.to_thread(plane.exit_code) == 0
        assert "stopped" in plane.said()


@story
async def test_a_second_signal_ends_at_once() -> None:
    """Behaviour 19."""
    with running(serve("a")) as plane:
        async with Talk(plane, "a", "script: gap=0.02 tokens=5000", stream=True) as stream:
            await stream.event()
            plane.signal(signal.SIGINT)
            await stream.event()
            began = time.monotonic()
            await until(lambda: not _listens(plane), "the first signal is noticed")
            plane.signal(signal.SIGINT)
            events = await stream.rest()
            assert len(errors(events, "chat")) == 1
        assert await asyncio.to_thread(plane.exit_code) == 0
        assert time.monotonic() - began < 10


STUBBORN = {"stop_grace": "60s"}


@story
async def test_a_second_signal_kills_engines_that_ignore_the_first() -> None:
    """At most 2 s in all, and nothing is left: no process, no socket, no record."""
    with running(
        serve("a", Script(ignore_sigterm=True), slot=None, **STUBBORN),
        serve("b", Script(ignore_sigterm=True, wrapper=True), slot=None, **STUBBORN),
        swap="",
    ) as plane:
        await ask(plane, "a")
        await ask(plane, "b")
        assert len(plane.processes()) == 3
        plane.signal(signal.SIGINT)
        await until(lambda: not _listens(plane), "the first signal is noticed")
        await asyncio.sleep(0.3)  # it asks the engines now, which do not listen
        began = time.monotonic()
        plane.signal(signal.SIGTERM)
        assert await asyncio.to_thread(plane.exit_code) == 0, plane.said()
        assert time.monotonic() - began < 2


@story
async def test_the_end_of_the_terminal_is_an_orderly_end() -> None:
    with running(serve("a")) as plane:
        async with Talk(plane, "a", "script: gap=0.01 tokens=60", stream=True) as stream:
            first = await stream.event()
            plane.signal(signal.SIGHUP)
            assert is_complete([first, *await stream.rest()], "chat"), "a running request has its time"
        assert await asyncio.to_thread(plane.exit_code) == 0, plane.said()
        assert plane.processes() == {}


@story
async def test_a_second_signal_kills_what_is_loading() -> None:
    loading = serve("a", Script(ignore_sigterm=True, listen_after=60), ready_timeout="2m", **STUBBORN)
    with running(loading) as plane:
        async with Talk(plane, "a", "never", stream=True):
            await until(lambda: plane.processes(), "it is started")
            plane.signal(signal.SIGTERM)
            await until(lambda: not _listens(plane), "the first signal is noticed")
            began = time.monotonic()
            plane.signal(signal.SIGTERM)
            assert await asyncio.to_thread(plane.exit_code) == 0, plane.said()
            assert time.monotonic() - began < 2


@story
async def test_a_second_signal_does_not_touch_serves_that_are_left_running() -> None:
    with running(serve("a", Script(ignore_sigterm=True), **STUBBORN), started=False) as plane:
        plane.start("--config", str(plane.config), "--leave-running")
        async with Talk(plane, "a", "script: gap=0.02 tokens=5000", stream=True) as stream:
            await stream.event()
            pid = plane.serve("a")["pid"]
            plane.signal(signal.SIGTERM)
            await until(lambda: not _listens(plane), "the first signal is noticed")
            plane.signal(signal.SIGTERM)
            assert await asyncio.to_thread(plane.exit_code) == 0
        assert list(plane.processes()) == [pid]
        os.kill(pid, signal.SIGKILL)
        for record in plane.state.glob("serves/*.json"):
            record.unlink()


def _listens(plane: Plane) -> bool:
    try:
        return bool(plane.ask("GET", "/healthz")[1]["status"] == "ok")
    except OSError:
        return False


@story
async def test_serves_left_running_are_adopted_not_restarted() -> None:
    """Behaviour 18."""
    with running(serve("a"), started=False) as plane:
        plane.start("--config", str(plane.config), "--leave-running")
        await ask(plane, "a")
        pid = plane.serve("a")["pid"]
        plane.signal(signal.SIGTERM)
        assert await asyncio.to_thread(plane.exit_code) == 0
        assert list(plane.processes()) == [pid]
        plane.start()
        assert "adopted a" in plane.said()
        assert (plane.serve("a")["state"], plane.serve("a")["pid"]) == ("ready", pid)
        assert (await ask(plane, "a")).status == 200
        assert plane.starts("a") == 1


@story
async def test_after_sigkill_of_the_control_plane_the_next_one_adopts_and_nothing_restarts() -> None:
    """Behaviour 18: a crash with streams under way, then a start on the same directory."""
    with running(serve("a"), serve("b", slot=None)) as plane:
        await ask(plane, "b")
        async with Talk(plane, "a", "script: gap=0.02 tokens=5000", stream=True) as stream:
            await stream.event()
            pids = {name: plane.serve(name)["pid"] for name in "ab"}
            plane.signal(signal.SIGKILL)
            assert await asyncio.to_thread(plane.exit_code) == -signal.SIGKILL
        assert set(plane.processes()) == set(pids.values()), "the serves outlive the crash"
        plane.start()
        assert {name: plane.serve(name)["pid"] for name in "ab"} == pids
        assert plane.scripted("a")["in_flight"] == 0, "the engine noticed that its client is gone"
        async with Talk(plane, "a", LONG, stream=True) as again:
            assert await again.text() == words(40)
        os.kill(pids["b"], signal.SIGKILL)
        await until(lambda: plane.serve("b")["state"] != "ready", "an adopted serve is watched too")
        assert (plane.starts("a"), plane.starts("b")) == (1, 1)


@story
async def test_a_serve_whose_configuration_changed_meanwhile_is_not_adopted() -> None:
    """The neighbour of behaviour 18."""
    with running(serve("a")) as plane:
        await ask(plane, "a")
        pid = plane.serve("a")["pid"]
        plane.signal(signal.SIGKILL)
        await asyncio.to_thread(plane.exit_code)
        plane.write(config(serve("a", Script(context=2048))))
        plane.start()
        await until(lambda: pid not in plane.processes(), "the old one is stopped")
        assert (await ask(plane, "a")).status == 200
        assert plane.serve("a")["facts"]["n_ctx"] == 2048


def test_a_second_plane_on_the_same_state_directory_is_refused_and_the_first_goes_on() -> None:
    """The lock of the state directory."""
    with running(serve("a")) as plane:
        first = plane.process
        with pytest.raises(AssertionError, match="ended"):
            plane.start("--config", str(plane.config), "--port", str(free_port()))
        assert plane.process is not None
        assert plane.exit_code() == 1
        assert first is not None
        assert str(first.pid) in plane.said()
        plane.process = first
        poll(lambda: plane.ask("GET", "/healthz")[0] == 200, "the first goes on")


@story
async def test_a_crash_during_a_stop_command_leaves_neither_it_nor_the_serve_unknown() -> None:
    stop = ["sh", "-c", "echo stop begins; exec sleep 300"]
    with running(serve("slow", stop=stop, stop_grace="60s")) as plane:
        assert (await ask(plane, "slow")).status == 200
        pid = plane.serve("slow")["pid"]
        async with asyncio.TaskGroup() as tasks:
            unloading = tasks.create_task(asyncio.to_thread(_unload, plane, "slow"))
            await until(lambda: "stop begins" in plane.log("slow"), "the command runs")
            plane.signal(signal.SIGKILL)
            plane.exit_code()
        assert not unloading.result(), "the answer never came"
        assert any("sleep 300" in command for command in plane.processes().values())
        plane.start()
        assert not any("sleep 300" in command for command in plane.processes().values())
        assert plane.serve("slow")["pid"] == pid, "it goes on, and is known"
        plane.write(config(serve("slow", stop=stop, stop_grace="300ms")))
        assert plane.admin("reload")[0] == 200
        assert plane.serve("slow")["pid"] == pid, "more time to stop is no reason for a restart"


def _unload(plane: Plane, name: str) -> bool:
    try:
        return plane.admin("unload", serve=name)[0] == 200
    except OSError:
        return False
