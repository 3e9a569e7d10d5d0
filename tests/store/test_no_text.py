"""A file of the state whose bytes are no text counts as any other that cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.fleet.process.identity import StartRecords
from stoker.store.active_residents import ActiveResidents
from stoker.store.journal import SwapJournal

NO_TEXT = b'{"slot": "\xff", "name": "\xff", "id": "\xff", "\xff": "\xff"}'


@pytest.mark.parametrize(
    ("file", "read", "answer"),
    [
        ("active.json", lambda state: ActiveResidents(state / "active.json").read(), {}),
        ("gpu.json", lambda state: SwapJournal(state).unfinished(), []),
        ("a.json", lambda state: StartRecords(state, logging.getLogger("stoker.fleet")).load(), []),
    ],
)
def test_it_is_as_one_that_cannot_be_read(
    file: str, read: Callable[[Path], object], answer: object, tmp_path: Path
) -> None:
    (tmp_path / file).write_bytes(NO_TEXT)
    assert read(tmp_path) == answer
