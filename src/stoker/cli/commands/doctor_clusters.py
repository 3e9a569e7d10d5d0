"""The checks of `doctor` for Ray clusters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stoker.cli.commands.doctor_checks import DoctorFinding, DoctorHealth
from stoker.domain.errors import StokerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stoker.domain.access import Settings
    from stoker.domain.cluster import Cluster
    from stoker.domain.serve import Slot
    from stoker.fleet.cluster.examine import ClusterView

_SETUP = "stoker cluster up-example"
UNSEEN = (
    "cannot be seen from here: with RAY_gcs_rpc_server_reconnect_timeout_s=600 on every node and durable storage on "
    "the head, engines outlive a head that is away for longer than a minute"
)


def clusters(settings: Settings) -> list[DoctorFinding]:
    """One finding for each cluster."""
    return [_cluster(cluster, settings.slots) for cluster in settings.clusters]


def _cluster(cluster: Cluster, slots: Iterable[Slot]) -> DoctorFinding:
    from stoker.fleet.cluster.examine import unfit_reason, view
    from stoker.fleet.cluster.jobs_api import JobsApi

    part = f"cluster {cluster.name}"
    own = [slot for slot in slots if slot.cluster == cluster.name]

    async def ask() -> str | ClusterView:
        api = JobsApi(cluster.address, cluster.token.reveal)
        return await unfit_reason(api) or await view(api)

    try:
        seen = asyncio.run(ask())
    except StokerError as failure:
        fix = "start the head, or correct `address` and `token` of the cluster"
        return DoctorFinding(part, DoctorHealth.FAIL, failure.message, fix, _SETUP)
    if isinstance(seen, str):
        return DoctorFinding(part, DoctorHealth.FAIL, seen, "start the cluster with the right settings", _SETUP)
    if missing := _slots_without_node(cluster, own, seen):
        fix = "correct `node` and `gpus` of the slot, or start a node with these labels"
        return DoctorFinding(part, DoctorHealth.WARN, missing, fix, f"stoker cluster status {cluster.name}")
    detail = f"Ray {seen.version} at {cluster.address}, {len(seen.nodes)} nodes, {seen.gpus:g} GPUs; a token is needed"
    return DoctorFinding(part, DoctorHealth.OK, f"{detail}; {UNSEEN}")


def _slots_without_node(cluster: Cluster, slots: Iterable[Slot], seen: ClusterView) -> str:
    """The slots for which no node has the labels and so many GPUs, in use or not."""
    from stoker.domain.serve import JobPlace
    from stoker.fleet.cluster.nodes import NoRoom, choose_node

    whole = {node.id: node.gpus for node in seen.nodes}
    found = []
    for slot in slots:
        place = JobPlace(cluster.name, cluster.address, slot.gpus, slot.node)
        if isinstance(room := choose_node(place, seen.nodes, whole), NoRoom):
            found.append(f"slot '{slot.name}': {room.reason}")
    return "; ".join(found)
