"""A Ray cluster, whose nodes run serves as jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stoker.domain.serve import Driver, JobPlace, Secret, Serve, Slot, slots_of


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    address: str
    """`http://HOST:PORT` of its head, without a slash at the end."""
    token: Secret


def on_cluster(serve: Serve, slots: Iterable[Slot], cluster: Cluster) -> Serve:
    """The serve as a job in this slot, which is a share of the cluster; or as one rank in each of several."""
    first, *others = [JobPlace(cluster.name, cluster.address, slot.gpus, dict(slot.node)) for slot in slots]
    return replace(serve, driver=Driver.RAY, job_place=replace(first, others=tuple(others)))


def runs_here(serve: Serve, slots: Iterable[Slot]) -> bool:
    """Whether a serve that Stoker starts may run on this machine: not all its slots are in clusters."""
    remote = {slot.name for slot in slots if slot.cluster is not None}
    named = serve.slots or (serve.slot or "",)
    return not remote.issuperset(name for one in named for name in slots_of(one))
