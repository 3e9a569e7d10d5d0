"""Serves as jobs of a Ray cluster: a scripted head, real engines.

1 from start to stop   2 no room   3 unsure submits   4 the job ends   5 the head or a node is lost   6 after a restart
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.conftest import Story, Workshop
from tests.ray.scripted_ray import TOKEN, ScriptedRay, scripted_ray
from tests.scenarios.plane import STOKER
from tests.scenarios.typed import proposed

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Driver, JobPlace, Serve
from stoker.fleet.drivers.unit import NotGone
from stoker.fleet.supervision.supervisor import Supervisor

Tell = Callable[[Story], None]


def in_cluster(shop: Workshop, ray: ScriptedRay, *options: str, **fields: Any) -> Serve:
    return in_lab(shop, ray.cluster.address, *options, **fields)


def in_lab(shop: Workshop, address: str, *options: str, slot: str = "lab-a", **fields: Any) -> Serve:
    gpus, labels = fields.pop("gpus", 1), fields.pop("labels", {})
    name = fields.setdefault("name", "a")
    place = JobPlace("lab", address, gpus, labels)
    serve = shop.serve("--host", "{host}", "--id", name, *options, stop_grace=1.0, **fields)
    return dataclasses.replace(serve, driver=Driver.RAY, job_place=place, slot=slot)


def fleet(shop: Workshop, ray: ScriptedRay) -> Supervisor:
    return shop.supervisor(cluster_of=lambda name: ray.cluster if name == "lab" else None)


async def until(holds: Callable[[], bool], limit: float = 10.0) -> None:
    async with asyncio.timeout(limit):
        while not holds():
            await asyncio.sleep(0.02)


def typed(line: str, ray: ScriptedRay) -> str:
    """What the command prints, where a configuration names this cluster."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "token").write_text(TOKEN)
        (Path(place) / "token").chmod(0o600)
        table = f'[clusters.lab]\naddress = "{ray.cluster.address}"\ntoken = "file:token"\n'
        (Path(place) / "stoker.toml").write_text(table)
        done = subprocess.run([STOKER, *line.split()[1:]], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- 1 from start to stop ------------------------------------------------------------------------------------------


def test_a_job_is_submitted_proved_used_at_its_nodes_address_stopped_and_forgotten(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = in_cluster(shop, ray, "--key", "{key}", labels={"box": "beta"})
            assert await supervisor.full_check(serve) == []
            running = await supervisor.start(serve, shop.on_exit)
            assert (running.target.host, running.pid, running.facts["node"]) == ("127.0.0.5", None, "127.0.0.5")
            [(id, job)] = ray.jobs.items()
            assert job.body["entrypoint_num_gpus"] == 1
            assert job.body["entrypoint_label_selector"] == {"ray.io/node-id": "b" * 56}
            assert job.body["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"] == "1"
            record = json.loads(shop.record().read_text())
            assert (record["handle"], record["job"]["host"], record["ready"]) == (id, "127.0.0.5", True)
            await supervisor.stop("a", 1.0)
            assert ray.jobs == {}
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


def test_token_and_key_are_in_no_log_record_or_error(tell: Tell, caplog: pytest.LogCaptureFixture) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            with caplog.at_level(logging.DEBUG):
                running = await supervisor.start(
                    in_cluster(shop, ray, "--say", "two\nlines", "--key", "{key}"), shop.on_exit
                )
                await supervisor.stop("a", 1.0)
            assert running.target.key is not None
            everything = caplog.text + shop.log()
            assert TOKEN not in everything
            assert running.target.key not in everything
            await supervisor.close(leave_running=False)

    tell(story)


def test_the_engine_is_not_looked_for_here_and_weights_are_checked_on_the_node(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = dataclasses.replace(
                in_cluster(shop, ray), engine="llama.cpp", cmd=None, model="/there/is/no/such.gguf"
            )
            assert await supervisor.full_check(serve) == []
            with pytest.raises(StartFailed, match=r"exited with code 66.*/there/is/no/such.gguf does not exist on"):
                await supervisor.start(serve, shop.on_exit)
            assert ray.jobs == {}
            await supervisor.close(leave_running=False)

    tell(story)


# -- 2 no room -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "foreign", "problem"),
    [
        (
            {"labels": {"box": "gamma"}},
            0,
            "no node of cluster 'lab' has the labels box=gamma: there are 127.0.0.1 with",
        ),
        ({"gpus": 2}, 0, "no node of cluster 'lab' has 2 GPUs: 127.0.0.1 has 1; 127.0.0.5 has 1"),
        ({}, 1, "no node of cluster 'lab' has 1 GPU free: 0 of 1 on 127.0.0.1; 0 of 1 on 127.0.0.5"),
    ],
)
def test_without_a_free_gpu_nothing_is_submitted(
    tell: Tell, fields: dict[str, Any], foreign: int, problem: str
) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            for node in ray.nodes:
                node.foreign = foreign
            supervisor = fleet(shop, ray)
            serve = in_cluster(shop, ray, **fields)
            assert (await supervisor.full_check(serve))[0].startswith(f"serve 'a': {problem}")
            with pytest.raises(StartFailed) as failure:
                await supervisor.start(serve, shop.on_exit)
            assert problem in failure.value.message
            assert ray.submissions() == []
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


def test_two_starts_at_the_same_time_do_not_count_on_the_same_gpu(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            for node in ray.nodes:
                node.reported = 0  # Ray's report lags
            supervisor = fleet(shop, ray)
            both = [
                supervisor.start(in_cluster(shop, ray, slot=f"lab-{name}", name=name), shop.on_exit) for name in "ab"
            ]
            found = await asyncio.gather(*both)
            assert {one.target.host for one in found} == {"127.0.0.1", "127.0.0.5"}
            await supervisor.close(leave_running=False)

    tell(story)


def test_what_leaves_the_slot_counts_as_free_even_if_the_report_lags(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            ray.nodes[1].foreign = 1
            supervisor = fleet(shop, ray)
            await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            other = in_cluster(shop, ray, name="b")
            assert await supervisor.full_check(other, ("a",)) == []
            ray.nodes[0].reported = 1
            await supervisor.stop("a", 1.0)
            await supervisor.start(other, shop.on_exit)
            await supervisor.close(leave_running=False)

    tell(story)


def test_a_job_that_waits_for_its_gpus_is_given_up_and_keeps_its_place_until_it_is_gone(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_ray.job_watch.PENDING_LIMIT", 1.0)

    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:

            def steal(verb: str, path: str) -> str | None:
                if verb == "POST" and path == "/api/jobs/":
                    for node in ray.nodes:
                        node.foreign = 1
                return None

            ray.on_call = steal
            supervisor = fleet(shop, ray)
            with pytest.raises(
                StartFailed, match=r"for its GPUs on node 127.0.0.1: another program of the cluster got"
            ):
                await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            assert shop.record().exists()
            other = in_cluster(shop, ray, name="b")
            [problem] = await supervisor.full_check(other)
            assert problem.startswith("serve 'b': slot 'lab-a' is still used by job stoker-a-")
            assert "and Ray says PENDING" in problem
            with pytest.raises(StartFailed, match="is still used by job"):
                await supervisor.start(other, shop.on_exit)
            assert len(ray.submissions()) == 1
            for node in ray.nodes:
                node.foreign = 0
            ray.schedule()
            await until(lambda: not shop.record().exists())
            ray.on_call = lambda verb, path: None
            await supervisor.start(other, shop.on_exit)
            await supervisor.close(leave_running=False)

    tell(story)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"is_open": True}, "answers without a token, so whoever reaches it can run commands"),
        ({"version": "2.51.1"}, "runs Ray 2.51.1; 2.52 or newer is needed"),
    ],
)
def test_an_unfit_cluster_is_refused(tell: Tell, change: dict[str, Any], problem: str) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            vars(ray).update(change)
            supervisor = fleet(shop, ray)
            [found] = await supervisor.full_check(in_cluster(shop, ray))
            assert problem in found
            await supervisor.close(leave_running=False)

    tell(story)


# -- 3 unsure submits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["lose", "500"])
def test_a_submit_without_an_answer_is_looked_up_and_never_repeated(tell: Tell, fault: str) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            ray.on_call = lambda verb, path: fault if (verb, path) == ("POST", "/api/jobs/") else None
            supervisor = fleet(shop, ray)
            running = await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            assert len(ray.submissions()) == 1
            assert running.target.host == "127.0.0.1"
            await supervisor.close(leave_running=False)

    tell(story)


def test_a_submit_that_never_arrived_is_a_failed_start(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_ray.job_watch.APPEARS_WITHIN", 1.0)

    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            ray.on_call = lambda verb, path: "drop" if (verb, path) == ("POST", "/api/jobs/") else None
            supervisor = fleet(shop, ray)
            with pytest.raises(StartFailed, match=r"was not accepted by Ray: the head at .* cannot be reached"):
                await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            assert len(ray.submissions()) == 1
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


def test_a_cancelled_start_leaves_no_job(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            start = asyncio.get_running_loop().create_task(
                supervisor.start(in_cluster(shop, ray, "--delay", "60"), shop.on_exit)
            )

            def cancel(verb: str, path: str) -> None:
                if (verb, path) == ("POST", "/api/jobs/"):
                    start.cancel()

            ray.on_call = cancel
            with pytest.raises(asyncio.CancelledError):
                await start
            assert len(ray.submissions()) == 1
            assert ray.jobs == {}
            assert not shop.record().exists()
            await supervisor.close(leave_running=False)

    tell(story)


# -- 4 the job ends ------------------------------------------------------------------------------------------------


def test_an_engine_that_fails_is_reported_with_its_code_and_last_output(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = in_cluster(shop, ray, "--say", "CUDA error: out of memory", "--exit", "3")
            with pytest.raises(StartFailed, match=r"exited with code 3 after .*CUDA error: out of memory") as failure:
                await supervisor.start(serve, shop.on_exit)
            assert failure.value.code == "out_of_memory"
            assert "CUDA error" in shop.log()
            assert "job_manager" not in shop.log()
            assert "Running entrypoint" not in failure.value.message
            await supervisor.close(leave_running=False)

    tell(story)


def test_a_lost_port_is_tried_again_on_another_one(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            serve = in_cluster(shop, ray, "--say", "bind: address already in use", "--exit", "1")
            with pytest.raises(StartFailed, match="address already in use"):
                await supervisor.start(serve, shop.on_exit)
            assert len(ray.submissions()) == 3
            await supervisor.close(leave_running=False)

    tell(story)


def test_a_job_that_somebody_stops_in_ray_is_noticed(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            [id] = ray.jobs
            reply = await ask(ray, f"/api/jobs/{id}/stop")
            assert reply.startswith("HTTP/1.1 200")
            await asyncio.wait_for(shop.exited.wait(), 5)
            assert shop.exits[0][1].startswith(("was stopped in Ray after", "does not listen on node"))
            await until(lambda: not shop.record().exists())
            await supervisor.close(leave_running=False)

    tell(story)


# -- 5 the head or a node is lost ----------------------------------------------------------------------------------


def test_a_silent_head_is_no_lost_engine(tell: Tell, caplog: pytest.LogCaptureFixture) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            await ray.fall_silent()
            await until(lambda: "its engine is used as long as it answers" in caplog.text)
            await asyncio.sleep(2.5)
            assert shop.exits == []
            assert supervisor.statistics()["a"].state == "ready"
            await ray.listen()
            await supervisor.stop("a", 1.0)
            assert ray.jobs == {}
            await supervisor.close(leave_running=False)

    tell(story)


def test_the_end_of_stoker_without_the_head_tells_which_job_goes_on(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            await ray.fall_silent()
            (problem,) = await supervisor.close(leave_running=False)
            assert f"job {ray.alive()[0]} of serve 'a' is not known to be gone" in problem
            await ray.listen()
            shown = await asyncio.to_thread(typed, proposed(problem, "stoker cluster status"), ray)
            assert ray.alive()[0] in shown

    tell(story)


def test_a_stop_without_the_head_keeps_the_place_and_is_finished_when_it_is_back(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            await ray.fall_silent()
            with pytest.raises(NotGone, match=r"slot 'lab-a' stays used: job .* is not known to be gone"):
                await supervisor.stop("a", 1.0)
            assert shop.record().exists()
            await ray.listen()
            await until(lambda: not shop.record().exists())
            assert ray.jobs == {}
            await supervisor.close(leave_running=False)

    tell(story)


def test_a_lost_node_is_noticed_before_ray_does_and_its_place_stays_used_until_ray_knows(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            supervisor = fleet(shop, ray)
            await supervisor.start(in_cluster(shop, ray), shop.on_exit)
            began = time.monotonic()
            await ray.kill_node(ray.nodes[0], is_noticed=False)
            await asyncio.wait_for(shop.exited.wait(), 5)
            assert time.monotonic() - began < 5
            assert "does not listen on node 127.0.0.1 any more" in shop.exits[0][1]
            await asyncio.sleep(1)
            [problem] = await supervisor.full_check(in_cluster(shop, ray, name="b"))
            assert "slot 'lab-a' is still used by job" in problem
            ray.notice_death(ray.nodes[0])
            await until(lambda: not shop.record().exists())
            assert await supervisor.full_check(in_cluster(shop, ray, name="b")) == []
            await supervisor.close(leave_running=False)

    tell(story)


# -- 6 after a restart ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_head_silent", [False, True])
def test_a_job_that_was_left_running_is_adopted(tell: Tell, is_head_silent: bool) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            serve = in_cluster(shop, ray, "--key", "{key}")
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
            await second.stop("a", 1.0)
            assert ray.jobs == {}
            await second.close(leave_running=False)

    tell(story)


def test_a_job_with_another_nonce_is_not_ours_and_is_left_alone(tell: Tell) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            serve = in_cluster(shop, ray)
            first = fleet(shop, ray)
            await first.start(serve, shop.on_exit)
            await first.close(leave_running=True)
            [job] = ray.jobs.values()
            job.body["metadata"]["stoker_nonce"] = "another"
            second = fleet(shop, ray)
            assert await second.adopt([serve], shop.on_exit) == []
            assert ray.alive()
            assert not shop.record().exists()
            await second.close(leave_running=False)

    tell(story)


def test_a_job_whose_serve_changed_is_stopped_and_one_whose_cluster_is_gone_is_told_of(
    tell: Tell, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(shop: Workshop) -> None:
        async with scripted_ray() as ray:
            serve = in_cluster(shop, ray)
            first = fleet(shop, ray)
            await first.start(serve, shop.on_exit)
            await first.close(leave_running=True)
            second = fleet(shop, ray)
            assert await second.adopt([dataclasses.replace(serve, context=99)], shop.on_exit) == []
            assert ray.jobs == {}
            await second.start(serve, shop.on_exit)
            await second.close(leave_running=True)
            third = shop.supervisor()
            assert await third.adopt([], shop.on_exit) == []
            assert "cluster 'lab' is not configured any more, so job" in caplog.text
            await third.close(leave_running=False)

    tell(story)


async def ask(ray: ScriptedRay, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", ray.port)
    writer.write(f"POST {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()
