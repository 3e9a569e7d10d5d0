"""The directory of saved conversations: private, bounded, and believed only when proved."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.fleet.conversations.store import ConversationStore, SavedConversation
from stoker_lab.testing.clock import FakeClock

A, B, C = "a" * 32, "b" * 32, "c" * 32
HOUR = 3600.0


class Shelf:
    """A store in a directory of its own; `open` is what a later control plane does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = FakeClock()
        self.store = self.open()

    def open(self, budget: int = 1000, secret: bytes = bytes(32)) -> ConversationStore:
        log = logging.getLogger("test.conversations")
        self.store = ConversationStore(self.root, budget, HOUR, lambda: secret, self.clock.wall, log)
        return self.store

    def save(
        self, conversation: str, size: int = 100, serve: str = "fast", fill: bytes = b"x"
    ) -> SavedConversation | None:
        self.clock.advance(1)
        self.store.folder(serve)
        draft = self.store.draft(serve)
        draft.write_bytes(fill * size)
        return self.store.keep(draft, serve, conversation, size, size, self.clock.wall())

    def path(self, saved: SavedConversation | None) -> Path:
        assert saved is not None
        return self.root / saved.serve / saved.name

    def files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file()]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "state" / "conversations")


def test_what_is_saved_is_found_again_by_a_later_control_plane(shelf: Shelf) -> None:
    saved = shelf.save(A)
    assert saved is not None
    later = shelf.open()
    found = later.find("fast", A)
    assert found == saved
    assert later.prove(found)
    assert later.find("fast", B) is None
    assert later.find("other", A) is None


def test_only_its_owner_can_look_into_it(shelf: Shelf) -> None:
    before = os.umask(0)
    try:
        saved = shelf.save(A)
        draft = shelf.store.draft("fast")
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (shelf.path(saved), draft)}
    assert set(modes.values()) == {0o600}
    folders = (shelf.root, shelf.root / "fast")
    assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o700, 0o700]


def test_a_directory_that_others_could_look_into_is_closed(shelf: Shelf) -> None:
    (shelf.root / "fast").mkdir(parents=True)
    for path in (shelf.root, shelf.root / "fast"):
        path.chmod(0o755)
    shelf.store.folder("fast")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (shelf.root, shelf.root / "fast")] == [0o700, 0o700]


def test_a_link_in_the_directorys_place_is_not_followed(shelf: Shelf, tmp_path: Path) -> None:
    shelf.root.mkdir(parents=True)
    (shelf.root / "fast").symlink_to(tmp_path)
    with pytest.raises(OSError, match="move it away"):
        shelf.store.folder("fast")


def test_the_longest_unused_goes_when_the_budget_is_reached(shelf: Shelf) -> None:
    first, second = shelf.save(A, 400), shelf.save(B, 400)
    assert first is not None
    shelf.clock.advance(1)
    shelf.store.touch(first)
    shelf.save(C, 400)
    assert [bool(shelf.store.find("fast", name)) for name in (A, B, C)] == [True, False, True]
    assert not shelf.path(second).exists()
    assert shelf.store.size == 800


def test_a_use_counts_for_a_later_control_plane_too(shelf: Shelf) -> None:
    first = shelf.save(A, 400)
    shelf.save(B, 400)
    assert first is not None
    shelf.clock.advance(1)
    shelf.store.touch(first)
    later = shelf.open(budget=500)
    assert [bool(later.find("fast", name)) for name in (A, B)] == [True, False]


def test_what_is_larger_than_the_budget_is_not_kept_and_drives_nobody_out(shelf: Shelf) -> None:
    shelf.save(A, 400)
    assert shelf.save(B, 1001) is None
    assert [path.name[:32] for path in shelf.files()] == [A]


def test_a_smaller_budget_holds_at_once(shelf: Shelf) -> None:
    shelf.save(A, 400)
    shelf.save(B, 400)
    shelf.store.change(500, HOUR)
    assert [path.name[:32] for path in shelf.files()] == [B]
    shelf.open(budget=100)
    assert shelf.files() == [], "also when Stoker was restarted with it"


def test_what_is_too_old_is_not_found_and_goes_at_the_next_look(shelf: Shelf) -> None:
    shelf.save(A)
    assert shelf.store.due() == HOUR
    shelf.clock.advance(HOUR - 1)
    saved = shelf.store.find("fast", A)
    assert saved is not None
    shelf.clock.advance(1)
    assert shelf.store.find("fast", A) is None
    assert shelf.store.due() == 0
    assert shelf.path(saved).exists()
    shelf.store.sweep()
    assert not shelf.path(saved).exists()
    assert shelf.store.due() is None


def test_a_later_save_takes_the_place_of_the_earlier_one(shelf: Shelf) -> None:
    earlier = shelf.save(A, 100)
    later = shelf.save(A, 200)
    assert shelf.files() == [shelf.path(later)]
    assert earlier is not None
    draft = shelf.store.draft("fast")
    draft.write_bytes(b"y" * 50)
    assert shelf.store.keep(draft, "fast", A, 50, 50, earlier.used) is None, "done late, it is not the later one"
    assert shelf.files() == [shelf.path(later)]


def test_an_end_between_the_new_file_and_the_removal_of_the_old_one_leaves_the_new_one(shelf: Shelf) -> None:
    earlier = shelf.save(A, 100)
    kept = shelf.path(earlier).read_bytes()
    later = shelf.save(A, 200)
    shelf.path(earlier).write_bytes(kept)
    shelf.path(earlier).chmod(0o600)
    assert earlier is not None
    os.utime(shelf.path(earlier), (earlier.used, earlier.used))
    assert shelf.open().find("fast", A) == later
    assert shelf.files() == [shelf.path(later)]


def _cut(path: Path) -> None:
    os.truncate(path, 60)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)


def _replace(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("spoil", [_cut, _flip, _replace, Path.unlink])
@pytest.mark.parametrize("is_later", [False, True])
def test_what_was_changed_on_disk_is_removed_instead_of_used(
    shelf: Shelf, spoil: Callable[[Path], None], is_later: bool
) -> None:
    saved = shelf.save(A)
    assert saved is not None
    store = shelf.open() if is_later else shelf.store
    spoil(shelf.path(saved))
    assert not store.prove(saved)
    assert store.find("fast", A) is None
    assert not os.path.lexists(shelf.path(saved))


def test_a_file_that_is_given_another_conversations_name_is_not_used(shelf: Shelf) -> None:
    saved = shelf.save(A)
    assert saved is not None
    shelf.path(saved).rename(shelf.path(saved).with_name(saved.name.replace(A, B)))
    later = shelf.open()
    found = later.find("fast", B)
    assert found is not None
    assert not later.prove(found)


def test_a_file_that_is_moved_to_another_serve_is_not_used(shelf: Shelf) -> None:
    saved = shelf.save(A)
    assert saved is not None
    shelf.store.folder("other")
    shelf.path(saved).rename(shelf.root / "other" / saved.name)
    later = shelf.open()
    found = later.find("other", A)
    assert found is not None
    assert not later.prove(found)


def test_what_another_key_signed_is_not_used(shelf: Shelf) -> None:
    saved = shelf.save(A)
    assert saved is not None
    assert not shelf.open(secret=b"1" * 32).prove(saved)


def test_a_half_written_file_is_never_one_of_ours(shelf: Shelf) -> None:
    shelf.store.folder("fast")
    shelf.store.draft("fast").write_bytes(b"half")
    later = shelf.open()
    assert later.files == 0
    assert shelf.files() == []
    draft = later.draft("fast")
    later.folder("fast")
    assert shelf.files() == [draft], "somebody is about to finish it"
    later.discard(draft)
    draft.write_bytes(b"half")
    later.folder("fast")
    assert shelf.files() == [], "nor what an engine wrote after we gave it up"


@pytest.mark.parametrize("said", [99, 101, 0])
def test_what_is_not_as_long_as_the_engine_says_is_not_kept(shelf: Shelf, said: int) -> None:
    shelf.store.folder("fast")
    draft = shelf.store.draft("fast")
    draft.write_bytes(b"x" * (100 if said else 0))
    assert shelf.store.keep(draft, "fast", A, 1, said, 0.0) is None
    assert shelf.files() == []


def test_what_is_not_ours_is_left_alone_and_not_used(shelf: Shelf) -> None:
    saved = shelf.save(A)
    assert saved is not None
    folder = shelf.root / "fast"
    open_to_all = folder / saved.name.replace(A, B)
    open_to_all.write_bytes(b"x")
    open_to_all.chmod(0o644)
    os.utime(open_to_all, (saved.used, saved.used))
    link = folder / saved.name.replace(A, C)
    link.symlink_to(shelf.path(saved))
    others = [folder / "notes.txt", folder / f"{A}.kv", shelf.root / "loose.part"]
    for path in others:
        path.write_text("mine")
    (folder / "deeper").mkdir()
    later = shelf.open()
    assert later.files == 1
    later.drop("fast")
    assert all(path.exists() for path in (*others, folder / "deeper"))
    assert not shelf.path(saved).exists()


def test_unloading_removes_everything_of_that_serve_and_of_no_other(shelf: Shelf) -> None:
    shelf.save(A)
    shelf.store.draft("fast")
    other = shelf.save(A, serve="other")
    shelf.store.drop("fast")
    assert shelf.files() == [shelf.path(other)]
    assert not (shelf.root / "fast").exists()
    assert shelf.store.find("fast", A) is None


def test_what_a_serve_kept_goes_when_it_keeps_none_any_more(shelf: Shelf) -> None:
    shelf.save(A)
    other = shelf.save(A, serve="other")
    shelf.store.drop_all_but(["other", "new"])
    assert shelf.files() == [shelf.path(other)]


def test_a_name_on_disk_tells_nothing(shelf: Shelf) -> None:
    saved = shelf.save(A)
    assert saved is not None
    assert set(saved.name) <= set("0123456789abcdef-.kv")
