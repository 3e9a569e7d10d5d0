"""The part of the server that knows where the workers of edges are."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.app.server_parts import RunningServer, ServerContext, ServerPart
from stoker.domain.access import Settings
from stoker.domain.events import Event, ServeExited
from stoker_edge.follow import EdgeFollower
from stoker_edge.table import edges_of


def build(context: ServerContext) -> ServerPart:
    return EdgePart(EdgeFollower(context.clock))


class EdgePart(ServerPart):
    def __init__(self, follower: EdgeFollower) -> None:
        self.edge_targets = self._follower = follower

    def configure(self, settings: Settings) -> None:
        used = [name for serve in settings.serves if (name := serve.edge) is not None]
        self._follower.configure(edges_of(settings), used)

    def on_event(self, event: Event) -> None:
        if isinstance(event, ServeExited):
            self._follower.wake()

    def status(self) -> Mapping[str, object]:
        return {"edges": self._follower.status()}

    async def run(self, server: RunningServer) -> None:
        await self._follower.run(server.worker_proved)
