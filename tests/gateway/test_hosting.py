"""What the program stands on: its log, which nobody else can lead elsewhere or write a line into."""

from __future__ import annotations

import logging
import os
import re
import stat
from pathlib import Path

import pytest

from stoker.domain.errors import StokerError
from stoker.gateway import log_file
from stoker.gateway.log_file import logging_to

log = logging.getLogger("stoker.front")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to somebody else")
NOBODY = 65534


def test_a_record_is_one_line_whatever_is_in_it(tmp_path: Path) -> None:
    forged = "x\n2026-01-01 00:00:00,000 INFO stoker.app.application forged\r\x1b[2J\u202e"
    with logging_to(tmp_path / "logs", 10**6):
        log.warning("serve %s", forged)
        try:
            raise ValueError(forged)
        except ValueError:
            log.exception("it broke")
    lines = (tmp_path / "logs" / "stoker.log").read_text().splitlines()
    assert "serve x\\u000a2026-01-01" in lines[0]
    assert [line for line in lines if re.match(r"\d{4}-", line)] == [lines[0], lines[1]]
    assert all(line.startswith("    ") for line in lines[2:])
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", "\n".join(lines))


def test_a_log_that_is_full_is_rotated_and_stays_private(tmp_path: Path) -> None:
    with logging_to(tmp_path / "logs", 500):
        for n in range(20):
            log.warning("line %d of many", n)
    for name in ("stoker.log", "stoker.log.1"):
        assert stat.S_IMODE((tmp_path / "logs" / name).stat().st_mode) == 0o600


def test_a_directory_that_others_can_write_into_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs").chmod(0o777)
    with pytest.raises(StokerError, match="chmod go-w"), logging_to(tmp_path / "logs", 500):
        pass


@AS_ROOT
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    os.chown(tmp_path / "logs", NOBODY, NOBODY)
    with pytest.raises(StokerError, match="belongs to user 65534"), logging_to(tmp_path / "logs", 500):
        pass


@AS_ROOT
@pytest.mark.parametrize("where", ["logs", "logs/deep"])
def test_a_link_that_somebody_else_made_is_not_followed_to_a_directory(tmp_path: Path, where: str) -> None:
    (tmp_path / "ours" / "deep").mkdir(parents=True)
    (tmp_path / "logs").symlink_to(tmp_path / "ours")
    os.chown(tmp_path / "logs", NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(StokerError, match="is a link that user 65534 made"), logging_to(tmp_path / where, 500):
        pass
    assert [found.name for found in (tmp_path / "ours").rglob("*")] == ["deep"]


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir(mode=0o700)
    (tmp_path / "logs").symlink_to(tmp_path / "ours")
    with logging_to(tmp_path / "logs", 500):
        log.warning("here")
    assert "here" in (tmp_path / "ours" / "stoker.log").read_text()


@AS_ROOT
def test_a_log_that_somebody_else_linked_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir(mode=0o700)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "logs" / "stoker.log").symlink_to(tmp_path / "precious")
    os.chown(tmp_path / "logs" / "stoker.log", NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(OSError, match="is a link that user 65534 made"), logging_to(tmp_path / "logs", 500):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_while_the_log_cannot_be_written_errors_go_to_stderr_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with logging_to(tmp_path / "logs", 10**6):
        log.info("before")
        with monkeypatch.context() as patch:
            patch.setattr(log_file, "open_log", lambda path: os.open("/dev/full", os.O_WRONLY))
            for handler in logging.getLogger("stoker").handlers:
                handler.stream.close()  # type: ignore[attr-defined]
                handler.stream = None  # type: ignore[attr-defined]
            log.info("lost")
            log.error("a database is full")
            log.error("another one is full")
        log.info("after")
    said = capsys.readouterr().err
    assert said.splitlines() == [
        f"stoker: {tmp_path}/logs/stoker.log cannot be written (No space left on device): make room on the disk of "
        f"{tmp_path}/logs",
        "stoker: a database is full",
        "stoker: another one is full",
    ]
    written = (tmp_path / "logs" / "stoker.log").read_text()
    assert [line.rpartition(" ")[2] for line in written.splitlines()] == ["before", "after"]
