"""Starting: ready means proved; whatever goes wrong is told at once, in words, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from stoker.domain.errors import OurBug, StartFailed
from stoker.fleet.process.environment import free_port

Tell = Callable[[Any], None]
SINGS = json.dumps({"choices": [{}]})


async def refused(workshop: Any, *options: str, **fields: Any) -> str:
    """Start what cannot start; the message."""
    fleet = workshop.supervisor()
    with pytest.raises(StartFailed) as failure:
        await fleet.start(workshop.serve(*options, **fields), workshop.on_exit)
    assert fleet.statistics() == {}
    assert not workshop.record().exists()
    await fleet.close(False)
    assert workshop.exits == [], "a start that failed is told by its error, not by on_exit"
    return failure.value.message


def test_a_serve_is_ready_once_it_has_shown_its_id(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--delay", "0.1"), workshop.on_exit)
        assert running.facts["n_ctx"] == 128
        assert 0 < running.facts["spawn_s"] < running.facts["health_s"] <= running.facts["ready_s"]
        assert running.target.host == "127.0.0.1"
        assert running.target.served_name == "a"
        seen = fleet.statistics()["a"]
        assert (seen.pid, seen.port, seen.state) == (running.pid, running.target.port, "ready")
        assert seen.rss is not None
        assert seen.rss > 1_000_000
        await fleet.close(False)
        assert not workshop.record().exists()

    tell(story)


def test_what_runs_has_a_session_of_its_own_and_no_terminal_input(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        pid = (await fleet.start(workshop.serve(), workshop.on_exit)).pid
        assert os.getsid(pid) == os.getpgid(pid) == pid
        if sys.platform == "linux":
            assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
            assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (1, 2)} == {f"{workshop.paths.logs}/a.log"}
        await fleet.close(False)

    tell(story)


def test_another_models_server_is_not_ready_and_the_reason_is_shown(tell: Tell) -> None:
    """Behaviour 23."""

    async def story(workshop: Any) -> None:
        began = time.monotonic()
        message = await refused(workshop, "--id", "someone-else")
        assert "wanted 'a'" in message
        assert "'someone-else'" in message
        assert time.monotonic() - began < 3

    tell(story)


def test_a_serve_that_never_gets_healthy_is_ended_at_its_ready_timeout(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        message = await refused(workshop, "--health", "503", "--say", "loading tensors", ready_timeout=0.4)
        assert "not ready within 0.4 s" in message
        assert "GET /health answered 503" in message
        assert "loading tensors" in message

    tell(story)


def test_a_serve_that_exits_at_once_is_reported_with_its_last_words(tell: Tell) -> None:
    """Behaviour 13, at the fleet."""

    async def story(workshop: Any) -> None:
        began = time.monotonic()
        said = r"one\ntwo\nthree\nfour\nfive\nsix: CUDA error: out of memory"
        message = await refused(workshop, "--exit", "7", "--say", said)
        assert message.startswith("serve 'a' did not start: it ran out of memory: lower `context`"), "the remedy first"
        assert "exited with code 7 after " in message
        assert "six: CUDA error: out of memory" in message
        assert "five" not in message, "the rest is in the log"
        assert "`stoker serves logs a`" in message
        assert time.monotonic() - began < 3, "the start must fail by the exit, not by a timeout"

    tell(story)


def test_a_serve_that_is_killed_while_it_loads_is_reported_at_once(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        starting = asyncio.get_running_loop().create_task(
            fleet.start(workshop.serve("--delay", "30"), workshop.on_exit)
        )
        while not (pid := fleet.statistics()["a"].pid if "a" in fleet.statistics() else None):
            await asyncio.sleep(0)
        os.kill(pid, 9)
        began = time.monotonic()
        with pytest.raises(StartFailed, match=r"ran out of memory.* was ended by SIGKILL"):
            await starting
        assert time.monotonic() - began < 1
        await fleet.close(False)

    tell(story)


def test_no_secret_is_in_the_last_words_nor_in_the_log(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        message = await refused(
            workshop, "--exit", "3", "--say", "my key is {key} and {key}, pw hunter22", env={"DB_PASSWORD": "hunter22"}
        )
        assert "my key is *** and ***, pw ***" in message
        assert "***" in workshop.log().splitlines()[0], "our own line in the log shows the command without the key"

    tell(story)


def test_a_canary_that_fails_is_not_ready(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        assert "fails its canary: POST /v1/chat/completions answered 500" in await refused(workshop, canary=True)
        fleet = workshop.supervisor()
        await fleet.start(workshop.serve("--canary", SINGS, canary=True), workshop.on_exit)
        await fleet.close(False)

    tell(story)


def test_an_engine_that_takes_the_key_is_asked_with_it(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--key", "{key}"), workshop.on_exit)
        assert len(running.target.key or "") == 64
        await fleet.stop("a", 1)
        again = await fleet.start(workshop.serve("--key", "{key}"), workshop.on_exit)
        assert again.target.key != running.target.key, "each start has a key of its own"
        await fleet.close(False)
        assert "refuses Stoker's key" in await refused(workshop, "--key", "another")

    tell(story)


def test_a_cancelled_start_leaves_no_process(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        serve = workshop.serve("--delay", "30", "--ignore-term", "--wrap", stop_grace=0.1)
        starting = asyncio.get_running_loop().create_task(fleet.start(serve, workshop.on_exit))
        while "a" not in fleet.statistics():
            await asyncio.sleep(0)
        pid = fleet.statistics()["a"].pid
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not psutil.pid_exists(pid)
        assert not workshop.record().exists()
        assert fleet.statistics() == {}
        await fleet.close(False)

    tell(story)


def test_a_serve_stopped_while_it_starts_says_so(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        starting = asyncio.get_running_loop().create_task(
            fleet.start(workshop.serve("--delay", "30"), workshop.on_exit)
        )
        while "a" not in fleet.statistics():
            await asyncio.sleep(0)
        await fleet.stop("a", 1)
        with pytest.raises(StartFailed, match="was stopped while it was starting"):
            await starting
        await fleet.close(False)

    tell(story)


def test_a_fixed_port_that_a_stranger_holds_is_refused_by_name(tell: Tell) -> None:
    """Behaviour 18, second half: it is reported, and what listens there is never taken for ours."""

    async def story(workshop: Any) -> None:
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.listen()
            port = stranger.getsockname()[1]
            fleet = workshop.supervisor()
            problems = await workshop.quick_check(fleet, workshop.serve(port=port))
            assert len(problems) == 1
            assert f"port {port} is taken by process {os.getpid()} (" in problems[0]
            assert problems[0] in await refused(workshop, port=port)

    tell(story)


def test_a_fixed_port_that_our_own_serve_holds_is_no_obstacle(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        port = (await fleet.start(workshop.serve(), workshop.on_exit)).target.port
        assert await workshop.quick_check(fleet, workshop.serve(name="b", port=port)) == []
        await fleet.stop("a", 1)
        await fleet.start(workshop.serve("--id", "b", name="b", port=port), workshop.on_exit)
        await fleet.close(False)

    tell(story)


def test_a_command_that_is_not_there_is_refused_before_anything_runs(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        serve = workshop.serve(cmd=("no-such-server", "{port}"))
        assert (
            "`no-such-server` of serve 'a' is not on PATH"
            in (await workshop.quick_check(workshop.supervisor(), serve))[0]
        )
        assert "not on PATH" in await refused(workshop, cmd=("no-such-server",))
        assert "is not an executable file" in await refused(workshop, cmd=("./nothing",))
        assert not (workshop.directory / "logs").exists()

    tell(story)


def test_starting_twice_without_a_stop_is_our_bug(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        await fleet.start(workshop.serve(), workshop.on_exit)
        with pytest.raises(OurBug, match="started twice"):
            await fleet.start(workshop.serve(), workshop.on_exit)
        await fleet.close(False)
        with pytest.raises(StartFailed, match="shutting down"):
            await fleet.start(workshop.serve(), workshop.on_exit)

    tell(story)


def test_a_child_gets_the_listed_environment_and_no_secret_of_ours(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STOKER_KEY", "OPENAI_API_KEY", "HF_TOKEN", "LLAMA_API_KEY", "HF_HUB_TOKEN", "SOMETHING"):
        monkeypatch.setenv(name, "x")
    for name in ("CUDA_VISIBLE_DEVICES", "LC_ALL", "GGML_N", "HF_HOME", "LLAMA_CACHE"):
        monkeypatch.setenv(name, "y")

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        wish = {"MINE": "1", "LC_ALL": "C"}
        await fleet.start(workshop.serve("--environment", "{dir}/seen.json", env=wish), workshop.on_exit)
        seen = json.loads((workshop.directory / "seen.json").read_text())
        assert seen["MINE"] == "1"
        assert seen["LC_ALL"] == "C", "the serve's own env wins"
        assert seen["PATH"] == os.environ["PATH"]
        assert all(seen[name] == "y" for name in ("CUDA_VISIBLE_DEVICES", "GGML_N", "HF_HOME", "LLAMA_CACHE"))
        ours = {name for name in seen if name.startswith("STOKER_")}
        assert ours == {"STOKER_START"}
        assert not {"OPENAI_API_KEY", "HF_TOKEN", "LLAMA_API_KEY", "HF_HUB_TOKEN", "SOMETHING"} & seen.keys()
        await fleet.close(False)

    tell(story)


def test_a_log_that_floods_is_rotated_while_the_child_writes_on(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.fleet.process.logs.CHECK_EVERY", 0.02)

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        await fleet.start(workshop.serve("--flood", "70000"), workshop.on_exit)
        old = workshop.directory / "logs" / "a.log.1"
        async with asyncio.timeout(5):
            while not old.exists() or (workshop.directory / "logs" / "a.log").stat().st_size > 20_000:
                await asyncio.sleep(0.01)
        assert old.stat().st_size == 20_000
        await fleet.close(False)
        assert {p.name for p in (workshop.directory / "logs").iterdir()} == {"a.log", "a.log.1"}
        assert oct(old.stat().st_mode)[-3:] == "600"

    tell(story)


def test_checks_take_milliseconds(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        serve = workshop.serve(port=free_port("127.0.0.1", ()))
        took = []
        for _ in range(10):
            began = time.perf_counter()
            assert await workshop.quick_check(fleet, serve) == []
            took.append(time.perf_counter() - began)
        assert min(took) < 0.005

    tell(story)


def test_an_engine_below_a_path_is_asked_there(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        with pytest.raises(StartFailed, match="GET /health answered 404"):
            await fleet.start(workshop.serve("--prefix", "/llm", ready_timeout=0.5), workshop.on_exit)
        running = await fleet.start(workshop.serve("--prefix", "/llm", base_path="/llm"), workshop.on_exit)
        assert running.target.base_path == "/llm"
        assert running.facts["n_ctx"] == 128
        await fleet.close(True)
        later = workshop.supervisor()
        [adopted] = await later.adopt([workshop.serve("--prefix", "/llm", base_path="/llm")], workshop.on_exit)
        assert adopted.target == running.target
        await later.close(False)

    tell(story)
