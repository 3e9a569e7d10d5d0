"""The checks of `doctor` for Ray clusters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stoker.domain.access import Settings
    from stoker.domain.cluster import Cluster
    from stoker.domain.serve import Slot

UNSEEN = (
    "cannot be seen from here: with RAY_gcs_rpc_server_reconnect_timeout_s=600 on every node and durable storage on "
    "the head, engines outlive a head that is away for longer than a minute"
)


def findings(settings: Settings) -> list[DoctorFinding]:
    """One finding for each cluster."""
    return [_cluster(cluster, settings.slots) for cluster in settings.clusters]


def _cluster(cluster: Cluster, slots: Iterable[Slot]) -> DoctorFinding:
    from stoker_ray.examine import ClusterProblem, examine, slots_without_node

    part = f"cluster {cluster.name}"
    seen = asyncio.run(examine(cluster))
    if isinstance(seen, ClusterProblem):
        return DoctorFinding(part, DoctorHealth.FAIL, seen.message, seen.fix, seen.next)
    if missing := slots_without_node(cluster, slots, seen):
        detail = "; ".join(f"slot '{slot}': {reason}" for slot, reason in missing.items())
        fix = "correct `node` and `gpus` of the slot, or start a node with these labels"
        return DoctorFinding(part, DoctorHealth.WARN, detail, fix, f"stoker cluster status {cluster.name}")
    size = f"{counted(len(seen.nodes), 'node')}, {counted(seen.gpus, 'GPU')}"
    detail = f"Ray {seen.version} at {cluster.address}, {size}; a token is needed"
    return DoctorFinding(part, DoctorHealth.OK, f"{detail}; {UNSEEN}")
