"""Engines with a rank on each of several nodes: all ranks or none, wherever one of them is lost. A scripted head.

1 from start to stop   2 a start that fails   3 a rank is lost   4 after a restart
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.fleet.conftest import Story, Workshop
from tests.ray.ray_ranks import on_two_nodes
from tests.ray.scripted_ray import ScriptedRay, scripted_ray
from tests.ray.test_ray_driver import ask, fleet, in_cluster, until

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve
from stoker.engines.launch import LaunchPlace
from stoker_ray.jobs_api import Node
from stoker_ray.ranks import plans

Tell = Callable[[Story], None]
NODES = [Node("a", "10.0.0.1"), Node("b", "10.0.0.2")]


def at_submit(ray: ScriptedRay, number: int, act: Callable[[], str | None]) -> None:
    """`act` is called before the submit of this rank is carried out; what it returns: see `ScriptedRay`."""

    def on_call(verb: str, path: str) -> str | None:
        is_it = (verb, path) == ("POST", "/api/jobs/") and len(ray.submissions()) == number + 1
        return act() if is_it else None

    ray.on_call = on_call


# -- 1 from start to stop ------------------------------------------------------------------------------------------


def test_vllm_is_told_its_rank_and_where_rank_0_is() -> None:
    serve = Serve(name="a", engine="vllm", model="o/m")
    first, second = plans(serve, LaunchPlace(9000, "k"), NODES, 21000)
    ranks = "--distributed-executor-backend mp --nnodes 2 --node-rank {} --master-addr 10.0.0.1 --master-port 21000"
    assert " ".join(first.argv).endswith(ranks.format(0))
    assert " ".join(second.argv).endswith(ranks.format(1) + " --headless")
    assert [launch.environment["VLLM_HOST_IP"] for launch in (first, second)] == ["10.0.0.1", "10.0.0.2"]


def test_sglang_is_told_its_rank_and_where_rank_0_is() -> None:
    serve = Serve(name="a", engine="sglang", model="o/m")
    for number, launch in enumerate(plans(serve, LaunchPlace(9000, "k"), NODES, 21000)):
        assert f"--nnodes 2 --node-rank {number} --dist-init-addr 10.0.0.1:21000" in " ".join(launch.argv)
        assert launch.environment["SGLANG_HOST_IP"] == NODES[number].ip


def test_each_rank_is_a_job_on_a_node_of_its_own_and_rank_0_is_used(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = on_two_nodes(shop, ray.cluster.address, "--key", "{key}")
            assert await supervisor.full_check(serve) == []
            running = await supervisor.start(serve, shop.on_exit)
            assert (running.target.host, running.facts["node"]) == ("127.0.0.1", "127.0.0.1, 127.0.0.5")
            first, second = ray.jobs.values()
            assert second.body["submission_id"] == first.body["submission_id"] + "-1"
            for job, node, slot in ((first, "a" * 56, "lab-a"), (second, "b" * 56, "lab-b")):
                assert job.body["entrypoint_label_selector"] == {"ray.io/node-id": node}
                assert (job.body["metadata"]["stoker_slot"], job.body["entrypoint_num_gpus"]) == (slot, 1)
            assert ray.calls.count("POST /api/jobs/") == 2
            [problem] = await supervisor.full_check(in_cluster(shop, ray, name="b", slot="lab-c"))
            assert "no node of cluster 'lab' has 1 GPU free" in problem
            await supervisor.stop("a", 1.0)
            assert ray.jobs == {}
            assert shop.exits == []
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


def test_the_log_has_the_output_of_each_rank_and_no_key(tell: Tell, caplog: pytest.LogCaptureFixture) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = on_two_nodes(shop, ray.cluster.address, "--say", "loaded part {rank} of {ranks}", "--key", "{key}")
            with caplog.at_level(logging.DEBUG):
                running = await supervisor.start(serve, shop.on_exit)
                await supervisor.stop("a", 1.0)
            log = shop.log()
            assert "--- stoker: rank 0 on node 127.0.0.1:\nloaded part 0 of 2\n" in log
            assert "--- stoker: rank 1 on node 127.0.0.5:\nloaded part 1 of 2\n" in log
            assert running.target.key is not None
            assert running.target.key not in log + caplog.text
            await supervisor.close(leave_running=False)

    tell(story)


# -- 2 a start that fails ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "host"), [(0, "127.0.0.1"), (1, "127.0.0.5")])
def test_a_rank_that_fails_is_named_with_its_output_and_the_other_one_ends(tell: Tell, rank: int, host: str) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            options = ["--fail-rank", str(rank), "--delay", "60"]
            with pytest.raises(StartFailed) as failure:
                await supervisor.start(on_two_nodes(shop, ray.cluster.address, *options), shop.on_exit)
            assert f"serve 'a' lost rank {rank} on node {host}: it exited with code 3 after" in failure.value.message
            assert "NCCL error: the other side is gone" in failure.value.message
            assert ray.jobs == {}
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


def test_without_a_node_for_each_rank_nothing_is_submitted(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = on_two_nodes(shop, ray.cluster.address, labels=({"box": "alpha"}, {"box": "alpha"}))
            expected = "rank 1: each rank needs a node of its own, and other ranks need 127.0.0.1"
            assert await supervisor.full_check(serve) == [f"serve 'a': {expected}"]
            ray.nodes[1].foreign = 1
            serve = on_two_nodes(shop, ray.cluster.address)
            with pytest.raises(StartFailed, match="rank 1: no node with box=beta of cluster 'lab' has 1 GPU free"):
                await supervisor.start(serve, shop.on_exit)
            assert ray.submissions() == []
            await supervisor.close(leave_running=False)

    tell(story)


def test_a_rank_that_waits_for_its_gpu_ends_all_and_both_slots_stay_used_until_its_job_is_gone(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_ray.job_watch.PENDING_LIMIT", 1.0)

    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            at_submit(ray, 1, lambda: vars(ray.nodes[1]).update(foreign=1))
            supervisor = fleet(shop, ray)
            with pytest.raises(StartFailed, match=r"lost rank 1 on node 127.0.0.5: it waited .* for its GPUs"):
                await supervisor.start(on_two_nodes(shop, ray.cluster.address), shop.on_exit)
            await until(lambda: len(ray.alive()) == 1)
            [problem] = await supervisor.full_check(in_cluster(shop, ray, name="b", slot="lab-a"))
            assert "slot 'lab-a' is still used by job stoker-a-" in problem
            assert ": rank 1: it was told to end " in problem
            ray.nodes[1].foreign = 0
            ray.schedule()
            await until(lambda: not shop.record().exists())
            assert ray.jobs == {}
            await supervisor.close(leave_running=False)

    tell(story)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("fault", ["lose", "500"])
def test_a_submit_of_a_rank_without_an_answer_is_looked_up_and_never_repeated(
    tell: Tell, fault: str, rank: int
) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            at_submit(ray, rank, lambda: fault)
            supervisor = fleet(shop, ray)
            await supervisor.start(on_two_nodes(shop, ray.cluster.address), shop.on_exit)
            assert len(ray.submissions()) == 2
            await supervisor.close(leave_running=False)
            assert ray.jobs == {}

    tell(story)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_whose_submit_never_arrived_ends_all(tell: Tell, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_ray.job_watch.APPEARS_WITHIN", 1.0)

    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            at_submit(ray, rank, lambda: "drop")
            supervisor = fleet(shop, ray)
            with pytest.raises(StartFailed, match=f"lost rank {rank} on node .*: it was not accepted by Ray: the head"):
                await supervisor.start(on_two_nodes(shop, ray.cluster.address), shop.on_exit)
            assert ray.jobs == {}
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_start_that_is_cancelled_between_two_ranks_leaves_no_job(tell: Tell, rank: int) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = on_two_nodes(shop, ray.cluster.address, "--delay", "60")
            start = asyncio.get_running_loop().create_task(supervisor.start(serve, shop.on_exit))
            at_submit(ray, rank, lambda: None if start.cancel() else "drop")
            with pytest.raises(asyncio.CancelledError):
                await start
            assert ray.submissions()
            assert ray.jobs == {}
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


# -- 3 a rank is lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_stopped_in_ray_ends_all(tell: Tell, rank: int) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            await supervisor.start(on_two_nodes(shop, ray.cluster.address), shop.on_exit)
            await ask(ray, f"/api/jobs/{list(ray.jobs)[rank]}/stop")
            await asyncio.wait_for(shop.exited.wait(), 5)
            [(name, detail)] = shop.exits
            assert (name, detail.partition(" on node")[0]) == ("a", f"lost rank {rank}")
            await until(lambda: not shop.record().exists())
            assert ray.jobs == {}
            await supervisor.start(on_two_nodes(shop, ray.cluster.address), shop.on_exit)
            await supervisor.close(leave_running=False)

    tell(story)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_lost_node_ends_all_and_both_slots_stay_used_until_ray_knows(tell: Tell, rank: int) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            await supervisor.start(on_two_nodes(shop, ray.cluster.address), shop.on_exit)
            await ray.kill_node(ray.nodes[rank], is_noticed=rank == 1)
            await asyncio.wait_for(shop.exited.wait(), 10)
            assert shop.exits[0][1].startswith(f"lost rank {rank} on node {ray.nodes[rank].ip}: it ")
            if rank == 0:
                await until(lambda: len(ray.alive()) == 1)
                [problem] = await supervisor.full_check(in_cluster(shop, ray, name="b", slot="lab-b"))
                assert "slot 'lab-b' is still used by job stoker-a-" in problem
                ray.notice_death(ray.nodes[0])
            await until(lambda: not shop.record().exists())
            assert ray.alive() == []
            await supervisor.close(leave_running=False)

    tell(story)


# -- 4 after a restart ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_head_silent", [False, True])
def test_all_ranks_are_found_again(tell: Tell, is_head_silent: bool) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            serve = on_two_nodes(shop, ray.cluster.address, "--key", "{key}")
            first = fleet(shop, ray)
            before = await first.start(serve, shop.on_exit)
            await first.close(leave_running=True)
            if is_head_silent:
                await ray.fall_silent()
            second = fleet(shop, ray)
            [running] = await second.adopt([serve], shop.on_exit)
            assert running.target == before.target
            if is_head_silent:
                await ray.listen()
            await asyncio.sleep(1.5)
            assert (shop.exits, len(ray.alive())) == ([], 2)
            await second.stop("a", 1.0)
            assert ray.jobs == {}
            await second.close(leave_running=False)

    tell(story)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_ended_meanwhile_ends_all(tell: Tell, rank: int) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            serve = on_two_nodes(shop, ray.cluster.address)
            first = fleet(shop, ray)
            await first.start(serve, shop.on_exit)
            await first.close(leave_running=True)
            await ask(ray, f"/api/jobs/{list(ray.jobs)[rank]}/stop")
            await until(lambda: len(ray.alive()) == 1)
            second = fleet(shop, ray)
            await second.adopt([serve], shop.on_exit)
            await until(lambda: not shop.record().exists())
            assert ray.jobs == {}
            await second.start(serve, shop.on_exit)
            await second.close(leave_running=False)

    tell(story)


def test_ranks_that_all_ended_meanwhile_are_forgotten(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            serve = on_two_nodes(shop, ray.cluster.address)
            first = fleet(shop, ray)
            await first.start(serve, shop.on_exit)
            await first.close(leave_running=True)
            for id in list(ray.jobs):
                await ask(ray, f"/api/jobs/{id}/stop")
            await until(lambda: ray.alive() == [])
            second = fleet(shop, ray)
            assert await second.adopt([serve], shop.on_exit) == []
            assert ray.jobs == {}
            assert not shop.record().exists()
            await second.close(leave_running=False)

    tell(story)
