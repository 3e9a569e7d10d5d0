"""A serve with several slots in the running program: where it loads, one more under load, failover, the operator."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve, until

from stoker_lab.testing.script.script import Script

TWO = "[slots.gpu0]\n\n[slots.gpu1]"
SWAP = 'min_residency = "0s"\nlinger = "0s"\nmax_wait = "5s"\npatience = 0.1'


def fast(replicas: int | dict[str, int], **keys: object) -> str:
    return serve("fast", Script(), slot=None, slots=["gpu0", "gpu1"], replicas=replicas, parallel=1, **keys)


def states(plane: Plane) -> dict[str, str]:
    return {one["name"]: one["state"] for one in plane.status()["serves"]}


@story
async def test_it_loads_where_there_is_room_and_answers_under_its_own_name() -> None:
    with running(fast(1, aliases=["gpt-4o"]), serve("big"), slots=TWO, swap=SWAP) as plane:
        assert (await ask(plane, "big")).status == 200
        reply = await ask(plane, "gpt-4o")
        assert (reply.status, reply.header("x-stoker-serve")) == (200, "fast")
        assert states(plane) == {"fast@gpu0": "stopped", "fast@gpu1": "ready", "big": "ready"}
        listed = [one["id"] for one in plane.ask("GET", "/v1/models")[1]["data"]]
        assert listed == ["fast", "gpt-4o", "big"]


@story
async def test_one_more_starts_under_load_and_takes_over_waiting_requests() -> None:
    with running(fast(2), slots=TWO, swap=SWAP) as plane:
        replies = await asyncio.gather(*(ask(plane, "fast", "script: first_event_after=0.5") for _ in range(8)))
        assert {reply.status for reply in replies} == {200}
        assert states(plane) == {"fast@gpu0": "ready", "fast@gpu1": "ready"}
        assert plane.status()["slots"][1]["swaps"] == 1


@story
async def test_a_replica_that_dies_costs_only_what_ran_there() -> None:
    with running(fast(2), slots=TWO, swap=SWAP) as plane:
        await asyncio.gather(*(ask(plane, "fast", "script: first_event_after=0.5") for _ in range(6)))
        assert set(states(plane).values()) == {"ready"}
        os.kill(plane.serve("fast@gpu0")["pid"], signal.SIGKILL)
        replies = await asyncio.gather(*(ask(plane, "fast") for _ in range(4)))
        assert {reply.status for reply in replies} <= {200, 502}
        await until(lambda: states(plane)["fast@gpu0"] != "ready", "its death is seen")
        assert (await ask(plane, "fast")).status == 200


@story
async def test_one_is_kept_loaded_and_moves_when_another_model_needs_its_slot() -> None:
    with running(fast({"min": 1, "max": 2}), serve("big", slot="gpu0"), slots=TWO, swap=SWAP) as plane:
        await until(lambda: states(plane)["fast@gpu0"] == "ready", "it is loaded before anybody asks")
        assert (await ask(plane, "big")).status == 200
        assert states(plane) == {"fast@gpu0": "stopped", "fast@gpu1": "ready", "big": "ready"}
        os.kill(plane.serve("fast@gpu1")["pid"], signal.SIGKILL)
        await until(lambda: states(plane)["fast@gpu1"] != "ready", "its death is seen")
        await until(lambda: states(plane)["fast@gpu1"] == "ready", "it is loaded again")
        assert plane.run("serves", "down", "fast").returncode == 0
        assert states(plane) == {"fast@gpu0": "stopped", "fast@gpu1": "stopped", "big": "ready"}


@story
async def test_operators_name_the_serve_or_one_replica() -> None:
    with running(fast(1), slots=TWO, swap=SWAP) as plane:
        assert plane.run("serves", "up", "fast@gpu1").returncode == 0
        assert states(plane)["fast@gpu1"] == "ready"
        shown = plane.run("serves", "status", "fast").stdout
        assert "fast@gpu0" in shown
        assert "fast@gpu1" in shown
        assert "listens" in plane.run("serves", "logs", "fast").stdout
        assert "listens" in plane.run("serves", "logs", "fast@gpu1").stdout
        assert plane.run("serves", "drain", "fast").returncode == 0
        assert (await ask(plane, "fast")).status == 503
        assert plane.run("serves", "undrain", "fast").returncode == 0
        assert (await ask(plane, "fast")).status == 200
        assert plane.run("serves", "down", "fast").returncode == 0
        assert set(states(plane).values()) == {"stopped"}


@story
async def test_a_slot_that_is_taken_away_leaves_the_other_replica_alone() -> None:
    with running(fast(2), slots=TWO, swap=SWAP) as plane:
        assert plane.run("serves", "up", "fast@gpu1").returncode == 0
        pid = plane.serve("fast@gpu1")["pid"]
        plane.write(plane.config.read_text().replace('"gpu0", "gpu1"', '"gpu1", "gpu2"') + "\n[slots.gpu2]\n")
        assert plane.run("reload").returncode == 0
        assert plane.serve("fast@gpu1")["pid"] == pid
        assert sorted(states(plane)) == ["fast@gpu1", "fast@gpu2"]
        assert (await ask(plane, "fast")).status == 200


@story
async def test_one_that_takes_two_slots_clears_both_in_one_swap_and_gives_way_to_small_ones() -> None:
    huge = serve("huge", Script(), slot="gpu0+gpu1")
    with running(huge, serve("a", slot="gpu0"), serve("b", slot="gpu1"), slots=TWO, swap=SWAP) as plane:
        assert (await ask(plane, "a")).status == (await ask(plane, "b")).status == 200
        shown = plane.run("serves", "up", "huge", "--dry-run").stdout
        assert "a" in shown
        assert "drain b" in shown
        assert (await ask(plane, "huge")).status == 200
        assert states(plane) == {"huge": "ready", "a": "stopped", "b": "stopped"}
        assert [slot["resident"] for slot in plane.status()["slots"]] == [["huge"], ["huge"]]
        assert [slot["swaps"] for slot in plane.status()["slots"]] == [2, 2]
        assert (await ask(plane, "b")).status == 200
        assert states(plane) == {"huge": "stopped", "a": "stopped", "b": "ready"}
        assert plane.run("slot", "status", "gpu0").returncode == 0
        assert "gpu0+gpu1" in plane.run("serves", "status").stdout
