"""A serve with slots in a Ray cluster, in the running program: it loads, survives, is adopted, moves.

The first part has a scripted head; the last, which is heavy, a real Ray.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scripts.ray_playground import Playground
from tests.ray import ray_real
from tests.ray.scripted_ray import TOKEN, ScriptedRay, ray_in_thread
from tests.scenarios.caller import Talk, ask, closing_errors, story
from tests.scenarios.plane import Plane, running, serve, until

from stoker_lab.testing.script.script import Script

SWAP = 'min_residency = "0s"\nlinger = "0s"\nmax_wait = "5s"\npatience = 0.1'


def fast(slots: list[str], **keys: object) -> str:
    """A scripted engine that listens where it is told."""
    return serve("fast", slot=None, slots=slots, replicas=2, parallel=1, cmd=engine("fast"), **keys)


def engine(name: str) -> list[str]:
    return [*replace(Script(), id=name).command("{port}"), "--host", "{host}"]


def huge() -> str:
    """The same, as rank 0 of two; rank 1 is a script that stays."""
    command = shlex.join(replace(Script(), id="huge").command("{port}"))
    ranks = f"test {{rank}} = 1 && exec sleep 600; exec {command} --host {{host}}"
    meet = "{rendezvous_host}:{rendezvous_port}"
    return serve("huge", slot="alpha+beta", cmd=["/bin/sh", "-c", ranks, meet])


def lab(address: str, token: Path) -> str:
    head = f'[clusters.lab]\naddress = "{address}"\ntoken = "file:{token}"\n'
    return head + "".join(
        f'[slots.{name}]\ncluster = "lab"\nnode = {{ box = "{name}" }}\n' for name in ("alpha", "beta")
    )


def states(plane: Plane) -> dict[str, str]:
    return {one["name"]: one["state"] for one in plane.status()["serves"]}


async def load_both(plane: Plane) -> None:
    replies = await asyncio.gather(
        *(ask(plane, "fast", f"script: first_event_after=0.7{number}") for number in range(8))
    )
    assert {reply.status for reply in replies} == {200}
    assert set(states(plane).values()) == {"ready"}


async def timed_end(talk: Talk, began: float) -> tuple[float, list[str]]:
    """Seconds until the stream ended, and the codes of the error that ended it."""
    events = await talk.rest()
    return time.monotonic() - began, [error["code"] for error in closing_errors(events, "chat")]


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[ScriptedRay]:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with ray_in_thread() as head:
        yield head


@story
async def test_one_slot_here_and_one_in_a_cluster(ray: ScriptedRay, tmp_path: Path) -> None:
    slots = "[slots.here]\n" + lab(ray.cluster.address, tmp_path / "token")
    with running(fast(["here", "beta"]), slots=slots, swap=SWAP) as plane:
        await load_both(plane)
        [id] = ray.alive()
        assert ray.jobs[id].body["entrypoint_label_selector"] == {"ray.io/node-id": "b" * 56}
        os.kill(plane.serve("fast@here")["pid"], signal.SIGKILL)
        await until(lambda: states(plane)["fast@here"] != "ready", "its death is seen")
        assert (await ask(plane, "fast")).status == 200
        assert plane.run("serves", "down", "fast").returncode == 0
        assert ray.jobs == {}


@story
async def test_after_sigkill_of_stoker_the_next_one_goes_on_with_the_job(ray: ScriptedRay, tmp_path: Path) -> None:
    with running(fast(["alpha", "beta"]), slots=lab(ray.cluster.address, tmp_path / "token"), swap=SWAP) as plane:
        assert (await ask(plane, "fast")).status == 200
        before = list(ray.jobs)
        plane.signal(signal.SIGKILL)
        plane.exit_code()
        plane.start()
        assert "adopted fast@alpha, which was still running" in plane.said()
        assert (await ask(plane, "fast")).status == 200
        assert list(ray.jobs) == before
        assert plane.run("serves", "down", "fast").returncode == 0


@story
async def test_ctrl_c_while_the_head_is_away_names_the_job_that_goes_on(ray: ScriptedRay, tmp_path: Path) -> None:
    models = serve("fast", slot="alpha", cmd=engine("fast"))
    with running(models, slots=lab(ray.cluster.address, tmp_path / "token"), swap=SWAP) as plane:
        assert (await ask(plane, "fast")).status == 200
        [job] = ray.alive()
        ray.on_call = lambda verb, path: "drop"
        plane.signal(signal.SIGINT)
        assert plane.exit_code() == 0
        assert f"not stopped: slot 'alpha' stays used: job {job} of serve 'fast' is not known to be" in plane.said()
        assert "`stoker cluster status` shows it" in plane.said()
        ray.on_call = lambda verb, path: None
        plane.start()
        assert plane.run("serves", "down", "fast").returncode == 0
        assert ray.jobs == {}


@story
async def test_without_a_free_gpu_there_the_other_slot_is_taken(ray: ScriptedRay, tmp_path: Path) -> None:
    for node in ray.nodes:
        node.foreign = 1
    slots = lab(ray.cluster.address, tmp_path / "token") + "[slots.here]\n"
    with running(fast(["alpha", "here"]), slots=slots, swap=SWAP) as plane:
        assert (await ask(plane, "fast")).status == 200
        assert states(plane)["fast@here"] == "ready"
        assert "lab: 1 GPU, box=alpha" in plane.run("slot", "list").stdout
        planned = plane.run("serves", "up", "fast@alpha", "--dry-run").stdout
        assert "submit to cluster 'lab', as a job with 1 GPU of a node with box=alpha: " in planned
        assert "--host NODE" in planned
        assert "has 1 GPU free: 0 of 1 on 127.0.0.1" in plane.run("serves", "status").stdout


@story
async def test_an_engine_on_two_machines_clears_both_slots_and_gives_them_back(
    ray: ScriptedRay, tmp_path: Path
) -> None:
    models = fast(["alpha", "beta"]) + "\n" + huge()
    with running(models, slots=lab(ray.cluster.address, tmp_path / "token"), swap=SWAP) as plane:
        assert (await ask(plane, "fast")).status == 200
        planned = plane.run("serves", "up", "huge", "--dry-run").stdout
        assert "submit to cluster 'lab', as rank 0 with 1 GPU of a node with box=alpha: " in planned
        assert "submit to cluster 'lab', as rank 1 with 1 GPU of a node with box=beta: " in planned
        assert (await ask(plane, "huge")).status == 200
        assert states(plane) == {"fast@alpha": "stopped", "fast@beta": "stopped", "huge": "ready"}
        first, second = ray.alive()
        assert second == f"{first}-1"
        assert ray.jobs[second].process is not None
        ray.jobs[second].process.send_signal(signal.SIGTERM)
        await until(lambda: ray.alive() == [], "the other rank is ended")
        assert "lost rank 1 on node 127.0.0.5: it was ended by SIGTERM" in plane.run("serves", "status").stdout
        assert (await ask(plane, "huge")).status == 200
        assert len(ray.alive()) == 2
        assert (await ask(plane, "fast")).status == 200
        assert states(plane)["huge"] == "stopped"


@pytest.fixture(scope="module")
def real() -> Iterator[Playground]:
    yield from ray_real.started()


@pytest.mark.heavy
@pytest.mark.timeout(180)
@story
async def test_a_real_node_that_dies_costs_the_answers_it_had_begun_and_a_sibling_goes_on(real: Playground) -> None:
    with running(fast(["alpha", "beta"]), slots=lab(real.address, real.token_file), swap=SWAP) as plane:
        began = time.monotonic()
        assert (await ask(plane, "fast")).status == 200
        print(f"cold, from the request to its answer: {time.monotonic() - began:.2f} s")
        await load_both(plane)
        async with (
            Talk(plane, "fast", "script: gap=0.6 tokens=20", stream=True) as one,
            Talk(plane, "fast", "script: gap=0.61 tokens=20", stream=True) as other,
        ):
            await asyncio.gather(one.event(), other.event())
            waiting = asyncio.get_running_loop().create_task(ask(plane, "fast"))
            real.kill("alpha")
            began = time.monotonic()
            ends = await asyncio.gather(*(timed_end(talk, began) for talk in (one, other)))
        (failed, codes), (lived, none) = sorted(ends)
        print(f"the stream there failed after {failed:.2f} s, the other ended after {lived:.2f} s")
        assert (codes, none) == (["upstream_broke"], [])
        assert (await waiting).status == 200
        await until(lambda: states(plane)["fast@alpha"] != "ready", "its death is seen")
        began = time.monotonic()
        assert (await ask(plane, "fast")).status == 200
        print(f"the sibling answered in {time.monotonic() - began:.2f} s")
        assert plane.run("serves", "down", "fast@beta").returncode == 0
