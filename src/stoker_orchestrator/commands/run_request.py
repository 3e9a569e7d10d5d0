"""What `stoker run` sends, and where it is kept so that it can be sent again."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from stoker.cli.console.errors import UsageError

MAX_FILE = 2**20
"""Bytes of one `--file`."""
POLICY, FILES, PROJECT, RESUME = "x-stoker-policy", "x-stoker-read-files", "x-stoker-project", "x-stoker-resume"


class SavedRequest(msgspec.Struct, frozen=True):
    """A request of `stoker run`: STATE/orchestrator/REQUEST.request.json."""

    model: str
    body: str
    """JSON, as it is sent: a request goes on only after one with the same bytes."""
    headers: dict[str, str] = {}


def new_id() -> str:
    return f"run_{secrets.token_hex(6)}"


def compose(
    model: str, prompt: str, files: Iterable[str], policy: str | None, project: str | None, base: str
) -> SavedRequest:
    """The request for a prompt and its files. `base`: the project's directory; empty: there is none.

    Raises UsageError for a file or a project that cannot be used.
    """
    headers = {} if policy is None else {POLICY: policy}
    if project is not None:
        base = str(_directory(project))
        headers[PROJECT] = quote(base)
    texts, hashes = [prompt], []
    for given in files:
        name, data, text = _read(given, Path(base) if base else None)
        texts.append(_fenced(name, text))
        if base and not Path(name).is_absolute():
            hashes.append(f"{quote(name)}={hashlib.sha256(data).hexdigest()}")
    if hashes:
        headers[FILES] = ",".join(hashes)
    messages = [{"role": "user", "content": "\n\n".join(texts)}]
    return SavedRequest(model, json.dumps({"model": model, "messages": messages, "stream": True}), headers)


def path_of(state: Path, request: str, place: str = "") -> Path:
    """Raises UsageError for what is no request id. `place`: the options that lead to the same Stoker."""
    from stoker_orchestrator.memory.pads import Scratchpads

    try:
        return Scratchpads(state / "orchestrator", lambda: 0.0).request_file(request)
    except ValueError as error:
        raise UsageError(f"{error}; list them: stoker orchestrator list{place}") from error


def save(state: Path, request: str, saved: SavedRequest) -> None:
    """Raises OSError."""
    from stoker.store.files import atomic

    atomic.write(path_of(state, request), msgspec.json.encode(saved), 0o600, make_parents=True)


def load(state: Path, request: str, place: str = "") -> tuple[SavedRequest, Mapping[str, str]]:
    """What was sent, and the headers with which it goes on. Raises UsageError."""
    path = path_of(state, request, place)
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=SavedRequest)
    except (OSError, msgspec.DecodeError) as error:
        text = (
            f"request '{request}' cannot be resumed: what was sent is not in {path} "
            f"({type(error).__name__}); list the requests: stoker orchestrator list{place}"
        )
        raise UsageError(text, code="unknown_request") from error
    has_blocks = path.with_name(f"{request}.md").exists()
    return saved, {**saved.headers, **({RESUME: request} if has_blocks else {})}


def _directory(project: str) -> Path:
    directory = Path(project).expanduser().absolute()
    if not directory.is_dir():
        raise UsageError(f"--project {project}: there is no such directory; create it: mkdir -p {directory}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UsageError(f"--project {project}: this directory is not writable; check its owner: ls -ld {directory}")
    return directory


def _read(given: str, base: Path | None) -> tuple[str, bytes, str]:
    """The name under which the model sees a file, its bytes and its text. Paths are relative to the project."""
    typed = Path(given).expanduser()
    path = base / typed if base is not None else typed
    if not path.is_file() and typed.is_file():
        path = typed.absolute()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise UsageError(f"--file {given}: {error.strerror or error} ({path})") from error
    if len(data) > MAX_FILE:
        raise UsageError(f"--file {given}: it has more than {MAX_FILE // 1024} KiB; give the part that matters")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"--file {given}: it is not text in UTF-8; give a text file") from error
    if base is None:
        return given, data, text
    inside = path.resolve()
    name = inside.relative_to(base.resolve()).as_posix() if inside.is_relative_to(base.resolve()) else str(inside)
    return name, data, text


def _fenced(name: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    language = Path(name).suffix.lstrip(".")
    end = "" if text.endswith("\n") or not text else "\n"
    return f"The file `{name}` as it is now:\n{fence}{language} {name}\n{text}{end}{fence}"
