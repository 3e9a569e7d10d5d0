"""Loading and unloading as commands do it: `serves up`, `serves down` and `slot switch`."""

from __future__ import annotations

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED
from stoker.cli.console.installation import Installation
from stoker.cli.console.loading import LoadOutcome, load_serves, unload_serves

_NOTHING_FITS = "nothing to load: nothing else fits beside what is loaded; `stoker slot switch SERVE` swaps"
_NOTHING_LOADED = "no serve is loaded"


def load(
    installation: Installation, name: str | None, force: bool, drain_timeout: str | None, dry_run: bool, json: bool
) -> None:
    """Load `name`, or whatever fits without stopping another. Raises typer.Exit if one fails."""
    seconds = options.duration(drain_timeout, "--drain-timeout")
    if dry_run:
        from stoker.cli.commands.dry_run import show_plan, switch_plan

        show_plan(switch_plan(installation, [name] if name else None, force, seconds), json, _NOTHING_FITS)
        return
    if name is not None:
        names = [installation.running_name(name)]
    else:
        with installation.control() as control:
            names = control.loadable()
            broken = {one.name: one.cannot_load for one in control.status().serves if one.cannot_load}
        for one, why in broken.items():
            terminal.note(f"left out: {one} cannot load: {why}")
        if not names and not json:
            terminal.say(_NOTHING_FITS)
    _finish(load_serves(installation, names, force, seconds, quiet=json, evict=name is not None), json)


def unload(installation: Installation, name: str | None, drain_timeout: str | None, dry_run: bool, json: bool) -> None:
    """Drain and stop `name`, or every loaded serve. Raises typer.Exit if one fails."""
    seconds = options.duration(drain_timeout, "--drain-timeout")
    if dry_run:
        from stoker.cli.commands.dry_run import down_plan, show_plan

        show_plan(down_plan(installation, name, seconds), json, _NOTHING_LOADED)
        return
    if name is not None:
        names = [installation.running_name(name)]
    else:
        with installation.control() as control:
            names = [serve.name for serve in control.status().serves if not serve.is_gone]
        if not names and not json:
            terminal.say(_NOTHING_LOADED)
    _finish(unload_serves(installation, names, seconds, quiet=json), json)


def _finish(outcome: LoadOutcome, json: bool) -> None:
    if json:
        terminal.emit(outcome.document())
    if outcome.failed:
        raise typer.Exit(FAILED)
