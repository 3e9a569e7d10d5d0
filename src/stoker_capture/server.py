"""The part of the server that keeps what requests and answers said, while `[capture] memory` is set."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from stoker.app.server_parts import ServerAccess, ServerContext, ServerPart
from stoker.domain.access import Settings
from stoker.exchange.recording import Recorder
from stoker.gateway.operations import PageRequest
from stoker_capture.operations import ONE
from stoker_capture.recorder import CaptureRecorder
from stoker_capture.settings import settings_of
from stoker_capture.shown import list_document, one_document
from stoker_capture.store import CaptureStore


def build(context: ServerContext) -> ServerPart:
    return CapturePart()


class CapturePart(ServerPart):
    def __init__(self) -> None:
        self.store = CaptureStore()
        self._recorder = CaptureRecorder(self.store)

    def connect(self, server: ServerAccess) -> None:
        self._redacted = server.formatter.upstream_messages.redacted

    def recorder(self, settings: Settings) -> Recorder | None:
        return None if settings_of(settings).memory is None else self._recorder

    def configure(self, settings: Settings) -> None:
        self.store.resize(settings_of(settings).memory or 0)

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        if page.operation is ONE:
            return await asyncio.to_thread(one_document, self.store, page.rest, self._redacted)
        return list_document(self.store)

    def status(self) -> Mapping[str, object]:
        store = self.store
        state = {"memory": store.limit, "used": store.used, "requests": len(store)}
        return {"capture": state if store.limit else None}

    async def close(self) -> None:
        self.store.resize(0)
