"""Stoker is killed at each step of a start and a stop: a start is one job at most, and the next run finds it.

The head is scripted, the control plane that is killed is a process of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fleet.conftest import Story, Workshop
from tests.ray.ray_ranks import on_two_nodes
from tests.ray.scripted_ray import TOKEN, ScriptedRay, scripted_ray
from tests.ray.test_ray_driver import fleet, in_lab, until

STORY = Path(__file__).with_name("ray_crash_story.py")
JOB = "/api/jobs/stoker-a-"
STEPS = {
    "before it looks for a node": ("GET", "/api/v0/nodes", 1, "drop"),
    "before the submit arrives": ("POST", "/api/jobs/", 1, "drop"),
    "after the submit, before its answer": ("POST", "/api/jobs/", 1, "lose"),
    "at its first look at the job": ("GET", JOB, 1, "drop"),
    "before the stop arrives": ("POST", "/stop", 1, "drop"),
    "after the stop, before its answer": ("POST", "/stop", 1, "lose"),
    "before the job is forgotten": ("DELETE", JOB, 1, "drop"),
    "after the job is forgotten": ("DELETE", JOB, 1, "lose"),
}


@pytest.mark.parametrize("step", [*STEPS, "when it is ready"])
def test_a_start_is_one_job_at_most_wherever_stoker_is_killed(tell: Callable[[Story], None], step: str) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            await run_until_killed(shop, ray, step)
            assert len(ray.submissions()) <= 1
            assert len(ray.jobs) <= 1
            second = fleet(shop, ray)
            serve = in_lab(shop, ray.cluster.address)
            adopted = await second.adopt([serve], shop.on_exit)
            assert [running.serve.name for running in adopted] == (["a"] if step in LIVES else [])
            assert len(ray.alive()) == len(adopted), "what is not adopted is gone, or was told to end and has ended"
            if not adopted:
                assert not shop.record().exists()
                await second.start(serve, shop.on_exit)
            assert len(ray.alive()) == 1
            await second.stop("a", 1.0)
            assert ray.jobs == {}
            await second.close(leave_running=False)

    tell(story)


LIVES = ("when it is ready", "before the stop arrives")
"""The engine is ready, and nobody told Ray to stop it: it is adopted."""


STEPS_OF_RANKS = {
    "before rank 0 is submitted": ("POST", "/api/jobs/", 1, "drop"),
    "after rank 0, before its answer": ("POST", "/api/jobs/", 1, "lose"),
    "before rank 1 is submitted": ("POST", "/api/jobs/", 2, "drop"),
    "after rank 1, before its answer": ("POST", "/api/jobs/", 2, "lose"),
    "at a first look": ("GET", JOB, 1, "drop"),
    "after the first stop": ("POST", "/stop", 1, "lose"),
    "before the second stop": ("POST", "/stop", 2, "drop"),
    "after a first one is forgotten": ("DELETE", JOB, 1, "lose"),
}


@pytest.mark.parametrize("step", [*STEPS_OF_RANKS, "when it is ready"])
def test_all_ranks_are_found_again_or_all_are_ended_wherever_stoker_is_killed(
    tell: Callable[[Story], None], step: str
) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            await run_until_killed(shop, ray, step, "ranks")
            assert len(ray.submissions()) <= 2
            second = fleet(shop, ray)
            serve = on_two_nodes(shop, ray.cluster.address)
            adopted = await second.adopt([serve], shop.on_exit)
            if step == "when it is ready":
                assert [running.serve.name for running in adopted] == ["a"]
                assert len(ray.alive()) == 2
            else:
                await until(lambda: not shop.record().exists(), 20)
                assert ray.alive() == []
                await second.start(serve, shop.on_exit)
            await second.stop("a", 1.0)
            assert ray.jobs == {}
            await second.close(leave_running=False)

    tell(story)


async def run_until_killed(shop: Workshop, ray: ScriptedRay, step: str, kind: str = "one") -> None:
    root = Path(__file__).parents[3]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.ray.ray_crash_story", str(shop.directory), ray.cluster.address, kind,
        TOKEN, cwd=root, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdin is not None

    steps = STEPS_OF_RANKS if kind == "ranks" else STEPS
    seen = itertools.count(1)

    def kill(verb: str, path: str) -> str | None:
        wanted, part, nth, fault = steps[step]
        if verb != wanted or (part not in path if part != "/api/jobs/" else part != path):
            return None
        call = next(seen)
        if call == nth:  # not again for a call that was on its way: a second kill would reap it behind asyncio's back
            child.kill()
        return fault if call >= nth else None

    if step in steps:
        ray.on_call = kill
    if (await child.stdout.readline()) == b"ready\n":
        if step == "when it is ready":
            child.kill()
        child.stdin.write(b"stop\n")
    child.stdin.close()
    await asyncio.wait_for(child.wait(), 20)
    assert child.returncode == -9, "it was killed, and did not end by itself"
    ray.on_call = lambda verb, path: None
