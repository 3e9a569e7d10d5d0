"""The part of the server behind pages that start agents, add models and measure them. What blocks runs in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.app.server_parts import RunningServer, ServerAccess, ServerContext, ServerPart
from stoker.cli.console.installation import socket_of
from stoker.cli.console.options import same_place
from stoker.config.paths import config_places
from stoker.domain.access import Settings
from stoker.domain.errors import ClientError
from stoker.gateway.operations import PageRequest
from stoker_setup import operations
from stoker_setup.jobs.job import JobRequest
from stoker_setup.jobs.jobs import KEY_FOR, Jobs

if TYPE_CHECKING:
    from stoker.cli.console.control import Control


def build(context: ServerContext) -> ServerPart:
    return SetupPart(context)


def _control(directory: Path) -> Control:
    from stoker.cli.console.control import Control  # a server that measures nothing keeps none of it in memory

    return Control(socket_of(directory))


class SetupPart(ServerPart):
    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._jobs = Jobs(
            context.directory / "setup", lambda: _control(context.directory), self._make_key, self._delete_key
        )

    def connect(self, server: ServerAccess) -> None:
        self._server = server

    async def run(self, server: RunningServer) -> None:
        await self._jobs.restore()

    def status(self) -> Mapping[str, object]:
        return {"jobs": self._jobs.summaries()}

    def closing(self) -> None:
        self._jobs.end()

    async def drained(self) -> None:
        await self._jobs.ended()

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        match page.operation:
            case operations.LAUNCH:
                return await self._launch(page.query)
            case operations.JOBS:
                return {"jobs": self._jobs.summaries()}
            case operations.JOB:
                return self._jobs.get(page.rest).document()
            case operations.START:
                return (await self._jobs.start(page.body, self._place(page.body))).document()
            case operations.SETTINGS:
                return await asyncio.to_thread(_show_settings, self._source(), page.rest)
            case operations.CHANGE:
                return await asyncio.to_thread(_change_settings, self._source(), self._context.directory, page.rest,
                                               page.body)  # fmt: skip
            case _:
                return self._jobs.cancel(page.rest).document()

    async def _make_key(self, name: str) -> str:
        """A key with which a command asks the front door; empty: it wants none. Raises StokerError."""
        if not self._server.asks_for_keys():
            return ""
        made = await self._server.key_admin.create(name, settings={"scope": "observe"}, expires_in=KEY_FOR)
        return str(made["key"])

    async def _delete_key(self, name: str) -> None:
        """Nothing, if there is no such key any more. Raises StokerError."""
        with contextlib.suppress(ClientError):
            await self._server.key_admin.delete(name)

    def _place(self, request: JobRequest) -> list[str]:
        """The options with which a command finds this Stoker. Raises ClientError where there is no file to add to."""
        if request.kind in ("look", "add") or self._context.settings().source:
            return ["--config", self._source(), "--state", str(self._context.directory)]
        return ["--state", str(self._context.directory)]

    def _source(self) -> str:
        """The configuration file. Raises ClientError where there is none, as in the demo."""
        source = self._context.settings().source
        if not source:
            text = "this Stoker runs without a configuration file, which could be changed: start it with one"
            raise ClientError(text, code="no_configuration", status=409)
        return source

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


def _show_settings(source: str, serve: str) -> Mapping[str, object]:
    from stoker_setup import settings_page  # imported for this page alone, in a thread

    return settings_page.shown(source, serve)


def _change_settings(source: str, state: Path, serve: str, change: operations.SettingsChange) -> Mapping[str, object]:
    from stoker_setup import settings_page

    return settings_page.changed(source, state, serve, dict(change.values), change.version, change.dry_run)


def place_of(settings: Settings, state: Path) -> str:
    """The options with which a command finds this Stoker, typed in any folder."""
    if not settings.source:
        return same_place(None, str(state))
    is_found = Path(settings.source) in config_places()[1:]
    return "" if is_found else same_place(settings.source, None)
