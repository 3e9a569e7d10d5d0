"""`stoker reload`: the running Stoker reads its configuration again."""

from __future__ import annotations

from typing import Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED
from stoker.cli.console.installation import find_running

_RELOADED = ("changed", "added", "removed", "routing", "settings", "lapsed", "ended", "problems", "warnings")


def reload(
    config: options.Config = None,
    state: options.State = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    json: options.Json = False,
) -> None:
    """Read the configuration again, and apply all of it or nothing.

    Serves that did not change keep running, with their requests.
    """
    with find_running(config, state).control() as control:
        answer = control.reload(dry_run)
    if json:
        terminal.emit({name: getattr(answer, name) for name in _RELOADED})
    else:
        lines = [f"{word}: {', '.join(getattr(answer, word))}" for word in ("changed", "added", "removed")
                if getattr(answer, word)]  # fmt: skip
        if answer.routing:
            lines.append("routing: changed")
        whole = {f"serve[{name}]" for name in (*answer.added, *answer.removed)}
        lines += [f"setting: {path}" for path in answer.settings if path not in whole]
        for line in lines:
            terminal.say(line)
        if not lines and not answer.problems:
            terminal.say("nothing would change" if dry_run else "nothing changed")
        for tier in dict.fromkeys(one["tier"] for one in answer.lapsed):
            classes = ", ".join(one["class"] for one in answer.lapsed if one["tier"] == tier)
            terminal.note(
                f"stoker: tier {tier} may have changed since it was measured at {classes}; "
                f"measure it again: stoker eval calibrate {tier}{options.same_place(config, state)}"
            )
        for warning in answer.warnings:
            terminal.note(f"warning: {warning}")
        for one in answer.ended:
            terminal.note(f"stoker: {_ended(one, dry_run)}")
        for problem in answer.problems:
            terminal.note(f"stoker: {problem}")
    if answer.problems:
        raise typer.Exit(FAILED)


def _ended(one: dict[str, str], dry_run: bool) -> str:
    text = f"the promotion of {one['alias']} to {one['serve']} {'would end' if dry_run else 'has ended'}"
    if not one["now"]:
        return f"{text}, because it is no longer configured"
    points = "would point" if dry_run else "points"
    return f"{text}, because {one['serve']} is no longer configured: {one['alias']} {points} to {one['now']}"
