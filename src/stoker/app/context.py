"""What parts are built with, whichever room they are in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.app.configuration import ActiveConfiguration
from stoker.domain.access import Settings
from stoker.domain.events import Notify
from stoker.domain.protocols import Clock
from stoker.store.state_dir import StateDir

ReadAgain = Callable[[Settings], tuple[Settings, list[str]]]
"""Given the settings in effect: those of the configuration now, and the paths of those that differ. Blocks. Raises
ConfigError, also for what takes effect only with a restart.
"""
SelfCheck = Callable[[], dict[str, Any]]
Announce = Callable[[str], None]
"""Shows a line to the person who started the program."""
Welcome = Callable[[bool], str]
"""The text to announce once Stoker listens, given whether requests need a key; empty: none."""


def if_anybody_reads(announce: Announce) -> Announce:
    """The same, but nothing is raised if stdout was closed: a running server does not depend on who reads it."""

    def announce_safely(line: str) -> None:
        with contextlib.suppress(OSError):
            announce(line)

    return announce_safely


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line says beside the configuration."""

    announce: Announce = print
    read: ReadAgain | None = None
    """Reads the configuration again; None: there is no file."""
    force: frozenset[str] = frozenset()
    """Rejected and blocked serves that may run."""
    leave_running: bool = False
    """Serves outlive the program."""
    replace: bool = False
    """Take the sockets from the Stoker that runs on the same state directory, and replace it."""
    resume: bool = False
    """What ran last in each slot is started again, as after a reboot."""
    self_check: SelfCheck | None = None
    """What is wrong with configuration and machine; None: nobody can say."""
    welcome: Welcome = lambda needs_key: ""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """`notify` publishes an event; nobody listens before all parts are built."""

    active: ActiveConfiguration
    state: StateDir
    options: RunOptions
    clock: Clock
    notify: Notify

    @property
    def settings(self) -> Settings:
        return self.active.settings

    @property
    def directory(self) -> Path:
        """Of the state."""
        return Path(self.settings.paths.state)
