"""A supervisor over real child processes, and the proof that none of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from stoker.domain.access import Paths
from stoker.domain.dialect import Dialect
from stoker.domain.protocols import QuickCheck
from stoker.domain.serve import Serve
from stoker.fleet.supervision.serve_registry import FleetContext
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.warm.keeper import WarmKeeper

ENGINE = Path(__file__).with_name("scripted_engine.py")


class RealClock:
    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


class Workshop:
    """Makes serves and supervisors in one temporary directory; `exits` collects what `on_exit` was told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths = Paths(
            state=str(directory / "state"), logs=str(directory / "logs"), vault=str(directory), log_bytes=20_000
        )
        self.exits: list[tuple[str, str]] = []
        self.exited = asyncio.Event()

    def supervisor(self, warm: WarmKeeper | None = None, **context: Any) -> Supervisor:
        """As a control plane that has just started. `context`: more fields of FleetContext."""
        log = logging.getLogger("test.fleet")
        return Supervisor(FleetContext(self.paths, RealClock(), log, lambda: bytes(32), **context), warm)

    async def quick_check(self, fleet: Supervisor, serve: Serve) -> list[str]:
        """What prevents the start, found before a swap."""
        check = fleet.quick_check(serve)
        return list((check if isinstance(check, QuickCheck) else await check).problems)

    def on_exit(self, name: str, detail: str) -> None:
        self.exits.append((name, detail))
        self.exited.set()

    def serve(self, *options: str, name: str = "a", **fields: Any) -> Serve:
        cmd = (sys.executable, "-S", "-E", str(ENGINE), "--port", "{port}", *options)
        given = {"cmd": cmd, "engine": "openai", "directory": str(self.directory), "ready_timeout": 10.0, **fields}
        return Serve(name=name, dialects=frozenset({Dialect.CHAT}), **given)

    def log(self, name: str = "a") -> str:
        return (self.directory / "logs" / f"{name}.log").read_text()

    def record(self, name: str = "a") -> Path:
        return self.directory / "state" / "serves" / f"{name}.json"


Story = Callable[[Workshop], Awaitable[None]]


class Holdings(NamedTuple):
    """Our child processes (zombies too), and how many descriptors are open."""

    children: frozenset[int]
    descriptors: int

    def are_none_but(self, before: Holdings) -> bool:
        """What tests before this one have started may end meanwhile: a browser ends processes when it likes."""
        return self.children <= before.children and self.descriptors <= before.descriptors


def holdings() -> Holdings:
    """Those of this process. What earlier tests left to the collector is closed first, and what they keep is not looked
    through again: it takes a tenth of a second each time.
    """
    gc.collect()
    gc.freeze()
    children = psutil.Process().children(recursive=True)
    return Holdings(frozenset(child.pid for child in children), len(os.listdir("/dev/fd")))


@pytest.fixture
def tell(tmp_path: Path) -> Callable[[Story], None]:
    """Runs a story on a loop of its own; afterwards no process, descriptor or task of it may be left."""

    def run(story: Story) -> None:
        async def whole() -> None:
            before = holdings()
            await story(Workshop(tmp_path))
            assert holdings().are_none_but(before), "processes or descriptors are left behind"
            assert len(asyncio.all_tasks()) == 1, "tasks are left behind"

        try:
            asyncio.run(whole())
        except BaseException:
            end_what_runs_in(tmp_path)
            raise

    return run


def end_what_runs_in(directory: Path) -> None:
    """After a story that failed half way: its orphans are not our children any more, but their directory is here."""
    for process in psutil.process_iter(["cwd"]):
        if process.info["cwd"] == str(directory):
            process.kill()
            with contextlib.suppress(psutil.NoSuchProcess):
                process.wait(2)
