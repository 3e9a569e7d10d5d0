"""The directory of saved conversations: `STATE/conversations/SERVE/`, 0700, files 0600.

A file's name says everything about it: whose and which conversation it is (a keyed hash), how many tokens, and a keyed
digest over that and its content. It gets that name when it is whole, by rename: what is cut off on the way keeps the
name of a draft, which is never read. A file that was changed since has another digest, and is removed instead of read:
an engine that is given half a file ends, with everything that runs on it. The index is rebuilt from the names.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_NAME = re.compile(r"(?P<conversation>[0-9a-f]{32})-(?P<tokens>\d{1,9})-(?P<digest>[0-9a-f]{32})\.kv")
_DRAFT = re.compile(r"[0-9a-f]{32}\.part")
_CHUNK = 2**20
_Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SavedConversation:
    """One conversation on disk. `used`: Unix time of its last use."""

    serve: str
    conversation: str
    tokens: int
    digest: str
    size: int
    used: float

    @property
    def name(self) -> str:
        return f"{self.conversation}-{self.tokens}-{self.digest}.kv"


class ConversationStore:
    """Every method may be called in any thread; `keep` and `prove` read a whole file, and want one of their own."""

    def __init__(
        self,
        root: Path,
        budget: int,
        age: float,
        secret: Callable[[], bytes],
        wall: Callable[[], float],
        log: logging.Logger,
    ) -> None:
        """`budget` in bytes, `age` in seconds since the last use. Reads the directory."""
        self._root = root
        self._budget = budget
        self._age = age
        self._secret = secret
        self._wall = wall
        self._log = log
        self._lock = threading.RLock()
        self._index: dict[tuple[str, str], SavedConversation] = {}
        self._drafts: set[str] = set()
        self._proved: dict[str, _Signature] = {}
        """Name to what the file looked like when its digest was last seen to be right."""
        self._load()

    # -- questions -------------------------------------------------------------------------------------------------

    @property
    def files(self) -> int:
        return len(self._index)

    @property
    def size(self) -> int:
        """Bytes. Takes no lock: /status asks in the loop's thread, and the lock is held while files are removed."""
        return sum(saved.size for saved in list(self._index.values()))

    def find(self, serve: str, conversation: str) -> SavedConversation | None:
        """What is saved of it, unless it is too old."""
        saved = self._index.get((serve, conversation))
        return saved if saved is not None and not self._is_old(saved) else None

    def due(self) -> float | None:
        """Seconds until the next one is too old; None: there are none."""
        with self._lock:
            oldest = min((saved.used for saved in self._index.values()), default=None)
        return None if oldest is None else max(0.0, oldest + self._age - self._wall())

    # -- saving ----------------------------------------------------------------------------------------------------

    def folder(self, serve: str) -> Path:
        """The serve's own private directory, without abandoned drafts. Raises OSError."""
        _make_private(self._root)
        folder = self._root / serve
        _make_private(folder)
        for path in folder.iterdir():
            if _DRAFT.fullmatch(path.name) and path.name not in self._drafts:
                self.discard(path)
        return folder

    def draft(self, serve: str) -> Path:
        """An empty 0600 file for the engine to write into: it would make one that others can read. Raises OSError."""
        path = self._root / serve / f"{secrets.token_hex(16)}.part"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self._drafts.add(path.name)
        return path

    def discard(self, draft: Path) -> None:
        """Raises nothing: what cannot be deleted now is deleted at the next start."""
        self._drafts.discard(draft.name)
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)

    def keep(
        self, draft: Path, serve: str, conversation: str, tokens: int, size: int, used: float
    ) -> SavedConversation | None:
        """Replace what was saved before by a draft that the engine reports as finished, with `size` bytes.

        None, and the draft is deleted: its size is not what the engine reported, it exceeds the budget, or the disk
        failed.
        """
        try:
            found = draft.stat().st_size
            if found != size or not size:
                raise OSError(None, f"the engine wrote {found} bytes and reported {size}")
            if size > self._budget:
                raise OSError(None, f"{size} bytes are more than the budget of {self._budget}")
            saved = SavedConversation(serve, conversation, tokens, self._digest(draft, serve, conversation), size, used)
            path = self._path(saved)
            with self._lock:
                earlier = self._index.get((serve, conversation))
                if earlier is not None and earlier.used > used:
                    raise OSError(None, "a later save finished first")
                os.chmod(draft, 0o600)
                os.utime(draft, (used, used))
                draft.rename(path)
                self._drafts.discard(draft.name)
                self._proved[saved.name] = _signature(path)
                if earlier is not None and earlier.name != saved.name:
                    self.remove(earlier)
                self._index[serve, conversation] = saved
                self._make_room()
        except OSError as error:
            self.discard(draft)
            self._log.warning("a conversation of serve %s was not saved: %s", serve, error.strerror)
            return None
        return saved

    # -- use -------------------------------------------------------------------------------------------------------

    def prove(self, saved: SavedConversation) -> bool:
        """Whether its file is unchanged; if not, it is removed. Quick if it was not touched since it was written."""
        path = self._path(saved)
        try:
            signature = _signature(path)
            if self._proved.get(saved.name) == signature:
                return True
            is_right = self._digest(path, saved.serve, saved.conversation) == saved.digest
            if is_right and _signature(path) == signature:
                self._proved[saved.name] = signature
                return True
        except OSError as error:
            self._log.warning("a saved conversation of serve %s cannot be read: %s", saved.serve, error.strerror)
        else:
            self._log.warning("a saved conversation of serve %s was changed on disk: it is not used", saved.serve)
        self.remove(saved)
        return False

    def touch(self, saved: SavedConversation) -> None:
        """It was used now."""
        with self._lock, contextlib.suppress(OSError):
            if self._index.get((saved.serve, saved.conversation)) != saved:
                return
            now = self._wall()
            os.utime(self._path(saved), (now, now))
            if saved.name in self._proved:
                self._proved[saved.name] = _signature(self._path(saved))
            self._index[saved.serve, saved.conversation] = replace(saved, used=now)

    # -- removal ---------------------------------------------------------------------------------------------------

    def remove(self, saved: SavedConversation) -> None:
        """Raises nothing; a file that cannot be deleted is not used any more, and is found again at the next start."""
        with self._lock:
            if (found := self._index.get((saved.serve, saved.conversation))) and found.name == saved.name:
                del self._index[saved.serve, saved.conversation]
            self._proved.pop(saved.name, None)
            try:
                self._path(saved).unlink(missing_ok=True)
            except OSError as error:
                self._log.error(
                    "%s cannot be deleted (%s): delete it yourself, it holds prompts", self._path(saved), error.strerror
                )

    def drop(self, serve: str) -> None:
        """Everything that is saved for it, and its directory."""
        with self._lock:
            for saved in [saved for saved in self._index.values() if saved.serve == serve]:
                self.remove(saved)
            folder = self._root / serve
            with contextlib.suppress(OSError):
                for path in list(folder.iterdir()):
                    if _NAME.fullmatch(path.name) or _DRAFT.fullmatch(path.name):
                        self.discard(path)
                folder.rmdir()  # fails, and stays, if it holds other files

    def drop_all_but(self, serves: Iterable[str]) -> None:
        """Delete the conversations of serves that no longer save any."""
        wanted = frozenset(serves)
        for folder in self._folders():
            if folder.name not in wanted:
                self.drop(folder.name)

    def change(self, budget: int, age: float) -> None:
        """New bounds; they hold when this returns."""
        with self._lock:
            self._budget, self._age = budget, age
            self.sweep()

    def sweep(self) -> None:
        """Remove what is too old, and what is too much."""
        with self._lock:
            for saved in [saved for saved in self._index.values() if self._is_old(saved)]:
                self.remove(saved)
            self._make_room()

    # -- small things ----------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        left = self.size
        for saved in sorted(self._index.values(), key=lambda saved: saved.used):
            if left <= self._budget:
                return
            self.remove(saved)
            left -= saved.size

    def _is_old(self, saved: SavedConversation) -> bool:
        return self._wall() - saved.used >= self._age

    def _path(self, saved: SavedConversation) -> Path:
        return self._root / saved.serve / saved.name

    def _digest(self, path: Path, serve: str, conversation: str) -> str:
        digest = hashlib.blake2b(digest_size=16, key=self._secret())
        digest.update(f"{len(serve)}:{serve}{conversation}".encode())
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def _load(self) -> None:
        """Ignores files that are not Stoker's by their name, owner or mode."""
        for folder in self._folders():
            with contextlib.suppress(OSError):
                for path in list(folder.iterdir()):
                    self._read(folder.name, path)
        self.sweep()

    def _read(self, serve: str, path: Path) -> None:
        if _DRAFT.fullmatch(path.name):
            self.discard(path)
            return
        name, found = _NAME.fullmatch(path.name), path.lstat()
        if name is None or not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return
        conversation = name["conversation"]
        saved = SavedConversation(
            serve, conversation, int(name["tokens"]), name["digest"], found.st_size, found.st_mtime
        )
        earlier = self._index.get((serve, conversation))
        if earlier is not None:  # we were ended between the new one and the removal of the old one
            older, saved = sorted((earlier, saved), key=lambda one: one.used)
            self.remove(older)
        self._index[serve, conversation] = saved

    def _folders(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            yield from [path for path in self._root.iterdir() if path.is_dir() and not path.is_symlink()]


def _make_private(path: Path) -> None:
    """Make a private directory of this user. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(None, f"{path} is not a directory of user {os.geteuid()}: move it away")
    if found.st_mode & 0o077:
        path.chmod(0o700)


def _signature(path: Path) -> _Signature:
    found = path.lstat()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
