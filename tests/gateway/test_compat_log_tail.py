"""Log files are read on as they grow, whatever is done to them."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.gateway.compat.log_tail import HISTORY, READ_AT_ONCE, LogTail


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_history_is_whole_lines_and_what_follows_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "first\n" + "x" * HISTORY + "\nlast\n")
    tail = LogTail(lambda: [log])
    assert tail.history() == b"last\n"
    assert tail.read() == b""
    append(log, "new\n")
    assert (tail.read(), tail.read()) == (b"new\n", b"")


def test_several_files_share_the_history(tmp_path: Path) -> None:
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    append(one, "y\n" * HISTORY)
    append(other, "z\n" * HISTORY)
    assert len(LogTail(lambda: [one, other]).history()) <= HISTORY


def test_a_log_that_was_truncated_or_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "a long line before\n")
    tail = LogTail(lambda: [log])
    tail.skip()
    os.truncate(log, 0)
    append(log, "short\n")
    assert tail.read() == b"short\n"
    log.rename(tmp_path / "a.log.1")
    append(log, "another file, longer than the one before\n")
    assert tail.read() == b"another file, longer than the one before\n"


def test_a_log_that_appears_later_or_goes_away_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = LogTail(lambda: [log])
    assert (tail.history(), tail.read()) == (b"", b"")
    append(log, "there\n")
    assert tail.read() == b"there\n"
    log.unlink()
    assert tail.read() == b""


def test_a_flood_is_read_in_bounded_pieces(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = LogTail(lambda: [log])
    append(log, "x" * (READ_AT_ONCE + 1))
    assert (len(tail.read()), len(tail.read())) == (READ_AT_ONCE, 1)
