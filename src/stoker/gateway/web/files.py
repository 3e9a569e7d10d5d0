"""The page's files: read from the package when first asked for, and then kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stoker.domain.errors import ClientError

PREFIX = "/ui/"
_PACKAGE = Path(__file__).parents[2]
_DOCS = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")
"""Where the pages of the documentation are: in a release, in a checkout."""
INDEX = "index.html"
_KINDS = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "md": b"text/markdown; charset=utf-8",
}
"""Other files are not sent."""
SECURITY = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"media-src blob:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        b"trusted-types 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
Headers = list[tuple[bytes, bytes]]


class PageReply(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class _File(NamedTuple):
    body: bytes
    headers: Headers
    etag: bytes


class PageFiles:
    """Only names that were there at the start are ever opened: of the page, and of the documentation."""

    def __init__(self) -> None:
        docs = next((folder for folder in _DOCS if (folder / "get-started.md").is_file()), None)
        found = _listed(Path(__file__).with_name("static"), "")
        if docs is not None:
            found += [one for one in _listed(docs, "docs/") if one[0].endswith(".md")]
        self._found: dict[str, Path] = {PREFIX + name: file for name, file in found}
        self._found[PREFIX] = self._found[PREFIX + INDEX]
        self._read: dict[str, _File] = {}

    @property
    def paths(self) -> list[str]:
        """Every path that has a file."""
        return list(self._found)

    def reply(self, path: str, headers: Mapping[bytes, bytes]) -> PageReply:
        """The file, or 304 if the client has it already. Raises ClientError 404; OSError if it cannot be read."""
        file = self._read.get(path) or self._open(path)
        if file.etag in (tag.strip() for tag in headers.get(b"if-none-match", b"").split(b",")):
            return PageReply(304, file.headers, b"")
        return PageReply(200, file.headers, file.body)

    def _open(self, path: str) -> _File:
        found = self._found.get(path)
        if found is None:
            raise ClientError(f"the web page has no {path[:200]!r}; it is at {PREFIX}", code="no_route", status=404)
        body = found.read_bytes()
        etag = b'"%s"' % hashlib.blake2b(body, digest_size=12).hexdigest().encode()
        kind = _KINDS[found.name.rpartition(".")[2]]
        kept = (b"cache-control", b"no-cache")  # the browser asks each time, and mostly hears 304
        file = self._read[path] = _File(body, [(b"content-type", kind), (b"etag", etag), kept, *SECURITY], etag)
        return file


def _listed(folder: Path, before: str) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _listed(entry, f"{before}{entry.name}/")
        elif entry.name.rpartition(".")[2] in _KINDS:
            found.append((before + entry.name, entry))
    return found
