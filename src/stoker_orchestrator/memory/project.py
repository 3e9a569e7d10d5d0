"""The files of a project: only validated blocks get there, and only into the project's directory.

A new file grows with each block that passes. A file that was there before is replaced when the request is complete, so
that a request that fails leaves it as it was. A file is only replaced if nobody changed it since it was read: by the
client, which says so, or by Stoker, which wrote it last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from stoker.domain.errors import ClientError, StokerError
from stoker.store.files import atomic
from stoker.store.files.remedies import remedy
from stoker_orchestrator.loop.blocks import WorkerBlock, file_text
from stoker_orchestrator.memory import records

_PRIVATE = (".stoker", ".git")
STATE = "state.md"


class ProjectFiles:
    """Of one request. Everything blocks, and raises StokerError."""

    def __init__(self, directory: Path, request: str, read: Mapping[str, str]) -> None:
        """`read`: SHA-256 of the files that the client read before it asked, by path."""
        self._directory = directory
        self._request = request
        self._expected: dict[str, str | None] = dict(read)
        """What each file has to be before it is written: its hash; None: it must not be there."""
        self._texts: dict[str, list[str]] = {}
        self._existed: set[str] = set()

    def commit(self, number: int, block: WorkerBlock) -> None:
        """Add a block that passed. Raises ClientError `path_outside_project`, and StokerError `project_conflict` or
        `project_unusable`; nothing of this block is written then.
        """
        with self._locked():
            path = block.path
            if path:
                target = project_path(self._directory, path)
                if path not in self._texts:
                    self._first(path, target)
                texts = [*self._texts.get(path, ()), block.text]
                self._check(path, target)
                if path not in self._existed:
                    self._write(path, target, texts)
                self._texts[path] = texts
            self._note(number, block)

    def finish(self) -> None:
        """Every block has passed: replace the files that were there before."""
        with self._locked():
            for path in sorted(self._existed):
                target = project_path(self._directory, path)
                self._check(path, target)
                self._write(path, target, self._texts[path])

    def _first(self, path: str, target: Path) -> None:
        if target.exists():
            self._existed.add(path)
            found = _hash_of(target)
            if found in self._written_before(path):
                self._expected.setdefault(path, found)
            elif path not in self._expected:
                raise _conflict(path, "it is there, but the request did not read it")
        else:
            self._expected[path] = None

    def _check(self, path: str, target: Path) -> None:
        if _hash_of(target) != self._expected[path]:
            raise _conflict(path, "it changed since it was read")

    def _write(self, path: str, target: Path, texts: list[str]) -> None:
        content = file_text(texts).encode()
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        digest = hashlib.sha256(content).hexdigest()
        facts = {"kind": "file", "path": path, "sha256": digest, "request": self._request}
        records.append(self._state, facts, f"Writing `{path}` ({len(content)} bytes).\n\n")  # a crash may follow
        _make_parents(self._directory, target)
        atomic.write(target, content, mode)
        self._expected[path] = digest

    def _note(self, number: int, block: WorkerBlock) -> None:
        fence = "```"
        while fence in block.text:
            fence += "`"
        where = f" of `{block.path}`" if block.path else ""
        text = (
            f"## Block {number}{where}\n\n{fence}{block.fence}\n{block.text}{fence}\n\n"
            if block.is_code
            else block.text
        )
        records.append(self._state, {"kind": "block", "number": number, "request": self._request}, text)

    def _written_before(self, path: str) -> set[str]:
        """The hashes of what Stoker wrote, or was about to write, to a file."""
        try:
            found = records.read(self._state)
        except FileNotFoundError:
            return set()
        return {str(facts.get("sha256")) for facts, _ in found if facts.get("path") == path}

    @property
    def _state(self) -> Path:
        return self._directory / ".stoker" / STATE

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One commit at a time for each project, whichever process makes it."""
        private = self._directory / ".stoker"
        try:
            private.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(private / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if self._state.exists():
                    records.repair(self._state)
                yield
            finally:
                os.close(handle)
        except OSError as error:
            reason = error.strerror or str(error)
            text = f"the project {self._directory} cannot be written ({reason}): {remedy(error, self._directory)}"
            raise StokerError(text, code="project_unusable", status=503) from error


def project_path(directory: Path, path: str) -> Path:
    """Where a file of the project is. Raises ClientError `path_outside_project`: the path is absolute, begins with
    `~`, has `..` or a link in it, or leads into `.stoker` or `.git`.
    """
    pure = PurePosixPath(path)
    rule = ""
    if pure.is_absolute() or path.startswith("~") or "\\" in path or ":" in path.partition("/")[0]:
        rule = "it must be relative to the project"
    elif ".." in pure.parts:
        rule = "it must not contain '..'"
    elif not pure.parts or any(not part.isprintable() for part in pure.parts) or len(path) > 200:
        rule = "it is not the name of a file"
    elif pure.parts[0] in _PRIVATE:
        rule = f"{pure.parts[0]} is not for files of the answer"
    else:
        target = directory
        for part in pure.parts:
            target = target / part
            if target.is_symlink():
                rule = f"'{target.relative_to(directory)}' is a link"
                break
        else:
            if target.is_dir():
                rule = "it is a directory"
            else:
                return target
    text = f"a block names the file {path[:100]!r}, which may not be written: {rule}"
    raise ClientError(text, code="path_outside_project", status=422)


def _make_parents(directory: Path, target: Path) -> None:
    missing = [parent for parent in target.parents if parent != directory and directory in parent.parents]
    for parent in reversed(missing):
        parent.mkdir(mode=0o755, exist_ok=True)


def _hash_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _conflict(path: str, why: str) -> StokerError:
    text = f"'{path}' was not written: {why}. Give it with the request (`stoker run --file {path}`), or move it away"
    return StokerError(text, code="project_conflict", status=409)
