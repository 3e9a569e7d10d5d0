"""Lets serves behind an edge follow its worker to another address, while requests to the old one end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from stoker.domain.events import Notify, ServeMoved
from stoker.domain.host_port import host_port
from stoker.domain.kinds import EDGE_SCHEME
from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.fleet.swapping.conductor import Conductor

MoveServe = Callable[[str, Target], Awaitable[Running | None]]


class WorkerMoves:
    """`move_serve` proves a running serve at its new address; None: it stays where it is."""

    def __init__(self, conductor: Conductor, move_serve: MoveServe, notify: Notify) -> None:
        self._conductor = conductor
        self._move_serve = move_serve
        self._notify = notify

    async def on_proved(self, edge: str, target: Target) -> None:
        """The worker of `edge` answers at `target`. New requests go there; those under way end where they are."""
        for name, running in list(self._conductor.running.items()):
            old = running.target
            if running.serve.base_url != EDGE_SCHEME + edge or (old.host, old.port) == (target.host, target.port):
                continue
            moved = await self._move_serve(name, target)
            if moved is not None and self._conductor.running.get(name) is running:
                self._conductor.move(moved)
                self._notify(ServeMoved(name, host_port(old.host, old.port), host_port(target.host, target.port)))
