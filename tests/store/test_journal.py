"""Swaps under way are on disk: found by the next control plane, whole or not at all."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from stoker.domain.errors import StokerError
from stoker.domain.protocols import SwapEntry
from stoker.store.journal import SwapJournal

SWAP = SwapEntry("gpu0", "b", ("a",))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "swaps"


def test_what_was_begun_and_not_ended_is_found_by_the_next_one(directory: Path) -> None:
    asyncio.run(SwapJournal(directory).begin(SWAP))
    later = SwapJournal(directory)
    assert later.unfinished() == [SWAP]
    later.end(SWAP)
    assert later.unfinished() == []
    later.end(SWAP)


def test_slots_do_not_mix_and_no_name_leaves_the_directory(directory: Path) -> None:
    odd = SwapEntry("../~x/y", "c")

    async def story() -> None:
        journal = SwapJournal(directory)
        await asyncio.gather(journal.begin(SWAP), journal.begin(odd))

    asyncio.run(story())
    assert sorted(SwapJournal(directory).unfinished(), key=lambda s: s.slot) == [odd, SWAP]
    assert {path.parent for path in directory.parent.rglob("*.json")} == {directory}


def test_a_later_swap_of_the_slot_is_not_ended_by_the_earlier_one(directory: Path) -> None:
    later = SwapEntry("gpu0", "a", ("b",))

    async def story() -> None:
        journal = SwapJournal(directory)
        await journal.begin(SWAP)
        await journal.begin(later)
        journal.end(SWAP)

    asyncio.run(story())
    assert SwapJournal(directory).unfinished() == [later]


def test_an_entry_that_cannot_be_read_stops_nobody(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(SwapJournal(directory).begin(SWAP))
    (directory / "gpu1.json").write_text("{")
    assert SwapJournal(directory).unfinished() == [SWAP]
    assert "is not a valid entry" in caplog.text
    assert not (directory / "gpu1.json").exists()


def test_files_are_private_and_no_draft_stays(directory: Path) -> None:
    asyncio.run(SwapJournal(directory).begin(SWAP))
    [path] = directory.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_swap_that_cannot_be_written_down_says_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StokerError, match=r"was not begun.*is a file: remove it"):
        asyncio.run(SwapJournal(tmp_path / "file" / "swaps").begin(SWAP))


def test_a_cancelled_begin_has_written_all_or_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        entered = asyncio.Event()
        loop = asyncio.get_running_loop()
        synced = os.fsync

        def slow(handle: int) -> None:
            loop.call_soon_threadsafe(entered.set)
            synced(handle)

        monkeypatch.setattr(os, "fsync", slow)
        task = loop.create_task(SwapJournal(directory).begin(SWAP))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert SwapJournal(directory).unfinished() == [SWAP]
        assert len(list(directory.iterdir())) == 1

    asyncio.run(story())
