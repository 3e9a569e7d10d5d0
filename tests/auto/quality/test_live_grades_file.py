"""STATE/live.json: written whole or not at all, put aside where it cannot be read, and no reason not to start."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from stoker.domain.errors import ConfigError
from stoker.domain.tier import LIVE, GradedRow, Verdict
from stoker.store.files import atomic
from stoker_auto.quality.live_grades_file import encode, path_of, read, recover
from stoker_auto.spending import DailySpending

ROW = GradedRow(
    "cheap",
    "chat",
    "i",
    "e",
    20,
    12,
    Verdict.DENY,
    source=LIVE,
    at=5.0,
    judge="far",
    judge_identity="m",
    judge_execution="x",
)
ROWS = {("cheap", "chat"): ROW}
SPENT = DailySpending("2026-11-21", 0.25)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return path_of(tmp_path)


def test_what_is_written_is_read_again_and_nobody_else_may_read_it(path: Path) -> None:
    atomic.write(path, encode(ROWS, SPENT))
    assert read(path) == recover(path) == (ROWS, SPENT)
    assert path.stat().st_mode & 0o077 == 0
    assert os.listdir(path.parent) == ["live.json"]


def test_where_nothing_was_graded_there_is_nothing(path: Path) -> None:
    assert read(path) == recover(path) == ({}, DailySpending())
    assert not path.exists()


def test_the_same_rows_are_the_same_bytes_in_whatever_order_they_came() -> None:
    other = GradedRow("cheap", "review", "i", "e", 1, 1, Verdict.VERIFY, source=LIVE)
    one = {("cheap", "chat"): ROW, ("cheap", "review"): other}
    assert encode(one, SPENT) == encode(dict(reversed(one.items())), SPENT)
    assert set(json.loads(encode(one, SPENT))) == {"version", "spent", "rows"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"version": 2}',
        b'{"version": 1, "rows": [{"tier": "a"}]}',
        encode({**ROWS, ("b", "c"): ROW}, SPENT),
        encode({("a", "b"): GradedRow("a", "b", "", "", 1, 2, Verdict.DENY)}, SPENT),
    ],
)
def test_a_file_that_is_none_is_put_aside_with_a_warning_by_its_owner_and_only_told_by_others(
    path: Path, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(body)
    with pytest.raises(ConfigError, match=r"live\.json"):
        read(path)
    assert path.exists(), "looking changes nothing"
    with caplog.at_level(logging.WARNING, "stoker.store"):
        assert recover(path) == ({}, DailySpending())
    assert "moved to" in caplog.text
    assert path.with_name("live.json.unreadable").read_bytes() == body
    assert recover(path) == ({}, DailySpending())


def test_a_directory_in_its_place_is_no_reason_not_to_start(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.mkdir()
    with caplog.at_level(logging.WARNING, "stoker.store"):
        assert recover(path) == ({}, DailySpending())
    assert "cannot be read" in caplog.text


def test_a_write_that_fails_leaves_the_old_one_and_no_draft(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic.write(path, encode(ROWS, SPENT))

    def full(self: Path, target: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="full"):
        atomic.write(path, b"other")
    assert os.listdir(path.parent) == ["live.json"]
    assert read(path) == (ROWS, SPENT)
