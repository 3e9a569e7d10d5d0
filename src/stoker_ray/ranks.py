"""The ranks of a serve in a cluster: what each one runs, and where. Pure. Most serves have one rank."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from stoker.domain.serve import JobPlace, Serve, slots_of
from stoker.engines.launch import Launch, LaunchPlace, Rank
from stoker.engines.plan import plan
from stoker.fleet.process import identity
from stoker.fleet.process.identity import JobRecord, StartRecord
from stoker_ray import nodes
from stoker_ray.jobs_api import JobRequest, Node

_NO_WEIGHTS = 66


def job_id(handle: str, number: int) -> str:
    """Ray's id of a rank's job; `handle` is that of rank 0."""
    return handle if number == 0 else f"{handle}-{number}"


def plans(serve: Serve, start: LaunchPlace, chosen: Sequence[Node], meets_at: int) -> list[Launch]:
    """The command line of each rank. `meets_at`: the port of rank 0's node where the ranks find each other."""
    if len(chosen) == 1:
        return [plan(replace(serve, host=chosen[0].ip), start)]
    return [
        plan(replace(serve, host=node.ip), replace(start, rank=Rank(number, len(chosen), chosen[0].ip, meets_at)))
        for number, node in enumerate(chosen)
    ]


def job_record(place: JobPlace, slot: str, chosen: Sequence[Node]) -> JobRecord:
    """What is written down about all ranks."""
    first, *others = [
        JobRecord(cluster=place.cluster, address=place.address, slot=slot, node=node.id, host=node.ip, gpus=rank.gpus)
        for rank, node in zip(place.ranks(), chosen, strict=True)
    ]
    return msgspec.structs.replace(first, others=others)


def record_of(record: StartRecord, number: int) -> StartRecord:
    """The record as one rank's; only rank 0 has a port."""
    return record if number == 0 else msgspec.structs.replace(record, handle=job_id(record.handle, number), port=0)


def described(record: StartRecord, cluster: str, shown: Sequence[str]) -> str:
    """What was submitted, for the log. `shown`: the command lines, without secrets."""
    hosts = [] if record.job is None else [rank.host for rank in record.job.ranks()]
    parts = [f"on node {hosts[0]}, port {record.port}: {shown[0]}"]
    parts += [f"rank {number} on node {hosts[number]}: {shown[number]}" for number in range(1, len(hosts))]
    return f"is job {record.handle} of cluster '{cluster}' " + "; ".join(parts)


def requests(serve: Serve, planned: Sequence[Launch], record: StartRecord, chosen: Sequence[Node]) -> list[JobRequest]:
    """What is submitted, rank by rank."""
    gpus = [] if record.job is None else [rank.gpus for rank in record.job.ranks()]
    slots = slots_of(serve.slot or "")
    found = []
    for number, (launch, node) in enumerate(zip(planned, chosen, strict=True)):
        environment = {
            **serve.env,
            **launch.environment,
            identity.MARK_VARIABLE: record.nonce,
            "RAY_JOB_STOP_WAIT_TIME_S": str(math.ceil(serve.stop_grace)),
        }
        metadata = {
            nodes.NONCE: record.nonce, nodes.SERVE: serve.name, nodes.NODE: node.id, nodes.GPUS: str(gpus[number]),
            nodes.SLOT: slots[number],
        }  # fmt: skip
        id, command = job_id(record.handle, number), _entrypoint(serve, launch)
        found.append(JobRequest(id, command, node.id, gpus[number], environment, metadata))
    return found


def _entrypoint(serve: Serve, planned: Launch) -> str:
    """For the node's shell, which becomes the engine. Weights that are not there are said to be missing at once."""
    words = f"exec {shlex.join(planned.argv)}"
    if not os.path.isabs(serve.model) or serve.model not in planned.argv:
        return words
    missing = shlex.quote(f"stoker: {serve.model} does not exist on this node: put it there, or on a shared path")
    return f"test -e {shlex.quote(serve.model)} || {{ echo {missing} >&2; exit {_NO_WEIGHTS}; }}; {words}"
