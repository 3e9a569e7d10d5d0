"""A front door with the paths of llama-swap and of llama.cpp's router; two serves share a slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from tests.gateway.flow_stage import LoopClock, Stage, a_serve

from stoker.domain.access import CompatPaths
from stoker.domain.serve import Slot, SwapPolicy
from stoker.gateway.admin import Admin
from stoker.gateway.compat.endpoints import CompatEndpoints
from stoker.gateway.decisions import DecisionPages
from stoker.gateway.http_api import Endpoints
from stoker.gateway.models import ModelList
from stoker.gateway.status import StatusReport, StatusSources
from stoker.gateway.upstream import UpstreamRequests
from stoker.store.decisions import DecisionLog
from stoker.store.metrics import Metrics
from stoker_lab.testing.client import RawReply
from stoker_lab.testing.fleet import FakeFleet

SLOTS = (Slot("gpu", swap=SwapPolicy(drain_timeout=5.0)),)
SERVES = (
    a_serve("a", slot="gpu", aliases=("org/alias",), engine="llama.cpp", title="Model A", description="the first"),
    a_serve("b", slot="gpu", engine="llama.cpp"),
    a_serve("other", engine="openai"),
    a_serve("far", base_url="http://127.0.0.1:9", engine="openai"),
)
BOTH = CompatPaths(llama_swap=True, llama_cpp=True, any_upstream_path=True)


async def _reload(dry_run: bool) -> dict[str, Any]:
    return {}


class CompatStage(Stage):
    """`logs`: the directory with the log files."""

    def __init__(self, logs: Path, compat: CompatPaths, front: dict[str, Any]) -> None:
        super().__init__(front, SERVES, SLOTS, FakeFleet())
        self.logs = logs
        self._compat = compat
        self._store = DecisionLog(logs / "decisions.db", 100)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.flow.configure(replace(self.flow.settings, compat=self._compat))
        return self

    async def __aexit__(self, *exception: object) -> None:
        await super().__aexit__(*exception)
        self._store.close()

    def endpoints(self) -> Endpoints:
        clock, decisions = LoopClock(), DecisionPages(self._store)
        return Endpoints(
            Admin(self.conductor, self.flow, clock, decisions, _reload),
            StatusReport(self.conductor, self.flow, self._store, Metrics(), clock, StatusSources()),
            ModelList(self.conductor),
            compat=CompatEndpoints(self.flow, self.conductor, UpstreamRequests(self.flow), self.logs),
        )

    async def get(self, path: str, **headers: str) -> RawReply:
        return await (await self.client()).ask("GET", path, **headers)

    async def post(self, path: str, document: object = None, **headers: str) -> RawReply:
        return await (await self.client()).ask("POST", path, {} if document is None else document, **headers)

    def phase(self, serve: str) -> str:
        return self.conductor.residency.phase(serve)


Story = Callable[[CompatStage], Coroutine[Any, Any, None]]


def compat_story(compat: CompatPaths = BOTH, **front: Any) -> Callable[[Story], Callable[[Path], None]]:
    """A test on a stage of its own; it has forty seconds."""

    def decorate(tell: Story) -> Callable[[Path], None]:
        async def played(path: Path) -> None:
            async with CompatStage(path, compat, front) as stage, asyncio.timeout(40):
                await tell(stage)

        def run(tmp_path: Path) -> None:
            asyncio.run(played(tmp_path))

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate
