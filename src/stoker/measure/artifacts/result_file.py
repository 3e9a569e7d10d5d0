"""A run as a file: whole and private, or not there at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.run import Kind, Run

ENDING = ".json"


def results_of(state: Path) -> Path:
    """The directory of a state directory's results."""
    return state / "results"


def new_id(kind: Kind, serve: str, at: float) -> str:
    """Sorts by time, to the second: `20261121T175901Z-benchmark-fast-3f2a`. `at` is Unix time."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", serve).strip("-.")[:60] or "model"
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%SZ}-{kind.value}-{name}-{secrets.token_hex(2)}"


def path_of(directory: Path, run_id: str) -> Path:
    return directory / f"{run_id}{ENDING}"


def save(run: Run, directory: Path) -> Path:
    """Write `directory`/ID.json, 0600; the directory is made 0700. One of the same id is replaced.

    Raises StokerError `not_kept`: nothing is left of the attempt then, and the caller still has the run.
    """
    path = path_of(directory, run.id)
    try:
        write(path, msgspec.json.format(msgspec.json.encode(run), indent=1))
    except OSError as error:
        text = f"the result {path} could not be written ({error.strerror}): make room there"
        raise StokerError(text, code="not_kept") from error
    return path


def load(path: Path) -> Run:
    """Raises StokerError `no_result`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise StokerError(f"the result {path} cannot be read ({why})", code="no_result") from error


def find(name: str, directory: Path) -> Path:
    """A result by its file, its id, or the beginning of it. Raises StokerError `no_result`."""
    given = Path(name).expanduser()
    if given.is_file():
        return given
    found = sorted(directory.glob(f"{name}*{ENDING}")) if re.fullmatch(r"[\w.-]+", name) else []
    if len(found) != 1:
        what = "no result" if not found else f"{len(found)} results"
        raise StokerError(f"{what} of that name in {directory}: {name}", code="no_result")
    return found[0]


def write(path: Path, content: bytes) -> None:
    """All of it or nothing, on disk when this returns; 0600 in a directory that is made 0700. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def raw(value: object) -> msgspec.Raw:
    """For `Run.raw`."""
    return msgspec.Raw(msgspec.json.encode(value))


def raws(values: Mapping[str, object]) -> dict[str, msgspec.Raw]:
    """For `Run.settings` and `Run.machine`."""
    return {name: raw(value) for name, value in values.items()}
