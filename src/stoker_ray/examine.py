"""May this cluster be used, and what is in it?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.domain.cluster import Cluster
from stoker.domain.errors import ConfigError
from stoker.domain.serve import JobPlace, Slot
from stoker_ray.jobs_api import ClusterRefused, ClusterUnreachable, Job, JobsApi, Node
from stoker_ray.nodes import NODE, NONCE, NoRoom, choose_node, own_gpus

OLDEST = (2, 52)
"""The first Ray with token authentication."""


async def unfit_reason(api: JobsApi) -> str:
    """Why the cluster must not be used, with what to do; empty: it may. Raises as `JobsApi`."""
    if await api.is_open():
        return (
            f"the head at {api.address} answers without a token, so whoever reaches it can run commands on its nodes: "
            "start head and nodes with RAY_AUTH_MODE=token (`stoker cluster up-example`)"
        )
    version = await api.version()
    if is_too_old(version):
        return f"the head at {api.address} runs Ray {version or 'of an unknown version'}; 2.52 or newer is needed"
    return ""


def is_too_old(version: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is None or (int(found[1]), int(found[2])) < OLDEST


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster now."""

    version: str
    nodes: Sequence[Node]
    """Those that live, the head first."""
    used: Mapping[str, float]
    """GPUs in use, by node; what others use is some seconds old."""
    jobs: Sequence[Job]
    """Those of Stoker that are not over, also those of another Stoker."""
    dead: Mapping[str, str]
    """Addresses of dead nodes that the head remembers, by id."""

    def host_of(self, job: Job) -> str | None:
        """The address of the job's node, dead or not; None: unknown."""
        node = job.metadata.get(NODE, "")
        return next((one.ip for one in self.nodes if one.id == node), self.dead.get(node))

    @property
    def gpus(self) -> float:
        return sum(node.gpus for node in self.nodes)


async def view(api: JobsApi) -> ClusterView:
    """Raises as `JobsApi`."""
    version, nodes, reported, jobs = await asyncio.gather(api.version(), api.nodes(), api.used_gpus(), api.jobs())
    alive = sorted((node for node in nodes if node.is_alive), key=lambda node: (not node.is_head, node.ip))
    own = own_gpus(jobs)
    used = {node.id: max(own.get(node.id, 0.0), reported.get(node.id, 0.0)) for node in alive}
    ours = [job for job in jobs if NONCE in job.metadata and not job.status.is_over]
    return ClusterView(version, alive, used, ours, {node.id: node.ip for node in nodes if not node.is_alive})


@dataclass(frozen=True, slots=True)
class ClusterProblem:
    """Why a cluster cannot be used or seen, what to do, and the command for it."""

    message: str
    fix: str
    next: str


async def examine(cluster: Cluster) -> ClusterView | ClusterProblem:
    """What is in a cluster that may be used. Never raises for what the cluster or its token is like."""
    api, example, key = JobsApi(cluster.address, cluster.token.reveal), "stoker cluster up-example", cluster.name
    try:
        if reason := await unfit_reason(api):
            return ClusterProblem(reason, "start head and nodes again, with the settings that Stoker needs", example)
        return await view(api)
    except ClusterUnreachable as failure:
        fix = f"start the head, or correct `address` of [clusters.{key}]: Ray's dashboard, by default at port 8265"
        return ClusterProblem(failure.message, fix, example)
    except (ClusterRefused, ConfigError) as failure:
        fix = f"`token` of [clusters.{key}] must be what RAY_AUTH_TOKEN_PATH on the head names"
        return ClusterProblem(failure.message, fix, f"stoker cluster status {key}")


def slots_without_node(cluster: Cluster, slots: Iterable[Slot], seen: ClusterView) -> dict[str, str]:
    """Slots of the cluster for which no node has the labels and the GPUs, in use or not; and why."""
    whole = {node.id: node.gpus for node in seen.nodes}
    places = {slot.name: JobPlace(cluster.name, cluster.address, slot.gpus, slot.node)
              for slot in slots if slot.cluster == cluster.name}  # fmt: skip
    rooms = {name: choose_node(place, seen.nodes, whole) for name, place in places.items()}
    return {name: room.reason for name, room in rooms.items() if isinstance(room, NoRoom)}
