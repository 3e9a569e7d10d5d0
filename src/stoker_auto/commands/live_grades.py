"""The live grades of the tiers, as the running Stoker last saved them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.cli.console import terminal
from stoker.cli.console.installation import Installation
from stoker.domain.errors import ConfigError

if TYPE_CHECKING:
    from stoker_auto.quality.live_grades_file import GradedRows
    from stoker_auto.spending import DailySpending


def live_rows(installation: Installation) -> GradedRows:
    """As `live_grades`, without the costs."""
    return live_grades(installation)[0]


def live_grades(installation: Installation) -> tuple[GradedRows, DailySpending]:
    """The grades, and what grading cost on its last day. Also works if Stoker does not run. A file that cannot be
    read is reported, and counts as empty.
    """
    from stoker_auto.quality.live_grades_file import path_of, read
    from stoker_auto.spending import DailySpending

    try:
        return read(path_of(installation.state))
    except ConfigError as error:
        terminal.note(f"stoker: {error.message}")
    except OSError as error:
        terminal.note(f"stoker: {path_of(installation.state)} cannot be read: {error.strerror}")
    return {}, DailySpending()


def uncounted_grades(installation: Installation, live: GradedRows) -> dict[tuple[str, str], str]:
    """Why grades do not count, by tier and class. What models serves turned out to be, only a running Stoker knows."""
    from stoker_lab.judge_trust import judging_of, read_judged

    settings = installation.settings
    if settings is None or settings.router is None or not live:
        return {}
    serves = {serve.name: serve for serve in settings.serves}
    judging = judging_of(settings.router, serves, read_judged(settings.router, installation.state), {})
    return {key: problem for key, row in live.items() if (problem := judging.problem(row))}
