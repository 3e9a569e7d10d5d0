"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Follows workers whose address changes: [edge.NAME], route-sync.",
    commands=(
        Command("route-sync", "stoker_edge.route_sync:route_sync", "Point an ingress at the worker of an edge."),
    ),
    server="stoker_edge.server:build",
    warnings="stoker_edge.warnings:warnings",
    tables=(Offer("edge", "stoker_edge.table:EDGE"),),
    offers=(Offer("edges", "stoker_edge.table:edges_of"), Offer("edge-targets", "stoker_edge.targets:both_targets")),
)
