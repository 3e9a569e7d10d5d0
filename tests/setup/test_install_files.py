"""All of the files change, or none."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.store.files import atomic
from stoker_setup import service_install as install


def contents(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text() for p in sorted(place.rglob("*")) if p.is_file()}


def test_all_are_written_and_deleted_and_can_be_read_by_everybody(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with install.changed_files({tmp_path / "deep" / "a": "1", tmp_path / "old": None, tmp_path / "never": None}):
        pass
    assert contents(tmp_path) == {"deep/a": "1"}
    assert stat.S_IMODE((tmp_path / "deep" / "a").stat().st_mode) == 0o644


def test_when_what_follows_fails_everything_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old a")
    (tmp_path / "gone").write_text("old gone")
    before = contents(tmp_path)
    changes = {tmp_path / "a": "new", tmp_path / "b": "new", tmp_path / "gone": None}
    seen: list[dict[str, str]] = []

    def what_follows() -> None:
        with install.changed_files(changes):
            seen.append(contents(tmp_path))
            raise RuntimeError("later")

    with pytest.raises(RuntimeError, match="later"):
        what_follows()
    assert seen == [{"a": "new", "b": "new"}]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_rename_that_fails_undoes_the_ones_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    for name in "abc":
        (tmp_path / name).write_text(f"old {name}")
    before = contents(tmp_path)
    count = 0
    real: Callable[[Path, Path], Path] = Path.replace

    def replace(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == failing:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with (
        pytest.raises(OSError, match="No space"),
        install.changed_files({tmp_path / name: "new" for name in "abc"}),
    ):
        pytest.fail("it was not changed")
    assert contents(tmp_path) == before


def test_a_file_that_cannot_even_be_drafted_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with (
        pytest.raises(OSError, match=r"Not a directory|File exists"),
        install.changed_files({tmp_path / "a": "new", tmp_path / "file" / "b": "new"}),
    ):
        pytest.fail("it was not changed")
    assert contents(tmp_path) == {"file": "no directory"}


def test_one_file_is_replaced_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    atomic.write(path, b"new", 0o600)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError):
        atomic.write(tmp_path / "directory", b"new", 0o600)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["directory", "key"]
