"""A serve that another Stoker serves too: both answer, either may be lost, and no request goes round in circles."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, config, running, serve, until

from stoker_lab.testing.script.script import Script


def fast(*also: Plane, **keys: Any) -> str:
    entries = [{"base_url": f"http://127.0.0.1:{plane.port}/v1", "name": f"box{n}"} for n, plane in enumerate(also, 2)]
    return serve("fast", keys.pop("script", Script()), parallel=2, **({"also": entries} if entries else {}), **keys)


def states(plane: Plane) -> dict[str, str]:
    return {one["name"]: one["state"] for one in plane.status()["serves"]}


async def found(plane: Plane) -> None:
    await until(lambda: states(plane)["fast@box2"] == "ready", "the other Stoker is found")


def requests_of(plane: Plane, name: str) -> int:
    return int(plane.serve(name)["totals"]["requests"])


@story
async def test_both_answer_under_one_name() -> None:
    with running(fast()) as other, running(fast(other)) as plane:
        assert (await ask(other, "fast")).status == 200
        await found(plane)
        assert (await ask(plane, "fast")).status == 200
        assert plane.run("serves", "up", "fast@gpu0").returncode == 0
        replies = await asyncio.gather(*(ask(plane, "fast", "script: first_event_after=0.2") for _ in range(4)))
        assert {(reply.status, reply.header("x-stoker-serve")) for reply in replies} == {(200, "fast")}
        assert requests_of(other, "fast") + requests_of(plane, "fast@gpu0") == 2 + 4
        assert requests_of(plane, "fast@gpu0") == 2
        assert requests_of(plane, "fast@box2") == 3
        assert [one["id"] for one in plane.ask("GET", "/v1/models")[1]["data"]] == ["fast"]
        shown = plane.run("serves", "status").stdout
        assert "fast@gpu0" in shown
        assert "fast@box2" in shown


@story
async def test_what_is_not_loaded_here_is_answered_there() -> None:
    with running(fast()) as other, running(fast(other)) as plane:
        await found(plane)
        assert (await ask(plane, "fast")).status == 200
        assert states(plane)["fast@gpu0"] == "stopped"


@story
async def test_a_lost_machine_costs_no_answer() -> None:
    with running(fast(), started=False) as other:
        other.start()
        with running(fast(other)) as plane:
            await found(plane)
            assert other.process is not None
            other.signal(signal.SIGTERM)
            other.exit_code()
            replies = [await ask(plane, "fast") for _ in range(3)]
            assert {reply.status for reply in replies} == {200}
            assert states(plane)["fast@gpu0"] == "ready"
            await until(lambda: states(plane)["fast@box2"] != "ready", "its loss is seen")
            assert (await ask(plane, "fast")).status == 200
            other.start()
            await found(plane)


@story
async def test_a_failure_before_the_first_byte_moves_on_and_is_told() -> None:
    with running(fast(script=Script(error_status=500))) as other, running(fast(other)) as plane:
        await found(plane)
        reply = await ask(plane, "fast")
        assert reply.status == 200
        decision = plane.decision(reply.header("x-request-id"))
        assert [one["serve"] for one in decision["candidates"]] == ["fast@box2", "fast"]
        assert decision["attempts"] == 2


@story
async def test_one_that_answers_with_another_model_is_not_used_and_says_why() -> None:
    with running(serve("other")) as other, running(fast(other)) as plane:
        assert (await ask(plane, "fast")).status == 200
        plane.run("serves", "up", "fast@box2")
        (there,) = [one for one in plane.status()["serves"] if one["name"] == "fast@box2"]
        assert there["state"] != "ready"
        assert "fast" in there["last_error"]
        assert (await ask(plane, "fast")).status == 200


@story
async def test_a_request_is_forwarded_once() -> None:
    """Two that name each other, and cannot load it themselves: the request ends."""
    broken = Script(exit_code=1)
    with running(fast(script=broken), started=False) as one, running(fast(one, script=broken)) as other:
        one.write(config(fast(other, script=broken)))
        one.start()
        await found(one)
        await found(other)
        reply = await asyncio.wait_for(ask(one, "fast"), 20)
        assert reply.status == 503
        assert [len(plane.decisions()) for plane in (one, other)] == [1, 1]
        one.signal(signal.SIGTERM)  # it would go on asking whether the other one is there
        one.exit_code()
