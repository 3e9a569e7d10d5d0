"""`[clusters.NAME]`: a Ray cluster whose GPUs slots may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from stoker.config.definition import show
from stoker.domain.cluster import Cluster
from stoker.domain.kinds import Form, Text, cluster_url, setting
from stoker.domain.serve import Secret

ClusterUrl = Annotated[str, Form(cluster_url, {"type": "string", "examples": ["http://head:8265"]})]


class ClusterTable(msgspec.Struct, frozen=True):
    """A Ray cluster. Slots with `cluster` are shares of it."""

    address: Annotated[ClusterUrl | None, setting('Required. Where its head answers: `"http://head:8265"`.')] = None
    token: Annotated[Text | None, setting("Required. The cluster's token: `env:NAME` or `file:PATH`.")] = None


def build_clusters(tables: Mapping[str, ClusterTable], tokens: Mapping[str, Secret]) -> tuple[Cluster, ...]:
    """`tokens`: by cluster."""
    return tuple(Cluster(name, table.address or "", tokens[name]) for name, table in tables.items())


def show_cluster(cluster: Cluster) -> dict[str, Any]:
    """One `[clusters.NAME]` in the form of the file."""
    return show(ClusterTable, cluster, token=cluster.token.source)
