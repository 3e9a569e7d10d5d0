"""Who ran in each slot: remembered on disk, and started again after a reboot."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from pathlib import Path

from stoker.domain.serve import slots_of
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.state import SlotState
from stoker.store.active_residents import ActiveResidents

log = logging.getLogger("stoker.app")


class Residents:
    """`writer` has one thread, so that the last word is the last written."""

    def __init__(self, state: Path, writer: Executor) -> None:
        self._file = ActiveResidents(state / "active.json")
        self._writer = writer

    def remember(self, place: str, serve: str) -> None:
        """Returns at once; the disk is written on a thread. Serves without a slot are not remembered."""
        if not place.startswith("~"):
            for slot in slots_of(place):
                self._writer.submit(self._write, slot, serve)

    def last(self) -> dict[str, str]:
        """By slot, the serve that was ready there last."""
        return self._file.read()

    def _write(self, slot: str, serve: str) -> None:
        try:
            self._file.write(slot, serve)
        except OSError as error:
            log.warning("the resident of slot %s cannot be saved, so a restart may not load it again: %s", slot, error)


def to_resume(
    last: Mapping[str, str], slots: Mapping[str, SlotState], recovering: Collection[str]
) -> list[tuple[str, str]]:
    """Places and the serves to start in them.

    Left out: slots of boxes (which need not be woken), slots in which something runs or an interrupted swap is
    `recovering`, serves that moved or are gone, and those that take several slots, if another serve was in one of them
    last.
    """
    found: list[tuple[str, str]] = []
    for slot, name in last.items():
        here = slots[slot].serves if slot in slots else []
        state = next((one for one in here if one.name == name), None)
        if state is None or state.slot_state.slot.box or any(name == serve for _, serve in found):
            continue
        places = [slot_state.slot.name for slot_state in state.slot_states]
        is_free = all(one.phase is ServePhase.STOPPED for slot_state in state.slot_states for one in slot_state.serves)
        if is_free and all(place not in recovering and last.get(place) == name for place in places):
            found.append((state.slot_name, name))
    return found
