"""Which node of a cluster has room for a job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.domain.figures import counted
from stoker.domain.serve import JobPlace
from stoker_ray.jobs_api import Job, Node

GPUS = "stoker_gpus"
NODE = "stoker_node"
NONCE = "stoker_nonce"
SERVE = "stoker_serve"
SLOT = "stoker_slot"
"""Keys of the metadata that Stoker gives its jobs."""

_LAG = "what others use was reported up to 5 s ago"


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Why no node can take the job: the rest of a sentence, with what there is."""

    reason: str


def own_gpus(jobs: Iterable[Job], without: str = "") -> dict[str, float]:
    """GPUs that jobs of Stoker hold or wait for, by node. `without`: a job that does not count."""
    found: dict[str, float] = {}
    for job in jobs:
        node, gpus = job.metadata.get(NODE), job.metadata.get(GPUS, "")
        if node is not None and gpus.isdigit() and not job.status.is_over and job.id != without:
            found[node] = found.get(node, 0.0) + float(gpus)
    return found


def free_gpus(node: Node, reported: Mapping[str, float], own: Mapping[str, float], ended: Mapping[str, float]) -> float:
    """GPUs of the node that a job would get.

    `reported`: in use some seconds ago, by anybody. `own`: held by jobs of Stoker now. `ended`: held by jobs of Stoker
    that ended since, which the report may still count.
    """
    ours = own.get(node.id, 0.0)
    others = max(0.0, reported.get(node.id, 0.0) - ours - ended.get(node.id, 0.0))
    return max(0.0, node.gpus - ours - others)


def choose_node(place: JobPlace, nodes: Sequence[Node], free: Mapping[str, float]) -> Node | NoRoom:
    """The node with the fewest free GPUs that suffice, so that larger jobs find room; then by address.

    1. nodes with the labels, that live   2. that have so many GPUs at all   3. that have them free
    """
    who = f"cluster '{place.cluster}'"
    alive = [node for node in nodes if node.is_alive]
    labelled = [node for node in alive if place.labels.items() <= node.labels.items()]
    if not labelled:  # 1
        if not alive:
            return NoRoom(f"{who} has no node that lives")
        seen = "; ".join(_described(node) for node in _sorted(alive))
        return NoRoom(f"no node of {who} has the labels {_labels(place.labels)}: there are {seen}")
    large = [node for node in labelled if node.gpus >= place.gpus]
    if not large:  # 2
        seen = "; ".join(f"{node.ip} has {node.gpus:g}" for node in _sorted(labelled))
        return NoRoom(f"{_which(place)} has {counted(place.gpus, 'GPU')}: {seen}")
    fitting = _fitting(place, large, free)
    if not fitting:  # 3
        seen = "; ".join(f"{free.get(node.id, 0.0):g} of {node.gpus:g} on {node.ip}" for node in _sorted(large))
        return NoRoom(f"{_which(place)} has {counted(place.gpus, 'GPU')} free: {seen} ({_LAG})")
    return fitting[0]


def choose_nodes(
    places: Sequence[JobPlace], nodes: Sequence[Node], free: Mapping[str, float]
) -> tuple[Node, ...] | NoRoom:
    """A node of its own for the rank in each place, if there is any way to share them out. All or nothing."""
    first = [choose_node(place, nodes, free) for place in places]
    for number, node in enumerate(first):
        if isinstance(node, NoRoom):
            return node if len(places) == 1 else NoRoom(f"rank {number}: {node.reason}")
    fitting = [_fitting(place, nodes, free) for place in places]
    rank_on: dict[str, int] = {}
    for number in range(len(places)):
        if not _place_rank(number, fitting, rank_on, set()):
            seen = ", ".join(node.ip for node in _sorted(fitting[number]))
            return NoRoom(f"rank {number}: each rank needs a node of its own, and other ranks need {seen}")
    node_of = {number: id for id, number in rank_on.items()}
    return tuple(next(node for node in nodes if node.id == node_of[number]) for number in range(len(places)))


def _place_rank(number: int, fitting: Sequence[Sequence[Node]], rank_on: dict[str, int], tried: set[str]) -> bool:
    """Whether this rank gets a node, for which others may change theirs (a matching by augmenting paths)."""
    for node in sorted(fitting[number], key=lambda node: node.id in rank_on):
        if node.id not in tried:
            tried.add(node.id)
            other = rank_on.get(node.id)
            if other is None or _place_rank(other, fitting, rank_on, tried):
                rank_on[node.id] = number
                return True
    return False


def _fitting(place: JobPlace, nodes: Sequence[Node], free: Mapping[str, float]) -> list[Node]:
    """The nodes that would do, the best one first: see `choose_node`."""
    found = [
        node for node in nodes
        if node.is_alive and place.labels.items() <= node.labels.items() and free.get(node.id, 0.0) >= place.gpus
    ]  # fmt: skip
    return sorted(found, key=lambda node: (free[node.id], node.ip))


def _which(place: JobPlace) -> str:
    labels = f" with {_labels(place.labels)}" if place.labels else ""
    return f"no node{labels} of cluster '{place.cluster}'"


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _described(node: Node) -> str:
    return f"{node.ip} with {_labels(node.labels) or 'no labels'}"


def _sorted(nodes: Sequence[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: node.ip)[:8]
