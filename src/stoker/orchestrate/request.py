"""What orchestrators are given. Where none is configured, nothing else of this room is in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.access.caller import Caller
from stoker.domain.dialect import Endpoint
from stoker.domain.protocols import Leases
from stoker.domain.serve import Slot
from stoker.exchange.call import Call
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.orchestrate.memory.pads import Scratchpads
from stoker.request.codec.body_fields import BodyFields
from stoker.request.decide.names import Names
from stoker.routing.dispatch import Dispatcher


@dataclass(frozen=True, slots=True)
class OrchestratorContext:
    """What orchestrators work with."""

    leases: Leases
    client: InternalClient
    formatter: Formatter
    pads: Scratchpads
    now: Callable[[], float]
    wall: Callable[[], float]
    dispatcher: Dispatcher | None = None
    """Finds the class, and the worker of `worker = "auto"`; None: nothing is routed."""
    keep_alive: float = 15.0
    """Seconds between pings."""
    slots: Mapping[str, Slot] = field(default_factory=dict)
    """By name."""


class OrchestratedRequest(NamedTuple):
    """One request to an orchestrator."""

    call: Call
    caller: Caller
    endpoint: Endpoint
    fields: BodyFields
    body: bytes
    names: Names
