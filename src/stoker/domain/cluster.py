"""A Ray cluster, whose nodes run serves as jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from stoker.domain.kinds import Form, cluster_url, setting
from stoker.domain.serve import Driver, JobPlace, SecretSource, Serve, Slot, slots_of

ClusterUrl = Annotated[str, Form(cluster_url, {"type": "string", "examples": ["http://head:8265"]})]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster. Slots with `cluster` are shares of it."""

    name: str
    address: Annotated[ClusterUrl, setting('Required. Where its head answers: `"http://head:8265"`.')]
    token: Annotated[SecretSource, setting("Required. The cluster's token: `env:NAME` or `file:PATH`.")]


def on_cluster(serve: Serve, slots: Iterable[Slot], cluster: Cluster) -> Serve:
    """The serve as a job in this slot, which is a share of the cluster; or as one rank in each of several."""
    first, *others = [JobPlace(cluster.name, cluster.address, slot.gpus, dict(slot.node)) for slot in slots]
    return replace(serve, driver=Driver.RAY, job_place=replace(first, others=tuple(others)))


def runs_here(serve: Serve, slots: Iterable[Slot]) -> bool:
    """Whether a serve that Stoker starts may run on this machine: not all its slots are in clusters or boxes."""
    remote = {slot.name for slot in slots if not slot.is_here}
    named = serve.slots or (serve.slot or "",)
    return not remote.issuperset(name for one in named for name in slots_of(one))
