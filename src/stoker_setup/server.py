"""The part of the server that helps the web page to start agents. What blocks runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stoker.app.server_parts import ServerAccess, ServerContext, ServerPart
from stoker.cli.console.options import same_place
from stoker.config.paths import config_places
from stoker.domain.access import Settings
from stoker.gateway.operations import PageRequest


def build(context: ServerContext) -> ServerPart:
    return SetupPart(context)


class SetupPart(ServerPart):
    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def connect(self, server: ServerAccess) -> None:
        self._server = server

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        return await self._launch(page.query)

    async def _launch(self, query: Mapping[str, str]) -> Mapping[str, object]:
        from stoker_setup.clients.choosing import KnownStoker
        from stoker_setup.clients.launch_lines import launch_document

        settings = self._settings()
        serves = {
            state.serve.replica_of or state.name: state.cannot_load.reason if state.cannot_load is not None else ""
            for state in self._server.conductor.scheduler.serves.values()
        }
        place = place_of(settings, self._context.directory)
        model, address = query.get("model") or None, query.get("address") or None
        return await asyncio.to_thread(launch_document, KnownStoker(settings), serves, model, address, place)

    def _settings(self) -> Settings:
        """Those in effect, with the door as it is: `up --port` and keys made meanwhile are not in the file."""
        door = replace(self._server.flow_settings().front_door, auth=self._server.asks_for_keys())
        return replace(self._context.settings(), front_door=door)


def place_of(settings: Settings, state: Path) -> str:
    """The options with which a command finds this Stoker, typed in any folder."""
    if not settings.source:
        return same_place(None, str(state))
    is_found = Path(settings.source) in config_places()[1:]
    return "" if is_found else same_place(settings.source, None)
