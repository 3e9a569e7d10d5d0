"""Whatever the disk does: records wait, are counted, and get there when it can take them. No thread in these tests."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.decision import Decision
from stoker.store import database, writer
from stoker.store.database import Database
from stoker.store.decisions import read_recent
from stoker.store.sqlite_file import is_beyond_use, set_aside
from stoker.store.writer import DecisionWriter


def numbered(number: int) -> Decision:
    return Decision(id=f"req_{number}", at=float(number), endpoint="/v1/chat/completions")


class Scene:
    """A writer whose thread is the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pending: deque[Decision] = deque()
        self.now = 1000.0
        self.announced: list[str] = []
        self.writer = DecisionWriter(path, 100, self.pending, lambda: self.now, self.announced.append)

    def record(self, *numbers: int) -> None:
        self.pending.extend(numbered(number) for number in numbers)

    def on_disk(self) -> list[int]:
        return sorted(int(found.id.removeprefix("req_")) for found in read_recent(self.path, 1000))

    def broken(self) -> list[Path]:
        return sorted(self.path.parent.glob("decisions.db.broken-*"))

    def figures(self) -> tuple[int, int, int, int]:
        w = self.writer
        return w.written, w.failed, w.discarded, w.unsaved


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Scene]:
    monkeypatch.setattr(database, "SCHEMA", replace(database.SCHEMA, busy_wait=0.01))
    caplog.set_level(logging.WARNING)
    made = Scene(tmp_path / "decisions.db")
    yield made
    made.writer.close()


def test_nothing_to_write_makes_the_file_and_is_quiet(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    assert scene.writer.flush()
    assert scene.path.exists()
    assert caplog.text == ""


def test_a_locked_file_is_tried_again_and_nothing_is_lost(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.record(1)
    assert scene.writer.flush()
    with closing(sqlite3.connect(scene.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        scene.record(2, 3)
        assert not scene.writer.flush()
        scene.record(4)
        assert not scene.writer.flush()
        assert scene.figures() == (1, 2, 0, 3)
    assert scene.writer.flush()
    assert scene.on_disk() == [1, 2, 3, 4]
    assert scene.figures() == (4, 2, 0, 0)
    assert [r.message for r in caplog.records if "cannot be written" in r.message] != []
    assert len(caplog.records) == 2, "said once when it began and once when it was over"
    assert scene.broken() == []


def test_a_full_disk_is_tried_again_and_the_records_before_it_stay(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connected(*args: Any, **settings: Any) -> sqlite3.Connection:
        connections.append(connect(*args, **settings))
        return connections[-1]

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connected)
        scene.record(1)
        assert scene.writer.flush()
    # SQLite's own way to run out of room; it holds for this connection, so the next one finds space again.
    connections[0].execute("PRAGMA max_page_count = 2")
    scene.record(*range(2, 90))
    assert not scene.writer.flush()
    assert scene.on_disk() == [1]
    assert scene.writer.flush()
    assert scene.on_disk() == list(range(1, 90))
    assert scene.broken() == []


def test_a_directory_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "later" / "decisions.db")
    scene.record(1)
    assert not scene.writer.flush()
    (tmp_path / "later").mkdir()
    assert scene.writer.flush()
    assert scene.on_disk() == [1]
    scene.writer.close()


def test_a_broken_file_is_moved_aside_and_its_bytes_are_kept(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    content = b"this is no database" * 100
    scene.path.write_bytes(content)
    scene.record(1)
    assert scene.writer.flush()
    assert scene.on_disk() == [1]
    (aside,) = scene.broken()
    assert aside.read_bytes() == content
    assert aside.name in caplog.text
    assert "can be written again" not in caplog.text


def test_a_file_that_breaks_while_it_is_used_is_moved_aside_with_what_can_be_saved(scene: Scene) -> None:
    scene.record(*range(90))
    assert scene.writer.flush()
    scene.writer.close()
    content = bytearray(scene.path.read_bytes())
    for page in range(4096, len(content), 4096):  # every page but the first: the header and the schema are still fine
        content[page : page + 64] = b"\xee" * 64
    scene.path.write_bytes(content)
    scene.record(100)
    assert scene.writer.flush()
    assert scene.on_disk() == [100]
    assert len(scene.broken()) == 1


def test_damage_that_no_write_would_meet_is_found_at_the_start(scene: Scene) -> None:
    scene.record(*range(90))
    assert scene.writer.flush()
    scene.writer.close()
    content = bytearray(scene.path.read_bytes())
    content[4 * 4096 : 4 * 4096 + 64] = b"\xee" * 64  # neither the oldest records nor the newest
    scene.path.write_bytes(content)
    assert scene.writer.flush()
    assert len(scene.broken()) == 1
    assert scene.on_disk() == []


def test_a_directory_in_the_place_of_the_file_is_moved_aside(scene: Scene) -> None:
    scene.path.mkdir()
    scene.record(1)
    assert scene.writer.flush()
    assert scene.on_disk() == [1]
    assert scene.broken()[0].is_dir()


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 99", "CREATE TABLE diary (page TEXT)"])
def test_a_database_that_is_not_ours_is_moved_aside_untouched(scene: Scene, statement: str) -> None:
    with closing(sqlite3.connect(scene.path, isolation_level=None)) as other:
        other.execute(statement)
    content = scene.path.read_bytes()
    scene.record(1)
    assert scene.writer.flush()
    assert scene.on_disk() == [1]
    assert scene.broken()[0].read_bytes() == content


def test_a_file_of_our_version_without_our_table_is_moved_aside(scene: Scene) -> None:
    with closing(sqlite3.connect(scene.path, isolation_level=None)) as other:
        other.execute(f"PRAGMA user_version = {database.VERSION}")
    scene.record(1)
    assert scene.writer.flush()
    assert len(scene.broken()) == 1


def test_a_disk_that_breaks_every_file_is_not_filled_with_them(scene: Scene) -> None:
    scene.record(1)
    scene.path.write_bytes(b"broken" * 1000)
    assert scene.writer.flush()
    scene.writer.close()
    scene.path.write_bytes(b"broken again" * 1000)
    scene.record(2)
    assert not scene.writer.flush()
    assert not scene.writer.flush()
    assert len(scene.broken()) == 1
    assert scene.writer.unsaved == 1
    scene.now += writer.ASIDE_PAUSE
    assert scene.writer.flush()
    assert scene.on_disk() == [2]
    assert len(scene.broken()) == 2, "two names, even within one second"


def test_where_moving_aside_fails_too_records_wait(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(writer, "set_aside", refuse)
    scene.path.write_bytes(b"broken" * 1000)
    scene.record(1)
    assert not scene.writer.flush()
    assert scene.writer.unsaved == 1
    assert f"make {scene.path.parent} writable for the user" in caplog.text


def test_a_file_that_somebody_removed_is_started_anew(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.record(1)
    assert scene.writer.flush()
    scene.path.unlink()
    scene.record(2)
    assert scene.writer.flush()
    assert scene.on_disk() == [2]
    assert "removed or replaced" in caplog.text


def test_a_file_that_somebody_replaced_is_written_to_and_the_old_one_is_whole(scene: Scene, tmp_path: Path) -> None:
    scene.record(1)
    assert scene.writer.flush()
    restored, kept = tmp_path / "restored.db", tmp_path / "kept.db"
    Database(restored).close()
    scene.path.rename(kept)
    restored.rename(scene.path)
    scene.record(2)
    assert scene.writer.flush()
    assert scene.on_disk() == [2]
    assert [found.id for found in read_recent(kept, 10)] == ["req_1"]


def test_a_record_that_is_no_text_does_not_hold_up_the_others(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.record(1)
    scene.pending.append(Decision(id="req_\ud800", at=0.0, endpoint="/"))
    scene.pending.append(Decision(id="req_x", at=0.0, endpoint="/", model="marker \udfff"))
    scene.record(2)
    assert scene.writer.flush()
    assert scene.on_disk() == [1, 2]
    assert scene.figures() == (2, 0, 2, 0)
    assert "marker" not in caplog.text


def test_a_record_that_does_not_fit_the_schema_is_given_up(scene: Scene) -> None:
    scene.pending.append(Decision(id="req_0", at=0.0, endpoint="/", status=2**70))
    assert not scene.writer.flush()
    scene.record(1)
    assert scene.writer.flush()
    assert scene.on_disk() == [1]
    assert scene.figures() == (1, 1, 1, 0)


# -- which failures are beyond retrying ----------------------------------------------------------------------------


def failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("told by SQLite")
    error.sqlite_errorcode = code
    return error


def test_too_many_open_files_are_no_reason_to_move_a_sound_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    Database(path).close()
    assert not is_beyond_use(path, failure(sqlite3.SQLITE_CANTOPEN))
    assert not is_beyond_use(path, failure(sqlite3.SQLITE_IOERR))
    assert not is_beyond_use(path, OSError(28, "No space left on device"))
    assert not is_beyond_use(tmp_path / "none", failure(sqlite3.SQLITE_CANTOPEN))


def test_a_file_that_may_not_be_written_is_beyond_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "decisions.db"
    Database(path).close()
    # The tests may run as root, who may write anything.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert is_beyond_use(path, failure(sqlite3.SQLITE_READONLY))
    assert is_beyond_use(path, failure(sqlite3.SQLITE_READONLY | 4 << 8)), "extended codes too"
    assert not is_beyond_use(path, failure(sqlite3.SQLITE_BUSY))


def test_what_sqlite_keeps_beside_the_file_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).write_text(suffix)
    aside = set_aside(path)
    assert {found.name: found.read_text() for found in tmp_path.iterdir()} == {
        aside.name: "",
        f"{aside.name}-wal": "-wal",
        f"{aside.name}-shm": "-shm",
    }


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "make room on the disk of"), (errno.EROFS, "is read-only: mount it writable")]
)
def test_who_started_stoker_is_told_once_why_the_disk_takes_nothing_and_once_that_it_does_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(path: Path) -> Database:
        raise OSError(number, os.strerror(number))

    scene.record(1)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "Database", refuse)
        assert [scene.writer.flush() for _ in range(3)] == [False] * 3
        assert advice in scene.writer.problem
        [told] = scene.announced
        assert f"decisions.db cannot be written ([Errno {number}]" in told
        assert advice in told
    assert scene.writer.flush()
    assert (scene.writer.problem, scene.on_disk()) == ("", [1])
    assert scene.announced[1:] == [f"stoker: the decision log {scene.path} can be written again"]
