"""What to do about a file that cannot be written fits the cause."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.store.files.remedies import remedy

STATE = Path("/srv/state")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "make room on the disk of /srv/state"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "is read-only: mount it writable"),
        (errno.EACCES, "make /srv/state writable for the user"),
        (errno.EPERM, "make /srv/state writable for the user"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "dmesg"),
        (errno.ENOENT, "/srv/state is gone"),
        (errno.EXDEV, "check the free space of /srv/state, and its owner"),
    ],
)
def test_each_cause_has_its_remedy(number: int, said: str) -> None:
    found = remedy(OSError(number, os.strerror(number)), STATE)
    assert said in found
    assert ("make room" in found) == (number == errno.ENOSPC)


@pytest.mark.parametrize(
    ("flags", "free", "said"),
    [(os.ST_RDONLY, 5, "is read-only"), (0, 5, "writable for the user")],
)
def test_sqlite_does_not_say_why_a_file_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, free: int, said: str
) -> None:
    path = tmp_path / "a.db"
    sqlite3.connect(path).close()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db, pytest.raises(sqlite3.Error) as refused:
        db.execute("CREATE TABLE t (x)")
    monkeypatch.setattr(os, "statvfs", lambda place: SimpleNamespace(f_flag=flags, f_bavail=free))
    assert said in remedy(refused.value, tmp_path)


def test_a_full_disk_is_full_for_sqlite_too(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute("PRAGMA max_page_count = 1")
    with closing(db), pytest.raises(sqlite3.Error) as refused:
        db.execute("CREATE TABLE t (x)")
    assert "make room on the disk" in remedy(refused.value, tmp_path)
