"""What an import found: the configuration to write, and a report of every key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class KeyOutcome(StrEnum):
    """What became of one key of the other program."""

    CARRIED = "carried"
    """Stoker does the same."""
    CHANGED = "changed"
    """Stoker does nearly the same; the note says what differs."""
    DROPPED = "dropped"
    """Stoker does not do this; the note says why, and what to do instead."""
    IGNORED = "ignored"
    """The other program ignored this key, too: the note says what was probably meant."""
    FAILED = "failed"
    """This key prevented the import of the model."""


@dataclass(frozen=True, slots=True)
class KeyReport:
    """One row of the report."""

    model: str
    """The model as the other program names it; "" for keys of the whole file."""
    key: str
    """The key as the other program writes it, dotted: `filters.setParams.top_k`."""
    outcome: KeyOutcome
    became: str = ""
    """The key and value in Stoker: `idle_unload = "300s"`. Never a secret."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A secret from the other program's file. It is written beside the configuration, readable by its owner."""

    path: str
    """Relative to the configuration's directory: `keys/team`."""
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FileLink:
    """A hard link to make: `target` becomes another name of the file `source`."""

    source: Path
    target: Path


@dataclass(frozen=True, slots=True)
class ImportedConfig:
    """The result of an import.

    document   as `tomllib` would read the configuration: `{"front_door": {...}, "serve": [{...}, ...]}`
    report     every key of the source, in the order of the source
    secrets    files to write beside the configuration
    comments   lines for the head of the file, without `#`
    links      hard links to make before the configuration is written
    """

    document: Mapping[str, Any]
    report: tuple[KeyReport, ...]
    secrets: tuple[SecretFile, ...] = ()
    comments: tuple[str, ...] = ()
    links: tuple[FileLink, ...] = ()

    @property
    def failed_models(self) -> tuple[str, ...]:
        """Models that could not be imported, each once, in the order of the report."""
        failed = (row.model for row in self.report if row.outcome is KeyOutcome.FAILED)
        return tuple(dict.fromkeys(failed))
