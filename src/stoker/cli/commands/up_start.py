"""What `stoker up` starts, once its command line and its configuration were read.

Imports little: the process that serves has this in memory, and neither the command line nor what reads configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from stoker.cli.commands import demo_screen
from stoker.cli.commands.read_again import ReadOptions, read_again
from stoker.domain.printable import printable

if TYPE_CHECKING:
    from stoker.domain.access import Settings

MAX_NAMES = 8
"""How many models a start names."""


@dataclass(frozen=True, slots=True)
class Start:
    """A checked `stoker up`. It can be pickled."""

    settings: Settings
    given: ReadOptions
    is_demo: bool
    leave_running: bool
    resume: bool
    replace: bool
    forced: frozenset[str]
    """Rejected and blocked serves that may run."""

    def run(self) -> int:
        """Serve until a signal; the exit code. Raises StokerError."""
        from stoker.app.run import run

        return run(
            self.settings,
            leave_running=self.leave_running,
            resume=self.resume,
            replace=self.replace,
            announce=_say,
            read=None if self.is_demo else partial(read_again, self.given),
            self_check=self._self_check,
            force=self.forced,
            welcome=self._welcome,
        )

    def _self_check(self) -> dict[str, Any]:
        from stoker.cli.commands.self_check import self_check

        return self_check(self.given, self.settings if self.is_demo else None)

    def _welcome(self, needs_key: bool) -> str:
        return demo_screen.screen(self.settings, needs_key) if self.is_demo else next_steps(self.settings)


def next_steps(settings: Settings) -> str:
    """What to type into a client, and how to see its other settings."""
    names = [serve.name for serve in settings.serves]
    shown = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
    url = demo_screen.base_url(settings)
    page = f"web page: {demo_screen.page_url(settings)}"
    if not names:
        return f"models: none\n{page}"
    return f"models: {shown}\nclients: base URL {url}; all settings: stoker client NAME\n{page}"


def _say(text: str) -> None:
    print(printable(text), flush=True)
