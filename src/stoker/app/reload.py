"""A new configuration: what changed (pure), and who follows it, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.app.configuration import (
    ActiveConfiguration,
    Configuration,
    next_configuration,
    placed_serves,
    placed_slots,
)
from stoker.app.context import ReadAgain
from stoker.app.parts import ProgramParts
from stoker.blocking import in_own_thread
from stoker.domain.errors import ClientError, ConfigError
from stoker.domain.routing import cloud_prices


@dataclass(frozen=True, slots=True)
class ConfigurationChanges:
    """How two configurations differ. Serves by name."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    routing: bool
    """Whether tiers are chosen by other rules or measurements."""
    settings: tuple[str, ...]
    """The paths of all settings that differ."""


def compare(old: Configuration, new: Configuration, settings: Sequence[str] = ()) -> ConfigurationChanges:
    """`settings`: the paths of those that differ."""
    before = {serve.name: serve for serve in old.settings.serves}
    after = {serve.name: serve for serve in new.settings.serves}
    return ConfigurationChanges(
        tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        (old.settings.router, old.rows) != (new.settings.router, new.rows),
        tuple(settings),
    )


READ_WITHIN = 60.0
"""Seconds."""


class Reloader:
    """`read` reads the configuration again; None: this program has no file."""

    def __init__(self, active: ActiveConfiguration, read: ReadAgain | None, parts: ProgramParts) -> None:
        self._active = active
        self._read = read
        self._parts = parts
        self._turn = asyncio.Lock()

    async def reload(self, dry_run: bool = False) -> dict[str, Any]:
        """Read the configuration again and apply what changed: all of it, or nothing. `dry_run`: only say what would
        change; which measurements would lapse is not known then.

        Raises ConfigError for a file with problems, and for settings that take effect only with a restart; nothing has
        changed then. Another error of a part is raised after the configuration before was applied again.
        """
        if self._read is None:
            raise ClientError(
                "this Stoker runs without a configuration file: there is nothing to reload", code="no_file"
            )
        async with self._turn:
            old = self._active.current
            paths, new = await self._read_again(self._read, old)
            changes = compare(old, new, paths)
            if not dry_run:
                self._replace(old, new, changes)
            of_extensions = await self._parts.extensions.reloaded(new.settings, dry_run)
        return {
            "lapsed": [],
            "ended": [],
            **of_extensions,
            "changed": list(changes.changed),
            "added": list(changes.added),
            "removed": list(changes.removed),
            "routing": changes.routing,
            "settings": list(changes.settings),
            "problems": [],
            "warnings": list(new.settings.warnings),
        }

    async def _read_again(self, read: ReadAgain, old: Configuration) -> tuple[list[str], Configuration]:
        """The files that were read, and what they say. Reads headers of models, too. Raises ConfigError."""

        def work() -> tuple[list[str], Configuration]:
            settings, paths = read(old.settings)
            return paths, next_configuration(old, settings)

        try:
            async with asyncio.timeout(READ_WITHIN):
                return await in_own_thread(work, "the configuration")
        except TimeoutError:
            text = f"the configuration, or a model that it names, could not be read within {READ_WITHIN:g} s"
            raise ConfigError([f"{text}: a file system does not answer; nothing has changed"]) from None

    def _replace(self, old: Configuration, new: Configuration, changes: ConfigurationChanges) -> None:
        """After an error, the old configuration counts."""
        try:
            self._apply(new, changes, must_succeed=True)
        except Exception:
            self._apply(old, compare(new, old), must_succeed=False)
            raise

    def _apply(self, new: Configuration, changes: ConfigurationChanges, must_succeed: bool) -> None:
        settings, parts = new.settings, self._parts
        fleet, gateway = parts.fleet, parts.gateway
        serves = placed_serves(settings, new.machine)
        parts.store.responses.configure(settings.responses)
        fleet.conductor.reload(placed_slots(settings), serves)
        fleet.supervisor.conversations.reload(settings.conversations, serves)
        gateway.flow.configure(gateway.setup.settings_for(new, self._active.settings.serves, must_succeed))
        parts.access.store.usage.configure(cloud_prices(settings.router))
        parts.access.control.configure(settings.front_door, settings.apps)
        for name in changes.changed:
            parts.watchdog.forget(name)
        parts.watchdog.configure(settings.watchdog)
        parts.extensions.configure(settings)
        fleet.external.configure(serves)
        fleet.yielder.configure()
        fleet.supervisor.end_sleepers(fleet.warm.reload(new.warm_budget, serves, settings.warm.predict))
        self._active.replace(new)
