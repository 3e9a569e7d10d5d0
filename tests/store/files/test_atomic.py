"""A file is replaced whole or stays as it was, whatever happens on the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stoker.store.files import atomic


def test_a_new_file_and_its_directory_are_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    before = os.umask(0)
    try:
        atomic.write(path, b"content", make_parents=True)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"content"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]


def test_a_directory_that_is_gone_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic.write(tmp_path / "gone" / "file", b"")
    assert not (tmp_path / "gone").exists()


def test_the_mode_that_was_asked_for_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        atomic.write(tmp_path / "file", b"", 0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_keeps_the_old_file_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os if step == "fsync" else Path, step, fails)
    with pytest.raises(OSError, match="No space"):
        atomic.write(path, b"new")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]


def test_only_a_synced_write_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    atomic.write(tmp_path / "file", b"1", is_synced=False)
    assert synced == []
    atomic.write(tmp_path / "file", b"2")
    assert len(synced) == 2  # the file and its directory
