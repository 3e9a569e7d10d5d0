"""What orchestrators are given. Where none is configured, nothing else of this room is in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from stoker.domain.protocols import Leases
from stoker.domain.serve import Serve, Slot
from stoker.domain.task import UNKNOWN, ClassSource, Outline, Task
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker_orchestrator.memory.pads import Scratchpads

Classify = Callable[[Outline, str | None, Collection[str]], Task]
"""The task of a request, given its outline, the class that its caller declares, and those that there are."""


def class_declared(outline: Outline, declared: str | None, known: Collection[str]) -> Task:
    """Nobody can tell what class a request has, so it has the one that its caller declares."""
    return Task(declared if declared is not None and declared in known else UNKNOWN, ClassSource.DECLARED)


@dataclass(frozen=True, slots=True)
class OrchestratorContext:
    """What orchestrators work with."""

    leases: Leases
    client: InternalClient
    formatter: Formatter
    pads: Scratchpads
    now: Callable[[], float]
    wall: Callable[[], float]
    classify: Classify = class_declared
    """Where nothing is routed."""
    keep_alive: float = 15.0
    """Seconds between pings."""
    slots: Mapping[str, Slot] = field(default_factory=dict)
    """By name."""
    serves: Mapping[str, Serve] = field(default_factory=dict)
    """Those that tiers may use, by name."""
    tiers: Mapping[str, str] = field(default_factory=dict)
    """By the name of a tier, its serve."""
