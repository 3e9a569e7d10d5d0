"""A copy of an ingress's configuration that includes a candidate instead of the upstream file.

Only the files on the way from the main configuration to the upstream file are copied, each beside its original, hidden:
so paths within them stay right. The originals are not touched. Whatever this does not understand, the ingress's own
validation of the copy does.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path, PurePath

from stoker_edge.edge import EdgeIngress, IngressKind
from stoker_edge.problem import EdgeProblem

SUFFIX = ".stoker-check"
_PASSED_OVER = r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_INCLUDE = {
    IngressKind.NGINX: re.compile(rf"""{_PASSED_OVER}|\binclude\s+(?P<path>"[^"]*"|'[^']*'|[^\s;]+)\s*;"""),
    IngressKind.CADDY: re.compile(r"""#[^\n]*|^[ \t]*import[ \t]+(?P<path>"[^"]*"|[^\s"]+)[ \t]*$""", re.MULTILINE),
}
DEEPEST = 8
LEFTOVER_AGE = 300.0
"""Seconds; another edge may be validating right now."""


class ConfigCopy:
    """Finds the way to the upstream file once; `written` puts the copies on disk for as long as its block runs."""

    def __init__(self, name: str, ingress: EdgeIngress) -> None:
        self._name = name
        self._ingress = ingress
        self._main = Path(ingress.config)
        self._upstream = Path(ingress.upstream_file)
        self._token = secrets.token_hex(4)

    @contextlib.contextmanager
    def written(self, candidate: str) -> Iterator[Path]:
        """The main configuration's copy. Raises EdgeProblem: no file includes the upstream file, or a copy cannot be
        written.
        """
        made: list[Path] = []
        try:
            try:
                self._remove_leftovers()
                mine = self._upstream.with_name(f".{self._upstream.name}.{self._token}{SUFFIX}")
                made.append(mine)
                mine.write_text(candidate, encoding="utf-8")
                copy = self._copied(self._main, mine, made, 0)
            except (OSError, UnicodeDecodeError) as error:
                path = getattr(error, "filename", None) or self._main
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                text = f"edge '{self._name}': the candidate cannot be validated: {path}: {reason}; run it with `sudo`?"
                raise EdgeProblem(text, code="cannot_validate") from error
            if copy is None:
                raise EdgeProblem(self._not_included(), code="not_included")
            yield copy
        finally:
            for path in made:
                path.unlink(missing_ok=True)

    def _copied(self, path: Path, candidate: Path, made: list[Path], depth: int) -> Path | None:
        """A copy of `path` that leads to the candidate; None: `path` does not lead to the upstream file."""
        if depth > DEEPEST:
            return None
        text = path.read_text(encoding="utf-8")
        pieces: list[str] = []
        end, leads_there = 0, False
        for found in _INCLUDE[self._ingress.kind].finditer(text):
            if found["path"] is None:
                continue
            replaced = self._replacement(found["path"].strip("\"'"), path, candidate, made, depth)
            if replaced is not None:
                leads_there = True
                pieces += [text[end : found.start()], replaced]
                end = found.end()
        if not leads_there:
            return None
        copy = path.with_name(f".{path.name}.{self._token}{SUFFIX}")
        made.append(copy)
        copy.write_text("".join((*pieces, text[end:])), encoding="utf-8")
        return copy

    def _replacement(self, pattern: str, path: Path, candidate: Path, made: list[Path], depth: int) -> str | None:
        """What stands instead of one include; None: it does not lead to the upstream file."""
        files: list[Path] = []
        leads_there = False
        for file in self._matches(pattern, path):
            if os.path.realpath(file) == os.path.realpath(self._upstream):
                leads_there = True
                files.append(candidate)
                continue
            copy = self._copied(file, candidate, made, depth + 1)
            leads_there = leads_there or copy is not None
            files.append(copy or file)
        if not leads_there:
            return None
        if self._ingress.kind is IngressKind.NGINX:
            return "".join(f'include "{file}"; ' for file in files)
        return "\n".join(f"import {file}" for file in files)

    def _matches(self, pattern: str, path: Path) -> list[Path]:
        """nginx: relative to the main configuration. Caddy: relative to the file itself."""
        directory = (self._main if self._ingress.kind is IngressKind.NGINX else path).parent
        full = os.path.normpath(directory / pattern)
        found = sorted(glob.glob(full))
        upstream = os.path.normpath(self._upstream)
        if upstream not in found and PurePath(upstream).match(full):
            found.append(upstream)  # it is not written yet
        return [Path(one) for one in found if os.path.isfile(one) or one == upstream]

    def _not_included(self) -> str:
        if self._ingress.kind is IngressKind.NGINX:
            advice = f"add `include {self._upstream};` to its `http` block"
        else:
            advice = f"add `import {self._upstream}` at its top"
        return (
            f"edge '{self._name}': {self._main} does not include {self._upstream}, so the ingress would not notice a "
            f"change: {advice}"
        )

    def _remove_leftovers(self) -> None:
        """Of a run that was killed while it validated."""
        for directory in {self._main.parent, self._upstream.parent}:
            for path in directory.glob(f".*{SUFFIX}"):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > LEFTOVER_AGE:
                        path.unlink()
