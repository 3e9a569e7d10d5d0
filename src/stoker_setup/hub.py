"""A client of the Hugging Face hub: what a repository holds, and parts of its files. Stoker's only one.

Endpoints: GET /api/models/ORG/REPO/revision/REV (the commit), GET /api/models/ORG/REPO/tree/COMMIT?recursive=true (the
files, in pages that `Link: <…>; rel="next"` joins), and GET /ORG/REPO/resolve/COMMIT/FILE, which redirects to where
large files lie and takes `Range`. HF_ENDPOINT names another hub; HF_TOKEN, else the file that the hub's own client
keeps, holds the token, which is sent to the hub alone and never named.

Everything here blocks: call it in a thread. It ends at once when `stop` is set.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPResponse
from io import SEEK_CUR, SEEK_SET
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from stoker.domain.errors import StokerError
from stoker.fleet.weights.copying import CopyStopped, SourceUnreadable
from stoker.fleet.weights.http_download import TRANSIENT, opened, reason_of

T = TypeVar("T")
ENDPOINT = "https://huggingface.co"
TRIES = 3
PAUSE = 1.0
"""Seconds before the second try; twice as long before the third."""
LONGEST_WAIT = 10.0
"""Seconds of `Retry-After` that are waited for; above, the caller is told."""
PAGE_LIMIT, MOST_PAGES = 32 * 2**20, 200
"""Bytes of one page of a listing, and pages."""
FIRST_BLOCK, LARGEST_BLOCK = 512 * 2**10, 8 * 2**20
_TRY_AGAIN = (408, 429, 500, 502, 503, 504)
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="next"')
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class HubRefused(StokerError):
    """The hub does not give what was asked for; the message says why, and what to do."""

    status = 502
    code = "hub_refused"


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a repository: its path there, its bytes, and its SHA-256 if the hub knows it; else empty."""

    path: str
    size: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository at one commit, so that all that is read of it fits together."""

    name: str
    """`ORG/REPO`."""
    commit: str
    files: tuple[HubFile, ...]

    def file(self, path: str) -> HubFile | None:
        return next((one for one in self.files if one.path == path), None)


class Hub:
    """`endpoint` without a slash at its end; `token`: None asks as anybody."""

    def __init__(self, endpoint: str = ENDPOINT, token: str | None = None, stop: threading.Event | None = None) -> None:
        self._endpoint = endpoint
        self._token = token
        self._stop = stop or threading.Event()

    @property
    def endpoint(self) -> str:
        return self._endpoint

    @classmethod
    def of(cls, environment: Mapping[str, str], stop: threading.Event | None = None) -> Hub:
        """As the environment says. Raises HubRefused for an HF_ENDPOINT that is no address."""
        endpoint = (environment.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        url = urlsplit(endpoint)
        if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc:
            raise HubRefused("HF_ENDPOINT is no address of a hub: write https://HOST, or unset it")
        token = (environment.get("HF_TOKEN") or "").strip() or _kept_token(environment)
        if token is not None and not (token.isascii() and token.isprintable()):
            raise HubRefused("HF_TOKEN is no token of the hub: copy it again from its settings page, or unset it")
        return cls(endpoint, token, stop)

    def repository(self, name: str, revision: str = "main") -> HubRepository:
        """What `ORG/REPO` holds now, by path. Raises HubRefused and CopyStopped."""
        api = f"{self._endpoint}/api/models/{quote(name)}"
        about = self._json(f"{api}/revision/{quote(revision, safe='')}", name)
        commit = about.get("sha") if isinstance(about, dict) else None
        if not isinstance(commit, str) or _COMMIT.fullmatch(commit) is None:
            raise self._odd(f"no commit of {name}")
        files: list[HubFile] = []
        page: str | None = f"{api}/tree/{commit}?recursive=true"
        for _ in range(MOST_PAGES):
            if page is None:
                break
            body, following = self._page(page, name)
            if not isinstance(body, list):
                raise self._odd(f"no list of the files of {name}")
            files += [file for entry in body if (file := _file(entry)) is not None]
            page = following
        return HubRepository(name, commit, tuple(sorted(files, key=lambda one: one.path)))

    def url(self, repository: HubRepository, path: str) -> str:
        """Where a file of it can be downloaded."""
        return f"{self._endpoint}/{quote(repository.name)}/resolve/{repository.commit}/{quote(path)}"

    def headers(self) -> dict[str, str]:
        """What to send along, to the hub alone: `opened` drops it where another host answers."""
        return {"authorization": f"Bearer {self._token}"} if self._token else {}

    def read(self, repository: HubRepository, path: str, begin: int, end: int) -> bytes:
        """The bytes from `begin` to before `end`; fewer where the file is shorter. Raises HubRefused, CopyStopped."""

        def take(answer: HTTPResponse) -> bytes:
            is_part = answer.status == HTTPStatus.PARTIAL_CONTENT
            if not is_part and begin:
                answer.read(begin)  # it sends all of it, so what comes before is passed over
            return answer.read(end - begin)

        return self._get(self.url(repository, path), repository.name, take, {"range": f"bytes={begin}-{end - 1}"}, path)

    def open(self, repository: HubRepository, file: HubFile) -> HubReader:
        """The file, to be read from its beginning on, as far as it is read."""
        return HubReader(self, repository, file)

    def _json(self, url: str, name: str) -> Any:
        return self._page(url, name)[0]

    def _page(self, url: str, name: str) -> tuple[Any, str | None]:
        """A document, and the address of the one that follows."""

        def take(answer: HTTPResponse) -> tuple[bytes, str]:
            return answer.read(PAGE_LIMIT + 1), answer.getheader("link") or ""

        body, link = self._get(url, name, take)
        if len(body) > PAGE_LIMIT:
            raise self._odd(f"a page of more than {PAGE_LIMIT >> 20} MiB")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            raise self._odd("no JSON") from None
        match = _NEXT.search(link)
        following = urljoin(url, match[1]) if match else None
        if following is not None and urlsplit(following)[:2] != urlsplit(self._endpoint)[:2]:  # it gets the token
            raise self._odd("a list that goes on at another host, or without encryption")
        return document, following

    def _get(
        self,
        url: str,
        name: str,
        take: Callable[[HTTPResponse], T],
        headers: Mapping[str, str] | None = None,
        path: str = "",
    ) -> T:
        """What `take` reads of the answer. What fails on the way, or at the hub, is tried TRIES times."""
        host = urlsplit(url).hostname
        for turn in range(1, TRIES + 1):
            pause, why = PAUSE * 2 ** (turn - 1), ""
            try:
                with opened(url, {**self.headers(), **(headers or {})}, self._stop) as answer:
                    if answer.status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                        return take(answer)
                    if answer.status not in _TRY_AGAIN:
                        raise self._refused(answer, name, path)
                    why = f"answers {answer.status} {answer.reason}"
                    asked = answer.getheader("retry-after") or ""
                    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                        pause = float(asked) if asked.isdigit() else pause
                        if pause > LONGEST_WAIT or turn == TRIES:
                            raise self._too_many(host, asked)
            except SourceUnreadable as error:
                raise HubRefused(f"{host} cannot be asked: {error}; correct HF_ENDPOINT, or the proxy") from error
            except TRANSIENT as error:
                why = reason_of(error)
            if turn < TRIES and self._stop.wait(pause):
                raise CopyStopped
        raise HubRefused(
            f"{host} cannot be asked ({why}, {TRIES} times): see whether this machine reaches it, then try again"
        )

    def _refused(self, answer: HTTPResponse, name: str, path: str) -> HubRefused:
        """Why this status, by the hub's own word where it sends one, and what to do."""
        code = answer.getheader("x-error-code") or ""
        host, has_token = urlsplit(self._endpoint).hostname, self._token is not None
        page = f"{self._endpoint}/{name}"
        if code == "GatedRepo" or (answer.status == HTTPStatus.FORBIDDEN and not code):
            login = "" if has_token else ", then set HF_TOKEN"
            return HubRefused(f"{name} is given only to those who accepted its terms: open {page}, accept them{login}")
        if code == "EntryNotFound" and path:
            return HubRefused(f"{name} has no file {path}: correct its name; {page}/tree/main shows those that it has")
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND):
            login = "use an HF_TOKEN that may read it" if has_token else "set HF_TOKEN"
            return HubRefused(f"{host} has no repository {name}, or it is private: correct the name, or {login}")
        return HubRefused(f"{host} answers {answer.status} {answer.reason} about {name}: open {page} to see why")

    def _too_many(self, host: str | None, asked: str) -> HubRefused:
        when = f"in {asked} s" if asked.isdigit() else "in a few minutes"
        login = "" if self._token else ", or set HF_TOKEN, with which it allows more"
        return HubRefused(f"{host} takes no more requests from here for now (429): try again {when}{login}")

    def _odd(self, what: str) -> HubRefused:
        host = urlsplit(self._endpoint).hostname
        return HubRefused(f"{host} answers with {what}: if HF_ENDPOINT is set, see whether it names a hub")


class HubReader:
    """A file of a repository as far as it is read, forward only: `read`, `seek` and `tell` of a binary file.

    It asks for blocks that grow, so that a header of any length costs few requests and little more than its bytes.
    """

    def __init__(self, hub: Hub, repository: HubRepository, file: HubFile) -> None:
        self._hub, self._repository, self._file = hub, repository, file
        self._block = b""
        self._begin = 0
        """Where in the file the block begins."""
        self._at = 0
        self._next_size = FIRST_BLOCK

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._at = self._at + offset if whence == SEEK_CUR else offset
        return self._at

    def read(self, size: int) -> bytes:
        """Raises HubRefused and CopyStopped."""
        pieces, left = [], max(0, min(size, self._file.size - self._at))
        while left:
            inside = self._at - self._begin
            if not 0 <= inside < len(self._block):
                self._load()
                inside = 0
                if not self._block:
                    break
            piece = self._block[inside : inside + left]
            pieces.append(piece)
            self._at += len(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _load(self) -> None:
        end = min(self._at + self._next_size, self._file.size)
        self._block = self._hub.read(self._repository, self._file.path, self._at, end)
        self._begin = self._at
        self._next_size = min(2 * self._next_size, LARGEST_BLOCK)


def _file(entry: object) -> HubFile | None:
    """A line of a listing; None: a folder, a name that no file should have, or nothing that is understood."""
    if not isinstance(entry, dict) or entry.get("type") != "file":
        return None
    path = entry.get("path")
    if not isinstance(path, str) or not path.isprintable():
        return None
    lfs = entry.get("lfs")
    large: Mapping[str, object] = lfs if isinstance(lfs, dict) else {}
    size, digest = large.get("size", entry.get("size")), large.get("oid")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return None
    is_digest = isinstance(digest, str) and _SHA256.fullmatch(digest) is not None
    return HubFile(path, size, str(digest) if is_digest else "")


def _kept_token(environment: Mapping[str, str]) -> str | None:
    """The token that `hf auth login` kept."""
    home = environment.get("HF_HOME") or f"{environment.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    path = Path(environment.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None
