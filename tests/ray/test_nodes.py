"""Which node of a cluster gets a job."""

from __future__ import annotations

from stoker.domain.serve import JobPlace
from stoker_ray.examine import is_too_old
from stoker_ray.jobs_api import Job, JobStatus, Node
from stoker_ray.nodes import NoRoom, choose_node, choose_nodes, free_gpus, own_gpus

ALPHA = Node("a", "10.0.0.1", gpus=2, labels={"box": "alpha"})
BETA = Node("b", "10.0.0.2", gpus=4, labels={"box": "beta"})
DEAD = Node("c", "10.0.0.3", is_alive=False, gpus=8, labels={"box": "gamma"})
ALL = [BETA, ALPHA, DEAD]


def place(gpus: int = 1, **labels: str) -> JobPlace:
    return JobPlace("lab", "http://head:8265", gpus, labels)


def test_the_fullest_node_that_suffices_is_taken_so_that_larger_jobs_find_room() -> None:
    free = {"a": 1.0, "b": 4.0, "c": 8.0}
    assert choose_node(place(1), ALL, free) == ALPHA
    assert choose_node(place(2), ALL, free) == BETA
    assert choose_node(place(1, box="beta"), ALL, free) == BETA


def test_what_is_missing_is_said_with_what_there_is() -> None:
    free = {"a": 0.0, "b": 1.0, "c": 8.0}
    assert choose_node(place(1, box="gamma"), ALL, free) == NoRoom(
        "no node of cluster 'lab' has the labels box=gamma: there are 10.0.0.1 with box=alpha; 10.0.0.2 with box=beta"
    )
    assert choose_node(place(8), ALL, free) == NoRoom(
        "no node of cluster 'lab' has 8 GPUs: 10.0.0.1 has 2; 10.0.0.2 has 4"
    )
    assert choose_node(place(2, box="beta"), ALL, free) == NoRoom(
        "no node with box=beta of cluster 'lab' has 2 GPUs free: 1 of 4 on 10.0.0.2 (what others use was reported "
        "up to 5 s ago)"
    )
    assert choose_node(place(1), [DEAD], free) == NoRoom("cluster 'lab' has no node that lives")


def test_each_rank_gets_a_node_of_its_own_or_none_does() -> None:
    free = {"a": 2.0, "b": 4.0, "c": 8.0}
    assert choose_nodes([place(2), place(2)], ALL, free) == (ALPHA, BETA)
    assert choose_nodes([place(2), place(2, box="alpha")], ALL, free) == (BETA, ALPHA), "the first one makes room"
    assert choose_nodes([place(2, box="beta"), place(2, box="beta")], ALL, free) == NoRoom(
        "rank 1: each rank needs a node of its own, and other ranks need 10.0.0.2"
    )
    assert choose_nodes([place(2), place(4)], ALL, {"a": 2.0, "b": 2.0, "c": 8.0}) == NoRoom(
        "rank 1: no node of cluster 'lab' has 4 GPUs free: 2 of 4 on 10.0.0.2 (what others use was reported up to 5 s "
        "ago)"
    )


def job(id: str, status: JobStatus, gpus: str = "1", node: str = "a") -> Job:
    return Job(id, status, metadata={"stoker_node": node, "stoker_gpus": gpus})


def test_own_jobs_count_from_their_submit_until_they_are_over() -> None:
    jobs = [
        job("1", JobStatus.PENDING), job("2", JobStatus.RUNNING, "2"), job("3", JobStatus.STOPPED),
        job("4", JobStatus.RUNNING, node="b"), job("5", JobStatus.RUNNING, "many"), Job("6", JobStatus.RUNNING),
    ]  # fmt: skip
    assert own_gpus(jobs) == {"a": 3.0, "b": 1.0}


def test_a_report_that_lags_neither_hides_own_jobs_nor_counts_ended_ones() -> None:
    assert free_gpus(BETA, {}, {"b": 1.0}, {}) == 3
    assert free_gpus(BETA, {"b": 1.0}, {"b": 1.0}, {}) == 3
    assert free_gpus(BETA, {"b": 3.0}, {"b": 1.0}, {}) == 1, "two are used by others"
    assert free_gpus(BETA, {"b": 2.0}, {}, {"b": 2.0}) == 4, "ours, which ended since the report"
    assert free_gpus(ALPHA, {"a": 9.0}, {}, {}) == 0


def test_ray_before_token_authentication_is_too_old() -> None:
    assert [is_too_old(version) for version in ("2.51.9", "2.52.0", "2.60.0", "3.0.0.dev0", "")] == [
        True, False, False, False, True,
    ]  # fmt: skip
