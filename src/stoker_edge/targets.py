"""The two ways to the worker of an edge."""

from __future__ import annotations

from stoker.domain.lease import Target
from stoker_edge.discover import discover
from stoker_edge.edge import Edge
from stoker_edge.probe import prove, worker_target
from stoker_edge.verify import route_target


async def both_targets(edge: Edge) -> tuple[Target, Target]:
    """Through its first public route, and directly, where the worker has proved itself. Raises EdgeProblem.

    The edge has routes: a ValueError says if not.
    """
    if edge.routes is None:
        raise ValueError(f"edge '{edge.name}' has no public route")
    direct = worker_target(edge, await prove(edge, await discover(edge)))
    return route_target(edge.routes.urls[0], edge.worker.model, edge.routes), direct
