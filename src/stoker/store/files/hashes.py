"""The SHA-256 of files, remembered: 40 GB of weights are read once, not at every start."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from stoker.store.files import atomic


class HashedFile(msgspec.Struct, frozen=True):
    """A file as it was when it was hashed."""

    size: int
    mtime_ns: int
    inode: int
    sha256: str


class HashCache:
    """The hashes in `STATE/hashes.json`. A hash counts while its file has the same size, time of change and inode.

    A cache that is lost or broken costs time only. Several programs may share it: it is read again when another one
    has changed it. One object belongs to one thread.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / "hashes.json"
        self._hashed: dict[str, HashedFile] = {}
        self._loaded: tuple[int, int, int] | None = None
        """Size, time and inode of the cache file when it was read."""

    def lookup(self, path: Path) -> str | None:
        """The hex digest of a file that was hashed before and has not changed since. Raises OSError for a file that
        does not exist.
        """
        found = self._load().get(str(path))
        if found is None or (found.size, found.mtime_ns, found.inode) != _identity(path):
            return None
        return found.sha256

    def measure(self, path: Path, hash_file: Callable[[Path], str]) -> tuple[str, bool]:
        """The digest by `hash_file`, and whether the file stayed the same meanwhile. Any thread may call this one.
        Raises OSError.
        """
        before = _identity(path)
        digest = hash_file(path)
        return digest, _identity(path) == before

    def remember(self, path: Path, digest: str) -> None:
        """Store the digest of `path` as the file is now, and forget files that are gone. Raises OSError if `path` is
        gone, too; a cache that cannot be written is no error.
        """
        hashed = self._load()
        hashed[str(path)] = HashedFile(*_identity(path), digest)
        present = {name: each for name, each in hashed.items() if os.path.exists(name)}
        with contextlib.suppress(OSError):
            atomic.write(
                self._path,
                msgspec.json.format(msgspec.json.encode(present), indent=1),
                is_synced=False,
                make_parents=True,
            )

    def hash_all(self, paths: Iterable[Path]) -> dict[str, str]:
        """Path to hex digest, without the files that cannot be read. A new gigabyte takes about a second; blocks."""
        found = {}
        for path in paths:
            with contextlib.suppress(OSError):
                digest = self.lookup(path)
                if digest is None:
                    digest, is_steady = self.measure(path, _sha256)
                    if is_steady:
                        self.remember(path, digest)
                found[str(path)] = digest
        return found

    def _load(self) -> dict[str, HashedFile]:
        try:
            now = _identity(self._path)
            if now != self._loaded:
                self._hashed = msgspec.json.decode(self._path.read_bytes(), type=dict[str, HashedFile])
                self._loaded = now
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            pass  # go on with what is known
        return self._hashed


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino
