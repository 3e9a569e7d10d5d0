"""One state directory, one control plane: what keeps the second one out, and what is left after a crash."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import ClientError, OurBug, StokerError
from stoker.store.state_dir import WITHOUT_FILE, StateDir

HOLDER = """
import subprocess, sys
from pathlib import Path
from stoker.store.state_dir import WITHOUT_FILE, StateDir
state = StateDir(Path(sys.argv[1]))
state.lock()
state.bind_socket()
engine = subprocess.Popen(["sleep", "60"], start_new_session=True, close_fds=False)
print(engine.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    made = StateDir(tmp_path / "state")
    yield made
    made.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- the directory ------------------------------------------------------------------------------------------------


def test_asking_where_things_are_touches_nothing(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "deep" / "state")
    assert state.socket_path == tmp_path / "deep" / "state" / "stoker.sock"
    assert state.decisions_path.name == "decisions.db"
    assert state.serves_path.name == "serves"
    assert list(tmp_path.iterdir()) == []


def test_the_directory_is_made_for_this_user_only(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "deep" / "state")
    state.lock()
    assert mode(state.path) == 0o700
    assert mode(state.path / "lock") == 0o600
    state.close()


def test_a_relative_path_means_the_same_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = StateDir(Path("state"))
    monkeypatch.chdir("/")
    assert state.path == tmp_path / "state"


@pytest.mark.parametrize("open_to", [0o720, 0o702, 0o777])
def test_a_directory_that_others_can_write_is_refused_with_the_fix(tmp_path: Path, open_to: int) -> None:
    path = tmp_path / "my state"
    path.mkdir()
    path.chmod(open_to)
    with pytest.raises(StokerError) as caught:
        StateDir(path).lock()
    assert f"chmod go-w '{path}'" in caught.value.message
    assert caught.value.code == "state_unusable"
    path.chmod(open_to & ~0o022)
    state = StateDir(path)
    state.lock()
    state.close()


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StokerError, match=f"belongs to user {os.getuid()}"):
        StateDir(tmp_path).lock()


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StokerError, match=r"state cannot be created .*under \[paths\]"):
        StateDir(tmp_path / "state").lock()


# -- the lock -----------------------------------------------------------------------------------------------------


def test_a_second_one_is_refused_and_told_who_is_there(state: StateDir) -> None:
    state.lock()
    with pytest.raises(ClientError) as caught:
        StateDir(state.path).lock()
    assert caught.value.code == "state_locked"
    assert caught.value.status == 409
    for piece in (str(state.path), f"process {os.getpid()}", "stoker slot status", f"kill {os.getpid()}"):
        assert piece in caught.value.message
    assert (state.path / "lock").read_text() == f"{os.getpid()}\n", "and the first one is not disturbed"


def test_without_a_configuration_file_nobody_is_told_to_edit_one(state: StateDir) -> None:
    state.lock()
    with pytest.raises(ClientError, match="XDG_STATE_HOME") as caught:
        StateDir(state.path, WITHOUT_FILE).lock()
    assert "[paths]" not in caught.value.message


def test_a_holder_that_has_not_yet_said_who_it_is_gives_a_message_too(state: StateDir) -> None:
    state.lock()
    os.truncate(state.path / "lock", 0)
    with pytest.raises(ClientError, match="locked or unlocked"):
        StateDir(state.path).lock()


def test_after_close_the_next_one_gets_it(state: StateDir) -> None:
    state.lock()
    state.close()
    assert (state.path / "lock").read_text() == "", "no pid that means nothing any more"
    other = StateDir(state.path)
    other.lock()
    assert (state.path / "lock").read_text() == f"{os.getpid()}\n"
    state.close()
    with pytest.raises(ClientError):
        state.lock()
    other.close()


def test_the_lock_names_the_configuration_of_its_holder(state: StateDir) -> None:
    assert state.running_configuration == ""
    holder = StateDir(state.path, configuration="/etc/stoker/stoker.toml")
    holder.lock()
    assert state.running_configuration == "/etc/stoker/stoker.toml"
    with pytest.raises(ClientError, match=f"process {os.getpid()}"):
        state.lock()
    holder.close()
    assert state.running_configuration == ""


def test_locking_twice_is_a_bug(state: StateDir) -> None:
    state.lock()
    with pytest.raises(OurBug):
        state.lock()


def test_a_lock_file_that_was_deleted_meanwhile_does_not_let_two_in(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    deleted: list[Path] = []

    def flock(handle: int, how: int) -> None:
        real(handle, how)
        if not deleted:
            deleted.append(state.path / "lock")
            deleted[0].unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    state.lock()
    assert deleted
    with pytest.raises(ClientError):
        StateDir(state.path).lock()


def test_a_crash_leaves_no_lock_though_an_engine_outlives_it(state: StateDir) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdin is not None
    engine = int(child.stdout.readline())
    try:
        with pytest.raises(ClientError, match=f"process {child.pid}\\)"):
            state.lock()
        child.send_signal(signal.SIGKILL)
        child.wait()
        os.kill(engine, 0)  # the engine is still there
        state.lock()
        assert state.socket_path.exists(), "the dead one's socket"
        state.bind_socket().close()
    finally:
        os.kill(engine, signal.SIGKILL)
        child.stdout.close()
        child.stdin.close()


def test_a_socket_is_bound_only_by_the_one_who_holds_the_lock(state: StateDir) -> None:
    state.prepare()
    with pytest.raises(OurBug):
        state.bind_socket()
    assert not state.socket_path.exists()


# -- the signing key ----------------------------------------------------------------------------------------------


def test_the_signing_key_is_made_once_and_private(state: StateDir) -> None:
    key = state.signing_key()
    assert len(key) == 32
    assert len(set(key)) > 8, "random"
    assert mode(state.path / "signing.key") == 0o600
    assert StateDir(state.path).signing_key() == key
    assert [found.name for found in state.path.iterdir()] == ["signing.key"], "no draft is left"


def test_two_that_make_the_key_at_once_end_up_with_one(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link
    others: list[bytes] = []

    def link(draft: Path, path: Path) -> None:
        if not others:
            others.append(b"k" * 32)
            path.write_bytes(others[0])
            path.chmod(0o600)
        real(draft, path)

    monkeypatch.setattr(os, "link", link)
    assert state.signing_key() == b"k" * 32
    assert [found.name for found in state.path.iterdir()] == ["signing.key"]


@pytest.mark.parametrize(
    ("content", "bits", "says"),
    [
        (b"s" * 31, 0o600, "32 bytes"),
        (b"s" * 33, 0o600, "32 bytes"),
        (b"", 0o600, "32 bytes"),
        (b"s" * 32, 0o640, "delete it"),
    ],
)
def test_a_key_that_cannot_be_trusted_is_refused(state: StateDir, content: bytes, bits: int, says: str) -> None:
    state.prepare()
    path = state.path / "signing.key"
    path.write_bytes(content)
    path.chmod(bits)
    with pytest.raises(StokerError, match=f"{re.escape(str(path))}.*{says}") as caught:
        state.signing_key()
    assert "sssss" not in caught.value.message
    assert path.read_bytes() == content


def test_a_key_that_is_a_link_is_refused(state: StateDir, tmp_path: Path) -> None:
    state.prepare()
    (tmp_path / "elsewhere").write_bytes(b"s" * 32)
    (state.path / "signing.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StokerError, match="cannot be read"):
        state.signing_key()


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "make room on the disk"), (errno.EROFS, "is read-only: mount it writable"), (errno.EACCES, "user")],
)
def test_why_the_state_cannot_be_locked_decides_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(path: object, *arguments: object, **settings: object) -> int:
        raise OSError(number, os.strerror(number))

    for what, where, name in (
        (StateDir(tmp_path / "state", "ELSEWHERE").lock, os, "ftruncate"),
        (StateDir(tmp_path / "other", "ELSEWHERE").prepare, Path, "mkdir"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, refuse)
            with pytest.raises(StokerError, match=advice) as refused:
                what()
        assert refused.value.message.endswith(", or ELSEWHERE")
