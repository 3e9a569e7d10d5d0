"""A run as a file: whole and private, or not there at all."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.run import Run, RunKind
from stoker.store.files import atomic
from stoker.store.files.remedies import remedy

ENDING = ".json"


def results_of(state: Path) -> Path:
    return state / "results"


def new_id(kind: RunKind, serve: str, at: float) -> str:
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
        atomic.write(path, msgspec.json.format(msgspec.json.encode(run), indent=1), make_parents=True)
    except OSError as error:
        text = f"the result {path} could not be written ({error.strerror}): {remedy(error, directory)}"
        raise StokerError(text, code="not_kept") from error
    return path


def load(path: Path) -> Run:
    """Raises StokerError `no_result`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
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


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def raws(values: Mapping[str, object]) -> dict[str, msgspec.Raw]:
    """For `Run.settings` and `Run.machine`."""
    return {name: raw(value) for name, value in values.items()}
