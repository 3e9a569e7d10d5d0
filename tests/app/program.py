"""The whole program in a test's own loop: every part is real, nothing runs and no port is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self

from stoker.app.build import build, close_parts
from stoker.app.configuration import ActiveConfiguration, first_configuration
from stoker.app.context import RunOptions
from stoker.app.observers import Observer
from stoker.config.changes import changes_in_effect
from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.errors import ConfigError
from stoker.domain.gate import Alias
from stoker.domain.serve import Serve, Slot
from stoker.store.state_dir import StateDir

SERVES = (
    Serve("fast", slot="gpu", cmd=("never", "started"), port=1),
    Serve("clever", slot="gpu", cmd=("never", "started"), port=2, keep_loaded=True),
)


def settings_in(directory: Path, **fields: Any) -> Settings:
    paths = Paths(str(directory / "state"), str(directory / "logs"), str(directory / "vault"))
    given: dict[str, Any] = {"serves": SERVES, "aliases": (Alias("coder", "fast"),), **fields}
    return Settings(front_door=ListenSettings(), paths=paths, slots=(Slot("gpu"),), **given)


class Assembly:
    """Built on entry, closed on exit. `next_settings` is what a reload reads; None: the file is broken."""

    def __init__(self, directory: Path, **fields: Any) -> None:
        self.settings = settings_in(directory, **fields)
        self.next_settings: Settings | None = self.settings
        self.announced: list[str] = []
        self.nobody_reads = False
        """stdout was closed."""

    async def __aenter__(self) -> Self:
        self.state = StateDir(Path(self.settings.paths.state))
        self.state.lock()
        self.active = ActiveConfiguration(first_configuration(self.settings))
        options = RunOptions(self._announce, self.read)
        self.parts, self.front = build(self.active, self.state, options)
        self.on_event = Observer(self.parts, self.active, self._announce).on_event
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.parts.fleet.conductor.shut_down(0.0)
        await close_parts(self.parts, leave_running=False)
        self.state.close()

    def _announce(self, line: str) -> None:
        if self.nobody_reads:
            raise BrokenPipeError
        self.announced.append(line)

    def read(self, old: Settings) -> tuple[Settings, list[str]]:
        if self.next_settings is None:
            raise ConfigError(["it is broken"])
        return self.next_settings, changes_in_effect(old, self.next_settings)

    @property
    def notes(self) -> list[tuple[str, str, str]]:
        """What /status shows of events, oldest first: kind, serve, text."""
        return [(one["kind"], one["serve"], one["text"]) for one in reversed(self.parts.store.events.recent(100))]


Story = Callable[[Assembly], Coroutine[Any, Any, None]]


def assembled(**fields: Any) -> Callable[[Story], Callable[[Path], None]]:
    """A test of a program with these settings."""

    def decorate(tell: Story) -> Callable[[Path], None]:
        def run(tmp_path: Path) -> None:
            async def play() -> None:
                async with asyncio.timeout(20), Assembly(tmp_path, **fields) as program:
                    await tell(program)

            asyncio.run(play())

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate
