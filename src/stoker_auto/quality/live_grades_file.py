"""What live grades say of the tiers, and what grading cost today: STATE/live.json. The running Stoker alone writes it.

live.json               {"version": 1, "spent": {"day": "2026-11-21", "amount": 0.01}, "rows": [...]}

Rows are as in the quality profile, with the source `live` and the judge. There is no history: what a suite measures
replaces them.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from stoker.domain.errors import ConfigError
from stoker.domain.tier import GradedRow
from stoker.store.profile import MAX_BYTES, check_rows
from stoker_auto.spending import DailySpending

log = logging.getLogger("stoker.store")
VERSION = 1
GradedRows = dict[tuple[str, str], GradedRow]
"""By tier and class."""


class LiveGradesDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int = VERSION
    spent: DailySpending = DailySpending()
    rows: list[GradedRow] = []


def path_of(state: str | Path) -> Path:
    return Path(state) / "live.json"


def encode(rows: GradedRows, spent: DailySpending) -> bytes:
    """The same bytes for the same rows, in any order."""
    ordered = [rows[key] for key in sorted(rows)]
    return msgspec.json.format(msgspec.json.encode(LiveGradesDocument(VERSION, spent, ordered)), indent=1) + b"\n"


def read(path: Path) -> tuple[GradedRows, DailySpending]:
    """Nothing if there is no file. Raises OSError, or ConfigError for a file that Stoker did not write."""
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}, DailySpending()
    try:
        found = msgspec.json.decode(body, type=LiveGradesDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError([f"{path}: is not a file of live grades: {error}"]) from error
    if found.version != VERSION:
        raise ConfigError([f"{path}: is of version {found.version}; this Stoker reads version {VERSION}"])
    check_rows(found.rows, str(path))
    return {(row.tier, row.task_class): row for row in found.rows}, found.spent


def recover(path: Path) -> tuple[GradedRows, DailySpending]:
    """As `read`, for its owner: what cannot be read is put aside as `live.json.unreadable`, and nothing is known then.
    Grades are no reason not to start.
    """
    try:
        return read(path)
    except OSError as error:
        log.warning("%s cannot be read (%s): live grades start from zero", path, error.strerror)
    except ConfigError as error:
        aside = path.with_name(f"{path.name}.unreadable")
        try:
            path.replace(aside)
        except OSError:
            aside = path
        log.warning("%s; moved to %s, and live grades start from zero", error.message, aside)
    return {}, DailySpending()
