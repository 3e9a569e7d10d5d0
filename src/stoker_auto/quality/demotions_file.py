"""Demotions, remembered through a restart: `STATE/demotions.json`. Only the running Stoker writes it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.domain.tier import Demotion
from stoker.store.files import atomic

log = logging.getLogger("stoker.store")
DemotionTable = dict[tuple[str, str], Demotion]
"""Demotions by tier and class."""


def path_of(state: str | Path) -> Path:
    return Path(state) / "demotions.json"


class Demotions:
    """Written by rename and synced: a reader, or a power cut, finds the old list or the new one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> DemotionTable:
        """Empty where there is none. One that cannot be read counts for nothing, with a warning."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=list[Demotion])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s cannot be read (%s): no tier is demoted by it", self.path, error)
            return {}
        return {(one.tier, one.task_class): one for one in found}

    def write(self, demotions: Iterable[Demotion]) -> None:
        """All of them. Blocks for a sync of the disk. Raises OSError, and the old list stays then."""
        atomic.write(self.path, msgspec.json.format(msgspec.json.encode(list(demotions)), indent=1) + b"\n")
