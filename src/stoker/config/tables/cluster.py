"""`[clusters.NAME]`: a Ray cluster whose GPUs slots may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from stoker.config.tables import value_checks
from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import Text
from stoker.domain.cluster import Cluster
from stoker.domain.serve import Secret

ClusterUrl = Annotated[
    str, BeforeValidator(value_checks.cluster_url), Field(json_schema_extra={"examples": ["http://head:8265"]})
]


class ClusterTable(Section):
    """A Ray cluster. Slots with `cluster` are shares of it."""

    address: ClusterUrl | None = setting(None, 'Required. Where its head answers: `"http://head:8265"`.')
    token: Text | None = setting(None, "Required. The cluster's token: `env:NAME` or `file:PATH`.")


def build_clusters(tables: Mapping[str, ClusterTable], tokens: Mapping[str, Secret]) -> tuple[Cluster, ...]:
    """`tokens`: by cluster."""
    return tuple(Cluster(name, table.address or "", tokens[name]) for name, table in tables.items())


def show_cluster(cluster: Cluster) -> dict[str, Any]:
    """One `[clusters.NAME]` in the form of the file."""
    return ClusterTable.show(cluster, token=cluster.token.source)
