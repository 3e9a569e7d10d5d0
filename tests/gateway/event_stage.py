"""A front door with GET /events, and a reader that understands what it sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.gateway.compat_stage import BOTH, SERVES, CompatStage
from tests.gateway.event_reader import Reader
from tests.gateway.flow_stage import LoopClock

from stoker.access.caller import Caller
from stoker.domain.decision import Decision
from stoker.domain.errors import ClientError
from stoker.domain.events import SwapEnded
from stoker.domain.swap import SwapReport
from stoker.gateway.events.log_topic import LogTopic
from stoker.gateway.events.streams import EventStreams, Patience
from stoker.gateway.events.topics import DecisionTopic, DocumentTopic, ResultTopic, SwapTopic
from stoker.gateway.http_api import Endpoints
from stoker.gateway.requests import RequestsInFlight
from stoker.store.decisions import DecisionLog
from stoker.store.swap_history import SwapHistory

PROCESS = "p1"


class EventStage(CompatStage):
    """`says` goes into the document of /status."""

    def __init__(self, directory: Path, front: dict[str, Any]) -> None:
        super().__init__(directory, BOTH, front)
        self.directory = directory
        self.says: dict[str, Any] = {}
        self.polls = 0
        """How often the document of /status was made."""
        self.is_ending = False
        self.store = DecisionLog(directory / "made.db", 1000)
        self._made = 0

    def endpoints(self) -> Endpoints:
        plain = super().endpoints()

        def document() -> dict[str, Any]:
            self.polls += 1
            return {**plain.status.document(), **self.says}

        self.swaps = SwapHistory(LoopClock().wall)
        topics = (
            DocumentTopic("status", document, LoopClock().now),
            DocumentTopic("requests", RequestsInFlight(self.flow).document, LoopClock().now),
            SwapTopic(self.swaps), DecisionTopic(self.store), ResultTopic(self.directory),
        )  # fmt: skip
        self.events = EventStreams(
            {one.name: one for one in topics},
            self.log_of,
            lambda: self.is_ending or self.conductor.is_closing,
            PROCESS,
            Patience(ping_every=0.3, unread_limit=0.5),
        )
        return replace(plain, events=self.events)

    def log_of(self, name: str, caller: Caller) -> LogTopic:
        if name not in {serve.name for serve in SERVES if caller.may_use(serve)}:
            raise ClientError(f"no serve {name}", code="unknown_serve", status=404)
        return LogTopic(f"logs:{name}", name, lambda: [self.logs / f"{name}.log"])

    async def __aexit__(self, *exception: object) -> None:
        await super().__aexit__(*exception)
        self.store.close()
        await self.until(lambda: self.events.is_idle, "the task of the events ends")

    async def reader(self, topics: str | None = None, last_id: str = "", **headers: str) -> Reader:
        reader = Reader(await self.client())
        assert await reader.open(topics, last_id, **headers) == 200
        return reader

    async def leave(self, reader: Reader) -> None:
        await reader.client.close()
        await self.until(lambda: self.events.is_idle, "nobody reads")

    def decide(self, count: int = 1, model: str = "a") -> None:
        """Requests ended."""
        for _ in range(count):
            self._made += 1
            self.store.record(
                Decision(f"req-{self._made}", float(self._made), "/v1/chat/completions", model, outcome="served")
            )

    def swap(self, serve: str = "a") -> None:
        """A swap ended."""
        self.swaps.on_event(SwapEnded(SwapReport(1, serve, "gpu", ("b",), "ready", {"start": 1.5})))


Story = Callable[[EventStage], Coroutine[Any, Any, None]]


def event_story(**front: Any) -> Callable[[Story], Callable[[Path], None]]:
    """A test on a stage of its own; it has forty seconds."""

    def decorate(tell: Story) -> Callable[[Path], None]:
        async def played(path: Path) -> None:
            async with EventStage(path, front) as stage, asyncio.timeout(40):
                await tell(stage)

        def run(tmp_path: Path) -> None:
            asyncio.run(played(tmp_path))

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate
