"""`stoker pause` and `stoker resume`: give the devices of slots up, and take them back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.installation import find_running
from stoker.domain.serve import Driver, slots_of

if TYPE_CHECKING:
    from stoker.cli.console.answers import ServeStatus, StatusAnswer

EVERY = 0.5
"""Seconds between two looks at what still runs."""
_Slot = Annotated[
    str | None,
    typer.Argument(metavar="[SLOT]", help="One slot. Default: all of this machine.", autocompletion=options.slot_names),
]


def pause(
    slot: _Slot = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why: it is shown, and told to refused requests.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until everything there has ended.")] = True,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """End what is loaded, by its drain, and load nothing there until `stoker resume`: also after a restart."""
    with find_running(config, state).control() as control:
        paused = control.pause(slot, reason).paused
        running = _running(control.status(), paused)
        if running and wait and not json:
            terminal.note(f"waiting for {_names(running)} to end; Ctrl-C stops waiting, not the pause")
        while wait and running:
            time.sleep(EVERY)
            running = _running(control.status(), paused)
    if json:
        terminal.emit({"paused": paused, "running": [one.name for one in running]})
        return
    rest = f"; {_names(running)} still ends its requests" if running else ""
    place = options.same_place(config, state)
    command = f"stoker resume{place}" if slot is None else f"stoker resume {slot}{place}"
    terminal.say(f"paused: {_shown(paused) or 'nothing'}{rest}; `{command}` ends that")


def resume(
    slot: _Slot = None, config: options.Config = None, state: options.State = None, json: options.Json = False
) -> None:
    """End what `stoker pause` began: what was loaded then comes back, and requests load models again."""
    with find_running(config, state).control() as control:
        resumed = control.resume(slot).resumed
        slots = control.status().slots
    if json:
        terminal.emit({"resumed": resumed})
        return
    terminal.say(f"resumed: {_shown(resumed)}" if resumed else "nothing was paused by an operator")
    for one in slots:
        if one.paused and slot in (None, one.name):
            terminal.say(f"slot {one.name} stays paused: {one.paused}")


def _running(status: StatusAnswer, paused: list[str]) -> list[ServeStatus]:
    """What has not ended there yet. What runs elsewhere is left alone."""
    return [
        one
        for one in status.serves
        if not one.is_down
        and one.driver != Driver.EXTERNAL.value
        and not set(paused).isdisjoint((f"~{one.name}",) if one.slot is None else slots_of(one.slot))
    ]


def _names(serves: list[ServeStatus]) -> str:
    return ", ".join(one.name for one in serves)


def _shown(slots: list[str]) -> str:
    return ", ".join(f"{name[1:]} (without a slot)" if name.startswith("~") else name for name in slots)
