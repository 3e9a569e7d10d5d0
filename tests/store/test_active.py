"""Who is remembered through a reboot, and what happens to a list that cannot be read."""

from __future__ import annotations

import logging
import stat
import threading
from pathlib import Path

import pytest

from stoker.store.active_residents import ActiveResidents


def test_the_last_resident_of_each_slot_is_remembered_by_whoever_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "active.json"
    assert ActiveResidents(path).read() == {}
    active = ActiveResidents(path)
    active.write("gpu0", "fast")
    active.write("gpu1", "small")
    active.write("gpu0", "big")
    assert ActiveResidents(path).read() == {"gpu0": "big", "gpu1": "small"}
    active.write("gpu1", None)
    active.write("gpu2", None)
    assert ActiveResidents(path).read() == {"gpu0": "big"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["active.json"]


def test_what_is_remembered_already_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "active.json"
    ActiveResidents(path).write("gpu0", "fast")
    before = path.stat().st_ino
    ActiveResidents(path).write("gpu0", "fast")
    assert path.stat().st_ino == before


@pytest.mark.parametrize("content", [b"", b"[]", b'{"gpu0": 1}', b"\xff", b'{"gpu0": "fa'])
def test_a_list_that_cannot_be_read_is_put_aside_and_nothing_is_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "active.json"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "stoker.store"):
        assert ActiveResidents(path).read() == {}
    assert "moved to" in caplog.text
    assert (tmp_path / "active.json.unreadable").read_bytes() == content
    ActiveResidents(path).write("gpu0", "fast")
    assert ActiveResidents(path).read() == {"gpu0": "fast"}


def test_a_list_that_may_not_be_read_stays_where_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "active.json"
    path.mkdir()
    with caplog.at_level(logging.WARNING, "stoker.store"):
        assert ActiveResidents(path).read() == {}
    assert "check its owner" in caplog.text


def test_a_write_that_fails_leaves_the_old_list_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "active.json"
    ActiveResidents(path).write("gpu0", "fast")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        ActiveResidents(path).write("gpu0", "big")
    assert ActiveResidents(path).read() == {"gpu0": "fast"}
    assert [p.name for p in tmp_path.iterdir()] == ["active.json"]


def test_two_threads_lose_nothing(tmp_path: Path) -> None:
    active = ActiveResidents(tmp_path / "active.json")
    threads = [threading.Thread(target=active.write, args=(f"gpu{n}", "a")) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(active.read()) == 16
