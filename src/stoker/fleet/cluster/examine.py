"""May this cluster be used, and what is in it?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.fleet.cluster.jobs_api import Job, JobsApi, Node
from stoker.fleet.cluster.nodes import NONCE, own_gpus

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

    @property
    def gpus(self) -> float:
        return sum(node.gpus for node in self.nodes)


async def view(api: JobsApi) -> ClusterView:
    """Raises as `JobsApi`."""
    version, nodes, reported, jobs = await asyncio.gather(api.version(), api.nodes(), api.used_gpus(), api.jobs())
    alive = sorted((node for node in nodes if node.is_alive), key=lambda node: (not node.is_head, node.ip))
    own = own_gpus(jobs)
    used = {node.id: max(own.get(node.id, 0.0), reported.get(node.id, 0.0)) for node in alive}
    return ClusterView(version, alive, used, [job for job in jobs if NONCE in job.metadata and not job.status.is_over])
