"""The socket for commands: private, never stolen from a live owner, and reachable from any directory."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import StokerError
from stoker.store import control_socket
from stoker.store.state_dir import StateDir


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    made = StateDir(tmp_path / "state")
    made.lock()
    yield made
    made.close()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as where:  # pytest's own directories are too long for a socket
        monkeypatch.setenv("XDG_RUNTIME_DIR", where)
        yield Path(where)


@pytest.fixture
def far(tmp_path: Path, runtime: Path) -> Iterator[StateDir]:
    """A directory whose path is too long for a socket."""
    made = StateDir(tmp_path / ("d" * 60) / ("e" * 60))
    made.lock()
    yield made
    made.close()


def reaches(where: Path, listener: socket.socket) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(os.fspath(where))
        accepted, _ = listener.accept()
        accepted.close()
    return True


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_socket_lies_in_the_directory_and_is_private(state: StateDir) -> None:
    before = os.umask(0)
    os.umask(before)
    with state.bind_socket() as listener:
        assert state.socket_path == state.path / "stoker.sock"
        assert mode(state.socket_path) == 0o600
        assert not listener.getblocking()
        assert reaches(state.socket_path, listener)
        assert state.note is None
    assert os.umask(before) == before, "the process's own mask is as it was"


def test_a_socket_that_a_crash_left_is_replaced(state: StateDir) -> None:
    state.bind_socket().close()  # closed, not unlinked: what a crash leaves
    assert state.socket_path.exists()
    with state.bind_socket() as listener:
        assert reaches(state.socket_path, listener)


def test_close_removes_the_socket(state: StateDir) -> None:
    state.bind_socket().close()
    state.close()
    assert sorted(found.name for found in state.path.iterdir()) == ["lock"]


def test_what_is_no_socket_is_not_removed(state: StateDir) -> None:
    state.socket_path.write_text("dear diary")
    with pytest.raises(StokerError, match="is not a socket"):
        state.bind_socket()
    state.close()
    assert state.socket_path.read_text() == "dear diary"


def test_a_long_path_gets_a_short_socket_in_the_runtime_directory(far: StateDir, runtime: Path) -> None:
    with far.bind_socket() as listener:
        where = far.socket_path
        assert where.parent.parent == runtime
        assert len(os.fsencode(where)) <= control_socket.LONGEST
        assert mode(where) == 0o600
        assert mode(where.parent) == 0o700
        assert reaches(where, listener)
        assert far.note is not None
        assert str(where) in far.note
    far.close()
    assert list(runtime.iterdir()) == []
    assert [found.name for found in far.path.iterdir()] == ["lock"]


def test_a_command_without_the_runtime_directory_finds_the_same_socket(
    far: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far.bind_socket() as listener:
        bound = far.socket_path
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        assert StateDir(far.path).socket_path == bound
        assert reaches(StateDir(far.path).socket_path, listener)


def test_without_a_runtime_directory_the_short_one_is_in_tmp(far: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    where = far.socket_path
    try:
        with far.bind_socket() as listener:
            assert where.parent.parent == Path("/tmp")
            assert f"stoker-{os.geteuid()}-" in str(where)
            assert mode(where.parent) == 0o700
            assert reaches(where, listener)
        far.close()
        assert not where.parent.exists()
    finally:
        shutil.rmtree(where.parent, ignore_errors=True)


def test_two_directories_have_two_sockets(far: StateDir) -> None:
    assert far.socket_path != StateDir(far.path.parent / ("f" * 60)).socket_path


def test_a_runtime_directory_that_is_too_long_or_missing_is_not_used(
    far: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for useless in (str(far.path), "/no-such-runtime", "relative", ""):
        monkeypatch.setenv("XDG_RUNTIME_DIR", useless)
        assert far.socket_path.is_relative_to("/tmp")
        assert len(os.fsencode(far.socket_path)) <= control_socket.LONGEST


@pytest.mark.parametrize("trap", ["open", "link"])
def test_a_directory_that_somebody_else_prepared_is_refused(
    far: StateDir, runtime: Path, tmp_path: Path, trap: str
) -> None:
    where = far.socket_path.parent
    if trap == "open":
        where.mkdir()
        where.chmod(0o777)
    else:
        (tmp_path / "theirs").mkdir(0o700)
        where.symlink_to(tmp_path / "theirs")
    with pytest.raises(StokerError, match="not a private directory"):
        far.bind_socket()
    far.close()
    assert where.is_dir(), "and it stays, it is not ours to remove"
    assert list(where.iterdir()) == []
