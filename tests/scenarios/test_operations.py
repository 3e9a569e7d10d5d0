"""What operators trust: memory that is not oversold, weights that come back, engines that sleep, a dog that watches."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.caller import Talk, ask, story
from tests.scenarios.plane import MODELS, Plane, llama, poll, running, serve, until

WATCHFUL = '[watchdog]\ninterval = "200ms"\nstall = "600ms"\nrestarts = 2\nwindow = "1m"'


# -- the watchdog ----------------------------------------------------------------------------------------------------


@story
async def test_a_ready_serve_is_proved_again_and_again_and_status_says_when() -> None:
    with running(serve("a"), WATCHFUL) as plane:
        await ask(plane, "a")
        await until(lambda: plane.serve("a")["watchdog"]["health"] == "verified", lambda: f"{plane.serve('a')}")
        first = plane.serve("a")["watchdog"]["verified_at"]
        await until(lambda: plane.serve("a")["watchdog"]["verified_at"] > first, "it is proved again")


@story
async def test_an_engine_that_hangs_while_it_says_that_it_is_well_is_restarted_and_the_stream_told_why() -> None:
    with running(serve("a"), WATCHFUL) as plane:
        await ask(plane, "a")
        pid = plane.serve("a")["pid"]
        async with Talk(plane, "a", "script: stall_after=1 tokens=5", stream=True) as talk:
            events = await talk.rest()
        assert "the last progress" in events[-1].data, events[-1]
        await until(lambda: plane.serve("a")["state"] == "ready" and plane.serve("a")["pid"] != pid, "it is back")
        assert (await ask(plane, "a")).status == 200
        assert "restarted" in [event["kind"] for event in plane.status()["events"]]


@story
async def test_a_serve_that_flaps_is_parked_with_the_reason_and_a_timer_hears_of_it() -> None:
    with running(serve("a", keep_loaded=True), WATCHFUL) as plane:
        for _ in range(6):
            await until(lambda: plane.serve("a")["state"] in ("ready", "parked"), "it is up, or given up")
            if plane.serve("a")["state"] == "parked":
                break
            os.kill(plane.serve("a")["pid"], signal.SIGKILL)
            await until(lambda: plane.serve("a")["state"] != "ready", "its end is noticed")
        await until(lambda: plane.serve("a")["state"] == "parked", lambda: f"it is parked: {plane.serve('a')}")
        reply = await ask(plane, "a")
        assert (reply.status, reply.json()["error"]["code"]) == (503, "parked")
        assert "stoker slot switch a" in reply.json()["error"]["message"]
        code, out = await command(plane, "watchdog", "--once")
        assert code == 1
        assert "a is parked" in out
        code, out = await command(plane, "slot", "switch", "a")
        assert code == 0
        assert (await ask(plane, "a")).status == 200


async def command(plane: Plane, *words: str) -> tuple[int, str]:
    """A command line against the plane: exit code, and everything it said."""
    done = await asyncio.to_thread(plane.run, *words)
    return done.returncode, done.stdout + done.stderr


# -- memory ----------------------------------------------------------------------------------------------------------


@story
async def test_a_model_that_does_not_fit_is_refused_with_the_shortfall_and_nothing_is_stopped() -> None:
    """Behaviour 22, with measured memory."""
    with running(llama("a"), llama("huge", "ember", context=4_000_000, parallel=16)) as plane:
        assert (await ask(plane, "a", max_tokens=2)).status == 200
        pid = plane.serve("a")["pid"]
        reply = await ask(plane, "huge", max_tokens=2)
        assert reply.status == 503
        message = reply.json()["error"]["message"]
        assert re.search(r"'huge' is too large by [0-9.]+ (GiB|MiB) for main memory", message), message
        assert plane.serve("a")["pid"] == pid
        assert (await ask(plane, "a", max_tokens=2)).status == 200


@story
async def test_what_a_running_serve_holds_is_measured_and_shown() -> None:
    with running(llama("a")) as plane:
        await ask(plane, "a", max_tokens=2)
        await until(lambda: plane.serve("a")["measured"], "it is weighed")
        one = plane.serve("a")
        assert one["measured_by"] == "measured (/proc)"
        assert plane.slot()["memory_used"] == one["measured"]


# -- a device that is not up to it -----------------------------------------------------------------------------------


@story
async def test_a_start_that_runs_out_of_memory_is_answered_by_the_fallback() -> None:
    dies = [
        "sh",
        "-c",
        "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB' >&2; exit 1",
        "{port}",
    ]
    with running(serve("big", engine="vllm", cmd=dies, fallback="small"), serve("small")) as plane:
        reply = await ask(plane, "big")
        assert (reply.status, reply.json()["model"]) == (200, "small")
        assert reply.header("x-stoker-fallback") == "big: out_of_memory"
        decision = plane.decision(str(reply.header("x-request-id")))
        assert [one["dropped"] for one in decision["candidates"]] == ["out_of_memory", ""]
        assert "20.00 GiB" in plane.serve("big")["last_error"]


# -- weights ---------------------------------------------------------------------------------------------------------


def rehydrated(tmp: Path, digest: str | None = None) -> str:
    vault = tmp / "vault"
    vault.mkdir()
    source = MODELS / "spark.gguf"
    keys: dict[str, object] = {"source": str(source)}
    keys["sha256"] = {"spark.gguf": digest or hashlib.sha256(source.read_bytes()).hexdigest()}
    return llama("a", model=str((vault / "spark.gguf").with_suffix("")), **keys)


@story
async def test_missing_weights_are_fetched_verified_and_served(tmp_path: Path) -> None:
    with running(rehydrated(tmp_path)) as plane:
        assert (await ask(plane, "a", max_tokens=2)).status == 200
        assert (tmp_path / "vault" / "spark.gguf").read_bytes() == (MODELS / "spark.gguf").read_bytes()


@story
async def test_weights_with_another_hash_are_not_served_and_nothing_half_done_stays(tmp_path: Path) -> None:
    with running(rehydrated(tmp_path, "0" * 64)) as plane:
        reply = await ask(plane, "a", max_tokens=2)
        assert (reply.status, reply.json()["error"]["code"]) == (503, "hash_mismatch")
        assert list((tmp_path / "vault").iterdir()) == []


# -- sleeping instead of stopping ------------------------------------------------------------------------------------


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A PATH on which `vllm` is the imitation."""
    path = tmp_path / "bin" / "vllm"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m stoker_lab.testing.imitation vllm --memory-mb 64 -- "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    yield {"PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}"}
    shutil.rmtree(path.parent)


def test_a_swap_puts_the_old_model_to_sleep_and_waking_it_is_no_new_start(engines: dict[str, str]) -> None:
    @story
    async def tell() -> None:
        def sleepy(name: str) -> str:
            return serve(name, engine="vllm", cmd=None, model=f"org/{name}", sleep_level=1, dialects=None)

        with running(sleepy("a"), sleepy("b"), '[warm]\nmemory = "1GiB"', environment=engines) as plane:
            assert (await ask(plane, "a")).status == 200
            pid = plane.serve("a")["pid"]
            assert (await ask(plane, "b")).status == 200
            assert plane.serve("a")["temperature"] == "asleep"
            assert (await ask(plane, "a")).status == 200
            assert plane.serve("a")["pid"] == pid
            assert plane.serve("b")["temperature"] == "asleep"
            assert any("asleep start" in event["text"] for event in plane.status()["events"])
            code, out = await command(plane, "serves", "down", "b")
            assert code == 0, out
            poll(lambda: plane.serve("b")["temperature"] == "cold", "an operator's unload ends a sleeper too")

    tell()


# -- a reboot --------------------------------------------------------------------------------------------------------


@story
async def test_after_a_reboot_the_last_resident_starts_and_nobody_else() -> None:
    with running(serve("a"), serve("b")) as plane:
        await ask(plane, "a")
        await ask(plane, "b")
        plane.signal(signal.SIGTERM)
        assert await asyncio.to_thread(plane.exit_code) == 0
        poll(lambda: not plane.processes(), "an empty process table")
        plane.start("--config", str(plane.config), "--resume")
        await until(lambda: plane.slot()["resident"] == ["b"], "who was resident is back")
        assert plane.starts("a") == 1
