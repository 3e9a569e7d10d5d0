"""Where a run is kept: one JSON file, `STATE/results/ID.json`, readable by its owner only."""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.run import Kind, Run


def results_of(state: Path) -> Path:
    """The directory of a state directory's results."""
    return state / "results"


def new_id(kind: Kind, serve: str, at: float) -> str:
    """`20261121T175901Z-benchmark-fast-3f2a`: sorts by time (UTC), is a file's name."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    name = re.sub(r"[^a-z0-9]+", "-", serve.lower()).strip("-")[:40] or "model"
    return f"{stamp}-{kind.value}-{name}-{secrets.token_hex(2)}"


def save(run: Run, directory: Path) -> Path:
    """Write it whole or not at all. Raises StokerError `not_kept` that says what to do (the disk is full, ...)."""
    path = directory / f"{run.id}.json"
    draft = directory / f".{run.id}.{secrets.token_hex(4)}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(run), indent=1))
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StokerError(
            f"the result could not be kept in {directory} ({error.strerror}): make room or rights there; "
            "with --json the whole result goes to stdout as well",
            code="not_kept",
        ) from error
    return path


def load(path: Path) -> Run:
    """Raises StokerError `no_result`: it is not there, or is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise StokerError(f"{path}: {error.strerror}", code="no_result") from error
    except msgspec.DecodeError as error:
        raise StokerError(f"{path} is no result of a measurement: {error}", code="no_result") from error


def find(name: str, directory: Path) -> Path:
    """A result by its file, its id, or the beginning of it. Raises StokerError `no_result`."""
    given = Path(name).expanduser()
    if given.is_file():
        return given
    found = sorted(directory.glob(f"{name}*.json")) if re.fullmatch(r"[\w.-]+", name) else []
    if len(found) != 1:
        what = "no result" if not found else f"{len(found)} results"
        raise StokerError(f"{what} of that name in {directory}: {name}", code="no_result")
    return found[0]
