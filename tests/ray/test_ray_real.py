"""Serves as jobs of a real Ray: a head and two nodes on loopback addresses, with one pretended GPU each."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest
from scripts.ray_playground import Playground
from tests.fleet.conftest import Story, Workshop
from tests.ray import ray_real
from tests.ray.ray_ranks import on_two_nodes
from tests.ray.test_ray_driver import in_lab, until

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve
from stoker.fleet.supervision.supervisor import Supervisor
from stoker_ray.examine import unfit_reason, view
from stoker_ray.jobs_api import JobRequest, JobsApi, JobStatus

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(240)]
Tell = Callable[[Story], None]


@pytest.fixture(scope="module")
def shared() -> Iterator[Playground]:
    yield from ray_real.started()


@pytest.fixture
def lab(shared: Playground) -> Playground:
    """With everything that an earlier test killed."""
    for name in ("head", *shared.nodes):
        if name not in shared.groups:
            shared.start_head() if name == "head" else shared.start_node(name)
    return shared


@pytest.fixture
def tell(lab: Playground, tmp_path: Path) -> Tell:
    """Runs a story once Ray reports that all GPUs are free (that takes some seconds); afterwards no engine is left."""

    def run(story: Story) -> None:
        async def whole() -> None:
            async with asyncio.timeout(30):
                while any((await view(api(lab))).used.values()):
                    await asyncio.sleep(0.5)
            shop = Workshop(tmp_path)
            await story(shop)
            assert engines(shop) == []

        asyncio.run(whole())

    return run


def fleet(shop: Workshop, lab: Playground) -> Supervisor:
    return shop.supervisor(cluster_of=lambda name: ray_real.cluster(lab))


def api(lab: Playground) -> JobsApi:
    return JobsApi(lab.address, lambda: lab.token)


def on_alpha(shop: Workshop, lab: Playground, *options: str, **fields: object) -> Serve:
    return in_lab(shop, lab.address, *options, labels={"box": "alpha"}, **fields)


def engines(shop: Workshop) -> list[psutil.Process]:
    """The engines of this story, wherever Ray started them."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "scripted_engine.py" in " ".join(process.info["cmdline"] or [])
        and "127.0.0." in str(process.info["cmdline"])
    ]


def test_the_cluster_is_fit_and_shows_its_nodes(lab: Playground) -> None:
    async def story() -> None:
        assert await unfit_reason(api(lab)) == ""
        seen = await view(api(lab))
        assert [(node.ip, node.gpus, dict(node.labels)) for node in seen.nodes[1:]] == [
            (lab.nodes["alpha"], 1.0, {"box": "alpha"}), (lab.nodes["beta"], 1.0, {"box": "beta"}),
        ]  # fmt: skip

    asyncio.run(story())


def test_a_job_runs_on_its_node_is_adopted_after_a_restart_and_leaves_nothing(lab: Playground, tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        serve = on_alpha(shop, lab, "--key", "{key}")
        first = fleet(shop, lab)
        assert await first.full_check(serve) == []
        running = await first.start(serve, shop.on_exit)
        assert running.target.host == lab.nodes["alpha"]
        [problem] = await first.full_check(on_alpha(shop, lab, slot="lab-b", name="b"))
        assert "no node with box=alpha of cluster 'lab' has 1 GPU free" in problem
        await first.close(leave_running=True)
        second = fleet(shop, lab)
        [adopted] = await second.adopt([serve], shop.on_exit)
        assert adopted.target == running.target
        await second.stop("a", 1.0)
        assert engines(shop) == []
        assert (await view(api(lab))).jobs == []
        await second.close(leave_running=False)

    tell(story)


def test_an_engine_that_fails_is_reported_with_its_code_and_last_output(lab: Playground, tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = fleet(shop, lab)
        serve = on_alpha(shop, lab, "--say", "CUDA error: out of memory", "--exit", "3")
        with pytest.raises(StartFailed, match=r"exited with code 3 after .*CUDA error: out of memory"):
            await supervisor.start(serve, shop.on_exit)
        missing = dataclasses.replace(on_alpha(shop, lab), cmd=("no-such-engine", "{port}"))
        with pytest.raises(StartFailed, match=r"exited with code 127 after .*no-such-engine"):
            await supervisor.start(missing, shop.on_exit)
        await supervisor.close(leave_running=False)

    tell(story)


def test_one_that_ignores_sigterm_ends_after_its_grace_with_its_children(lab: Playground, tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = fleet(shop, lab)
        await supervisor.start(on_alpha(shop, lab, "--ignore-term", "--wrap"), shop.on_exit)
        assert len(engines(shop)) >= 2
        began = time.monotonic()
        await supervisor.stop("a", 1.0)
        assert 0.9 < time.monotonic() - began < 10
        assert engines(shop) == []
        await supervisor.close(leave_running=False)

    tell(story)


def test_a_job_without_a_gpu_is_given_up_and_its_slot_is_free_once_ray_has_ended_it(
    lab: Playground, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else takes the GPU between the look and the submit."""
    monkeypatch.setattr("stoker_ray.job_watch.PENDING_LIMIT", 4.0)
    monkeypatch.setattr("stoker_ray.nodes.free_gpus", lambda node, *_: node.gpus)

    async def story(shop: Workshop) -> None:
        head = api(lab)
        [node] = [node for node in await head.nodes() if node.labels.get("box") == "alpha" and node.is_alive]
        await head.submit(JobRequest("thief", "exec sleep 600", node.id, 1, {}, {}))
        async with asyncio.timeout(20):
            while (job := await head.job("thief")) is None or job.status is not JobStatus.RUNNING:
                await asyncio.sleep(0.2)
        supervisor = fleet(shop, lab)
        with pytest.raises(StartFailed, match="for its GPUs on node"):
            await supervisor.start(on_alpha(shop, lab), shop.on_exit)
        assert shop.record().exists()
        [problem] = await supervisor.full_check(on_alpha(shop, lab, name="b"))
        assert "slot 'lab-a' is still used by job stoker-a-" in problem
        await head.stop("thief")
        await until(lambda: not shop.record().exists(), 60)
        assert engines(shop) == []
        await supervisor.start(on_alpha(shop, lab), shop.on_exit)
        await supervisor.close(leave_running=False)

    tell(story)


def test_a_supervisor_of_ray_that_dies_takes_its_engine_with_it_and_that_is_noticed(
    lab: Playground, tell: Tell
) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = fleet(shop, lab)
        await supervisor.start(on_alpha(shop, lab), shop.on_exit)
        [ours] = [
            process for process in psutil.process_iter(["cmdline"])
            if "JobSupervisor" in " ".join(process.info["cmdline"] or []) and str(lab.place) in str(process.environ())
        ]  # fmt: skip
        os.kill(ours.pid, signal.SIGKILL)
        await asyncio.wait_for(shop.exited.wait(), 15)
        await until(lambda: not shop.record().exists(), 30)
        assert engines(shop) == []
        await supervisor.close(leave_running=False)

    tell(story)


def test_a_head_that_dies_and_comes_back_costs_nothing(lab: Playground, tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = fleet(shop, lab)
        serve = on_alpha(shop, lab)
        await supervisor.start(serve, shop.on_exit)
        lab.kill("head")
        await asyncio.sleep(5)
        assert shop.exits == []
        [problem] = await supervisor.full_check(on_alpha(shop, lab, slot="lab-b", name="b"))
        assert "cannot be reached" in problem
        await asyncio.to_thread(lab.start_head)
        await asyncio.sleep(3)
        assert shop.exits == []
        await supervisor.stop("a", 1.0)
        assert engines(shop) == []
        await supervisor.start(serve, shop.on_exit)
        await supervisor.close(leave_running=False)

    tell(story)


def test_a_node_that_dies_is_noticed_at_once_and_its_slot_stays_used_until_ray_knows(
    lab: Playground, tell: Tell
) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = fleet(shop, lab)
        await supervisor.start(on_alpha(shop, lab), shop.on_exit)
        lab.kill("alpha")
        began = time.monotonic()
        await asyncio.wait_for(shop.exited.wait(), 10)
        print(f"noticed after {time.monotonic() - began:.1f} s")
        assert shop.record().exists()
        await until(lambda: not shop.record().exists(), 60)
        print(f"free after {time.monotonic() - began:.1f} s")
        assert engines(shop) == []
        await supervisor.close(leave_running=False)

    tell(story)


def ranks(shop: Workshop) -> dict[int, psutil.Process]:
    """The engines of this story by their rank."""
    found = [(process, process.cmdline()) for process in engines(shop)]
    return {int(words[words.index("--rank") + 1]): process for process, words in found if "--rank" in words}


def test_two_ranks_meet_are_adopted_after_a_restart_and_leave_nothing(lab: Playground, tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        serve = on_two_nodes(shop, lab.address, "--key", "{key}")
        first = fleet(shop, lab)
        assert await first.full_check(serve) == []
        running = await first.start(serve, shop.on_exit)
        assert running.target.host == lab.nodes["alpha"]
        assert sorted(ranks(shop)) == [0, 1]
        await first.close(leave_running=True)
        second = fleet(shop, lab)
        [adopted] = await second.adopt([serve], shop.on_exit)
        assert adopted.target == running.target
        await second.stop("a", 1.0)
        assert engines(shop) == []
        assert (await view(api(lab))).jobs == []
        await second.close(leave_running=False)

    tell(story)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_ends_all(lab: Playground, tell: Tell, rank: int) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = fleet(shop, lab)
        await supervisor.start(on_two_nodes(shop, lab.address), shop.on_exit)
        ranks(shop)[rank].kill()
        began = time.monotonic()
        await asyncio.wait_for(shop.exited.wait(), 10)
        print(f"noticed after {time.monotonic() - began:.1f} s: {shop.exits[0][1]}")
        assert shop.exits[0][1].startswith(f"lost rank {rank} on node ")
        await until(lambda: not shop.record().exists(), 30)
        assert engines(shop) == []
        assert (await view(api(lab))).jobs == []
        await supervisor.close(leave_running=False)

    tell(story)


def test_a_killed_node_of_another_rank_ends_all(lab: Playground, tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = fleet(shop, lab)
        await supervisor.start(on_two_nodes(shop, lab.address), shop.on_exit)
        lab.kill("beta")
        began = time.monotonic()
        await asyncio.wait_for(shop.exited.wait(), 60)
        print(f"noticed after {time.monotonic() - began:.1f} s: {shop.exits[0][1]}")
        assert shop.exits[0][1].startswith(f"lost rank 1 on node {lab.nodes['beta']}: it ")
        await until(lambda: not shop.record().exists(), 60)
        print(f"free after {time.monotonic() - began:.1f} s")
        assert engines(shop) == []
        await supervisor.close(leave_running=False)

    tell(story)


def test_stoker_killed_between_the_submits_of_two_ranks_leaves_nothing_behind(lab: Playground, tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with in_front_of(lab) as (port, second_submit):
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.ray.ray_crash_story", str(shop.directory),
                f"http://127.0.0.1:{port}", "ranks", lab.token, cwd=Path(__file__).parents[3],
            )  # fmt: skip
            await asyncio.wait_for(second_submit.wait(), 30)
            child.kill()
            await child.wait()
            await until(lambda: sorted(ranks(shop)) == [0], 20)
            supervisor = fleet(shop, lab)
            serve = on_two_nodes(shop, lab.address)
            assert await supervisor.adopt([serve], shop.on_exit) == []
            await until(lambda: not shop.record().exists(), 30)
            assert engines(shop) == []
            assert (await view(api(lab))).jobs == []
            await supervisor.start(serve, shop.on_exit)
            await supervisor.close(leave_running=False)

    tell(story)


@contextlib.asynccontextmanager
async def in_front_of(lab: Playground) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A port that leads to the head, until a second job is submitted: that one is not passed on."""
    submits, second_submit = 0, asyncio.Event()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal submits
        asked = await reader.readuntil(b"\r\n\r\n")
        submits += asked.startswith(b"POST /api/jobs/ ")
        if submits == 2 and asked.startswith(b"POST /api/jobs/ "):
            second_submit.set()
            await asyncio.sleep(1)
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(lab.head_ip, 8265)
        back.write(asked.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        body = next((line for line in asked.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        back.write(await reader.readexactly(int(body.split(b":")[1])))
        writer.write(await there.read())
        back.close()
        writer.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], second_submit
