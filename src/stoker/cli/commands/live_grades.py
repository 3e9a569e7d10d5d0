"""The live grades of the tiers, as the running Stoker last saved them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.cli.console import terminal
from stoker.cli.console.installation import Installation
from stoker.domain.errors import ConfigError

if TYPE_CHECKING:
    from stoker.domain.spending import DailySpending
    from stoker.store.live_grades import GradedRows


def live_rows(installation: Installation) -> GradedRows:
    """As `live_grades`, without the costs."""
    return live_grades(installation)[0]


def live_grades(installation: Installation) -> tuple[GradedRows, DailySpending]:
    """The grades, and what grading cost on its last day. Also works if Stoker does not run. A file that cannot be
    read is reported, and counts as empty.
    """
    from stoker.domain.spending import DailySpending
    from stoker.store.live_grades import path_of, read

    try:
        return read(path_of(installation.state))
    except ConfigError as error:
        terminal.note(f"stoker: {error.message}")
    except OSError as error:
        terminal.note(f"stoker: {path_of(installation.state)} cannot be read: {error.strerror}")
    return {}, DailySpending()
