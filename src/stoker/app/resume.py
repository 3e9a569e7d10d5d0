"""Who ran in each slot: remembered on disk, and started again after a reboot."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from pathlib import Path

from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import SlotState
from stoker.store.active_residents import ActiveResidents

log = logging.getLogger("stoker.app")


class Residents:
    """`writer` has one thread, so that the last word is the last written."""

    def __init__(self, state: Path, writer: Executor) -> None:
        self._file = ActiveResidents(state / "active.json")
        self._writer = writer

    def remember(self, slot: str, serve: str) -> None:
        """Returns at once; the disk is written on a thread. Serves without a slot are not remembered."""
        if not slot.startswith("~"):
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
    """Slots and the serves to start in them.

    Left out: slots in which something runs or an interrupted swap is `recovering`, and serves that moved or are gone.
    """
    return [
        (slot, serve)
        for slot, serve in last.items()
        if (state := slots.get(slot)) is not None
        and slot not in recovering
        and serve in {one.name for one in state.serves}
        and all(one.phase is ServePhase.STOPPED for one in state.serves)
    ]
