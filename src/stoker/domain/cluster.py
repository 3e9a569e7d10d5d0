"""A Ray cluster, whose nodes run serves as jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stoker.domain.serve import Driver, JobPlace, Secret, Serve, Slot


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    address: str
    """`http://HOST:PORT` of its head, without a slash at the end."""
    token: Secret


def on_cluster(serve: Serve, slot: Slot, cluster: Cluster) -> Serve:
    """The serve as a job in this slot, which is a share of the cluster."""
    place = JobPlace(cluster.name, cluster.address, slot.gpus, dict(slot.node))
    return replace(serve, driver=Driver.RAY, job_place=place)


def runs_here(serve: Serve, slots: Iterable[Slot]) -> bool:
    """Whether a serve that Stoker starts may run on this machine: not all its slots are in clusters."""
    remote = {slot.name for slot in slots if slot.cluster is not None}
    return not remote.issuperset(serve.slots or (serve.slot or "",))
