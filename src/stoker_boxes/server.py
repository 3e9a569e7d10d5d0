"""The part of the server that knows what boxes do, and lets this machine sleep."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.app.server_parts import RunningServer, ServerAccess, ServerContext, ServerPart
from stoker.domain.access import Settings
from stoker.domain.errors import StokerError
from stoker.domain.events import Event, ExtensionEvent
from stoker.domain.serve_phase import ServePhase
from stoker.extensions import offered
from stoker.fleet.swapping.conductor import Conductor
from stoker_boxes.driver import BoxSeen, UnloadedThere
from stoker_boxes.suspend import IdleSuspender
from stoker_boxes.table import Box, boxes_of, idle_suspend_of
from stoker_boxes.there import residents


def build(context: ServerContext) -> ServerPart:
    return BoxesPart(context)


class BoxesPart(ServerPart):
    def __init__(self, context: ServerContext) -> None:
        self._clock = context.clock
        self._note = context.note
        self._settings = context.settings
        self._boxes: Mapping[str, Box] = {}
        self._seen: dict[str, tuple[BoxSeen, float]] = {}
        """By box: what was seen last, and when."""
        self._documents: dict[str, Any] = {}
        self._unloads: set[asyncio.Task[None]] = set()

    def connect(self, server: ServerAccess) -> None:
        self._conductor: Conductor = server.conductor
        self._suspender = IdleSuspender(server.conductor, self._clock, self._work, self._note)

    def configure(self, settings: Settings) -> None:
        self._boxes = boxes_of(settings)
        self._suspender.configure(idle_suspend_of(settings))
        for name in self._seen.keys() - self._boxes.keys():
            del self._seen[name]
            self._documents.pop(name, None)

    def on_event(self, event: Event) -> None:
        if not isinstance(event, ExtensionEvent):
            return
        if isinstance(event.value, BoxSeen):
            self._on_seen(event.value)
        elif isinstance(event.value, UnloadedThere):
            self._on_unloaded(event.value)

    def _on_seen(self, seen: BoxSeen) -> None:
        before = self._seen.get(seen.box)
        self._seen[seen.box] = seen, self._clock.now()
        if seen.document is not None:
            self._documents[seen.box] = seen.document
        if before is None or before[0].state != seen.state:
            if seen.state != "awake":
                self._note(f"box_{seen.state}", "", f"box {seen.box}: {seen.text}")
            elif before is not None:
                self._note("box_awake", "", f"box {seen.box} answers")

    def _on_unloaded(self, gone: UnloadedThere) -> None:
        """Requests that are under way load it there again, so only what nobody uses here is let go."""
        state = self._conductor.scheduler.serves.get(gone.serve)
        if state is None or state.phase is not ServePhase.READY or state.leases or state.queue:
            return
        self._note("unloaded_there", gone.serve, gone.why)
        task = asyncio.get_running_loop().create_task(self._unload(gone.serve), name=f"let-go-{gone.serve}")
        self._unloads.add(task)
        task.add_done_callback(self._unloads.discard)

    async def _unload(self, serve: str) -> None:
        with contextlib.suppress(StokerError):
            await self._conductor.unload(serve)

    def status(self) -> Mapping[str, object]:
        return {
            "boxes": [self._shown(name, box) for name, box in self._boxes.items()],
            "idle_suspend": self._suspender.status(),
        }

    def _shown(self, name: str, box: Box) -> dict[str, object]:
        seen = self._seen.get(name)
        slots = self._conductor.scheduler.slots.values()
        mine = [one.slot.name.partition(":")[2] for one in slots if one.slot.box == name]
        document = self._documents.get(name)
        return {
            "name": name,
            "url": box.url,
            "state": "unknown" if seen is None else seen[0].state,
            "problem": (seen[0].text or None) if seen is not None else None,
            "age": None if seen is None else round(self._clock.now() - seen[1], 1),
            "version": document.get("version") if isinstance(document, dict) else None,
            "wakes": box.mac is not None,
            "slots": {slot: residents(document, slot) for slot in mine},
        }

    def _work(self) -> str:
        """What commands of this machine do that no request shows. Blocks."""
        paths = self._settings().paths
        for offer, place in (("measured-now", paths.state), ("fetched-now", paths.vault)):
            look = offered(offer)
            if look is not None and (found := look(Path(place))):
                return str(found)
        return ""

    async def run(self, server: RunningServer) -> None:
        await self._suspender.run()

    async def close(self) -> None:
        for task in self._unloads:
            task.cancel()
        await asyncio.gather(*self._unloads, return_exceptions=True)
