"""Reserves a slot for a measurement: stops its residents, refuses requests, and restores all at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from stoker.cli.console import terminal
from stoker.cli.console.errors import NotRunning, RequestRefused, UnreadableAnswer

if TYPE_CHECKING:
    from stoker.cli.console.installation import Installation
    from stoker.domain.serve import Serve


class SlotTenants(NamedTuple):
    """Who lives where the measurement wants to work."""

    residents: tuple[str, ...]
    """Serves that run there now."""
    members: tuple[str, ...]
    """All serves that may live there."""
    slot: str
    """Empty: the serve has no slot."""

    def announcement(self) -> str:
        """What happens to them, before it does."""
        where = f"slot '{self.slot}'" if self.slot else f"serve '{self.members[0]}'"
        stopped = f"{', '.join(self.residents)} is stopped" if self.residents else "nothing runs there now"
        back = f"; then {', '.join(self.residents)} is loaded again" if self.residents else ""
        return (
            f"{where} is reserved for the sweep: {stopped}, and requests to {', '.join(self.members)} are refused "
            f"(503) until it ends{back}"
        )


def slot_tenants(installation: Installation, serve: Serve) -> SlotTenants | None:
    """None: no Stoker runs here."""
    from stoker.domain.serve import share_slot

    try:
        with installation.control() as control:
            status = control.status()
    except NotRunning:
        return None
    there = [one for one in status.serves if one.name == serve.name or share_slot(one.slot, serve.slot)]
    return SlotTenants(
        tuple(one.name for one in there if not one.is_gone), tuple(one.name for one in there), serve.slot or ""
    )


@contextlib.contextmanager
def take_over(installation: Installation, found: SlotTenants | None) -> Iterator[None]:
    """The residents are drained and stopped, and loaded again afterwards, whatever happened in between.

    Raises RequestRefused if they cannot be stopped; what was stopped is loaded again then, too.
    """
    if found is None:
        yield
        return
    try:
        for name in found.members:
            with installation.control() as control:
                control.drain(name)
        for name in found.residents:
            with installation.control() as control:
                control.unload(name)
        yield
    finally:
        _give_back(installation, found)


def _give_back(installation: Installation, found: SlotTenants) -> None:
    """Never raises for what a running Stoker answers: every serve is tried, each failure printed with the command."""

    from stoker_lab.commands.running_serve import command_for

    for name in found.members:
        try:
            with installation.control() as control:
                control.undrain(name)
        except (NotRunning, RequestRefused, UnreadableAnswer) as error:
            again = command_for("serves undrain", name, installation)
            terminal.note(f"stoker: {error.message}; to admit requests again: {again}")
    for name in found.residents:
        load_again(installation, name)


def load_again(installation: Installation, name: str) -> None:
    """Never raises for what a running Stoker answers: a failure is printed with the command."""
    from stoker_lab.commands.running_serve import command_for

    try:
        with installation.control() as control:
            control.switch(name)
        terminal.note(f"{name} is back")
    except (NotRunning, RequestRefused, UnreadableAnswer) as error:
        again = command_for("serves up", name, installation)
        terminal.note(f"stoker: {name} is not loaded again: {error.message}; load it: {again}")
