"""The commands against a running Stoker, and serves that run by themselves: what an operator does in a day."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.scenarios import preloaded
from tests.scenarios.caller import Talk, ask, story, words
from tests.scenarios.plane import DIALECTS, STOKER, Plane, config, free_port, running, serve, until

from stoker_lab.testing.script.script import Script


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("a", aliases=["gpt-x"]),
        serve("b"),
        serve("dies", Script(listen_after=5, crash_after=0.2, last_words="boom")),
        serve("odd", slot=None, status="rejected-wrong answers"),
    ) as plane:
        yield plane


def stoker(plane: Plane, *words: str, code: int = 0) -> str:
    """Run a command in the story's directory; what it printed."""
    command = preloaded.Command(words, plane.directory, plane.environment)
    out, err = command.communicate(60)
    assert command.returncode == code, f"{words}: {command.returncode} {out} {err}"
    return out + err


def shown(plane: Plane, *words: str) -> Any:
    return json.loads(stoker(plane, *words, "--json"))


@story
async def test_an_operator_brings_a_serve_up_switches_looks_and_takes_it_down(plane: Plane) -> None:
    """`serves up|status|logs|down`, `slot list|status|switch`, by any of a serve's names."""
    run = asyncio.to_thread
    await run(stoker, plane, "serves", "up", "gpt-x")
    assert plane.slot()["resident"] == ["a"]
    assert "ready" in await run(stoker, plane, "serves", "status", "a")
    async with Talk(plane, "a", "script: gap=0.02 tokens=40", stream=True) as stream:
        await stream.event()
        switching = asyncio.create_subprocess_exec(
            str(STOKER), "slot", "switch", "b", cwd=plane.directory, env=plane.environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        process = await switching
        await until(lambda: plane.slot()["swap"] is not None, "the switch drains")
        assert await stream.text() == words(40)
        assert (await process.communicate(), process.returncode)[1] == 0
    assert plane.slot()["resident"] == ["b"]
    assert "b" in await run(stoker, plane, "slot", "status", "gpu0")
    assert "gpu0" in await run(stoker, plane, "slot", "list")
    assert "scripted model 'a' listens" in await run(stoker, plane, "serves", "logs", "a")
    await run(stoker, plane, "serves", "down", "b")
    assert plane.serve("b")["state"] == "stopped"


@story
async def test_a_switch_that_fails_exits_1_with_the_engines_last_words(plane: Plane) -> None:
    """And what ran before is back."""
    await ask(plane, "a")
    said = await asyncio.to_thread(stoker, plane, "slot", "switch", "dies", code=1)
    assert "boom" in said
    await until(lambda: plane.serve("a")["state"] == "ready", "the previous serve is back")


@story
async def test_a_rejected_serve_needs_force(plane: Plane) -> None:
    """Row B3."""
    refused = await asyncio.to_thread(stoker, plane, "serves", "up", "odd", code=1)
    assert "wrong answers" in refused
    assert "--force" in refused
    await asyncio.to_thread(stoker, plane, "serves", "up", "odd", "--force")
    assert plane.serve("odd")["state"] == "ready"


@story
async def test_decisions_and_explain_tell_what_became_of_a_request(plane: Plane) -> None:
    """Row R12: by the id that the reply carried."""
    reply = await ask(plane, "gpt-x", "script: prompt_tokens=21")
    request_id = reply.header("x-request-id") or ""
    plane.decision(request_id)
    told = await asyncio.to_thread(stoker, plane, "explain", request_id)
    assert "gpt-x" in told
    assert "21" in told
    record = await asyncio.to_thread(shown, plane, "explain", request_id)
    assert (record["serve"], record["outcome"], record["input_tokens"]) == ("a", "served", 21)
    assert record["candidates"] == [{"serve": "a", "dropped": ""}]
    assert request_id in await asyncio.to_thread(stoker, plane, "decisions")


@story
async def test_drain_holds_new_requests_off_until_undrain(plane: Plane) -> None:
    """One serve, then the whole front door; streams in flight end normally."""
    run = asyncio.to_thread
    async with Talk(plane, "a", "script: gap=0.02 tokens=40", stream=True) as stream:
        await stream.event()
        await run(stoker, plane, "serves", "drain", "a")
        refused = await ask(plane, "a")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "draining")
        assert await stream.text() == words(40)
    await run(stoker, plane, "serves", "undrain", "a")
    await run(stoker, plane, "serves", "drain")
    assert plane.ask("GET", "/healthz")[1]["status"] == "draining"
    assert plane.ask("GET", "/readyz")[0] == 503
    for dialect, status in (("chat", 503), ("messages", 529)):
        assert (await ask(plane, "a", dialect=dialect)).status == status
    await run(stoker, plane, "serves", "undrain")
    assert (await ask(plane, "a")).status == 200


@story
async def test_an_operator_cancels_one_request(plane: Plane) -> None:
    """`/admin/cancel`: in the engine, and while it waits."""
    async with Talk(plane, "a", "script: gap=0.02 tokens=9999", headers=(("x-request-id", "c-1"),), stream=True) as one:
        await one.event()
        assert plane.admin("cancel", request_id="c-1")[0] == 200
        events = await one.rest()
    assert "cancelled by the operator" in events[-1].json()["error"]["message"]
    await until(lambda: plane.scripted("a")["disconnected"] >= 1, "the engine notices")


@pytest.mark.heavy
@story
async def test_an_external_serve_is_relayed_to_watched_and_never_stopped() -> None:
    """A `base_url`: readiness by its model list, our key for it, its loss and its return."""
    port = free_port()

    async def begin() -> asyncio.subprocess.Process:
        script = Script(id="far", api_key="far-key")
        process = await asyncio.create_subprocess_exec(*script.command(port), stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        return process

    far = serve(
        "far", slot=None, cmd=None, stop_grace=None, base_url=f"http://127.0.0.1:{port}/v1", key="env:FAR",
        dialects=DIALECTS,
    )  # fmt: skip
    with running(far, environment={"FAR": "far-key"}) as plane:
        refused = await ask(plane, "far")
        assert (refused.status, refused.json()["error"]["source"]) == (503, "stoker")
        process = await begin()
        try:
            await until(lambda: plane.serve("far")["backoff"] is None, "the back-off is over")
            async with Talk(plane, "far", stream=True) as stream:
                assert await stream.text() == words(20)
            assert plane.serve("far")["state"] == "ready"
            process.terminate()
            await process.communicate()
            await until(lambda: plane.serve("far")["state"] != "ready", "its loss is noticed")
            process = await begin()
            assert (await ask(plane, "far")).status == 200
            await asyncio.to_thread(plane.finish)
            assert process.returncode is None, "it was stopped"
        finally:
            process.terminate()
            await process.communicate()


def test_reload_and_check_and_doctor_speak_of_the_running_one() -> None:
    """`reload`, `config check`, `doctor`."""
    with running(serve("a")) as plane:
        plane.write(config(serve("a"), serve("c")))
        assert "added: c" in stoker(plane, "reload")
        assert [one["name"] for one in plane.status()["serves"]] == ["a", "c"]
        assert "nothing changed" in stoker(plane, "reload")
        assert "no problems" in stoker(plane, "config", "check")
        assert "stoker.toml" in stoker(plane, "doctor")


@pytest.mark.llama
def test_init_writes_a_file_that_runs() -> None:
    """With no model on the machine it takes the two that come with Stoker."""
    with running(started=False) as plane:
        plane.config.unlink()
        stoker(plane, "init", "--yes")
        plane.state = plane.directory / ".local" / "state" / "stoker"
        plane.start("--port", str(plane.port))
        names = [one["name"] for one in plane.status()["serves"]]
        assert len(names) == 2
        assert asyncio.run(ask(plane, names[0])).status == 200
