"""A serve's log is ours: nobody else's file or link is written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.fleet.process.logs import open_log, rotate_if_full

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to somebody else")
NOBODY = 65534


def test_a_log_is_private_and_goes_on_where_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        handle = open_log(tmp_path / "logs" / "a.log")
        os.write(handle, b"line\n")
        os.close(handle)
    assert (tmp_path / "logs" / "a.log").read_text() == "line\nline\n"
    assert (tmp_path / "logs" / "a.log").stat().st_mode & 0o777 == 0o600


def test_a_log_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    (tmp_path / "a.log").chmod(0o666)
    with pytest.raises(PermissionError, match="other users can write"):
        open_log(tmp_path / "a.log")


@AS_ROOT
def test_a_log_or_a_link_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch(0o600)
    os.chown(tmp_path / "a.log", NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="belongs to user 65534"):
        open_log(tmp_path / "a.log")
    (tmp_path / "b.log").symlink_to(tmp_path / "precious")
    os.chown(tmp_path / "b.log", NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(PermissionError, match="link that user 65534 made"):
        open_log(tmp_path / "b.log")
    assert not (tmp_path / "precious").exists()


def test_a_rotation_does_not_write_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x" * 100)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "a.log.1.part").symlink_to(tmp_path / "precious")
    assert rotate_if_full(tmp_path / "a.log", 10)
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "a.log.1").read_text() == "x" * 10
