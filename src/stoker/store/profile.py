"""The quality profile as a file: what was measured of each tier at each class. Readable by people, changed atomically.

profile.json            {"version": 1, "rows": [...]}
profile.json.d/         what it was before each change, by time; the last KEPT of them
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from stoker.domain.errors import ConfigError
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import ProfileRow
from stoker.store.files import atomic

VERSION = 1
KEPT = 50
MAX_BYTES = 16 * 2**20
Rows = dict[tuple[str, str], ProfileRow]
"""Rows by tier and class."""


class ProfileDocument(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    rows: list[ProfileRow]


def path_of(router: RouterSettings, state: str | Path) -> Path:
    """The configured file; else STATE/profile.json, where `stoker eval bootstrap` puts one."""
    return Path(router.profile_path) if router.profile_path is not None else Path(state) / "profile.json"


def configured_rows(router: RouterSettings | None, state: str | Path) -> Rows:
    """The rows that routing uses. Empty if no profile was written yet: then nothing counts as measured.

    Raises ConfigError if a configured file is missing, or if the file cannot be read.
    """
    if router is None or (router.profile_path is None and not path_of(router, state).exists()):
        return {}
    return load(path_of(router, state))


def load(path: Path, helps: str = "`stoker eval bootstrap` writes one; or remove router.profile_path") -> Rows:
    """Raises ConfigError with the file, the problem and its remedy, so that routing never uses half a profile."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError([f"{path}: is larger than {MAX_BYTES // 2**20} MiB: that is not a quality profile"])
        body = path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}; {helps}"]) from error
    if Path(f"{path}.d").is_dir():
        helps = f"earlier ones are kept in {path}.d; put one back: stoker profile import --replace FILE"
    return _parse(body, str(path), helps)


def _parse(body: bytes, shown: str, helps: str) -> Rows:
    try:
        found = msgspec.json.decode(body, type=ProfileDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError([f"{shown}: is not a quality profile: {error}; {helps}"]) from error
    if found.version != VERSION:
        raise ConfigError([f"{shown}: is a profile of version {found.version}; this Stoker reads version {VERSION}"])
    return check_rows(found.rows, shown)


def check_rows(listed: Iterable[ProfileRow], shown: str) -> Rows:
    """Rows by their key. Raises ConfigError for a row that is impossible or occurs twice."""
    rows: Rows = {}
    for number, row in enumerate(listed):
        if problem := _problem(row, rows):
            raise ConfigError([f"{shown}: rows[{number}] ({row.tier[:64]}, {row.task_class[:64]}): {problem}"])
        rows[row.tier, row.task_class] = row
    return rows


def _problem(row: ProfileRow, before: Rows) -> str:
    if not row.tier or not row.task_class:
        return "needs a tier and a task_class"
    if not 0 <= row.passed <= row.n:
        return f"passed {row.passed} of {row.n}"
    return "appears twice" if (row.tier, row.task_class) in before else ""


def unconfigured_rows(
    rows: Mapping[tuple[str, str], ProfileRow], tiers: Collection[str], classes: Collection[str]
) -> list[str]:
    """Rows of tiers or classes that are not configured: they count for nothing, and are kept."""
    found = []
    for tier, task_class in rows:
        if tier not in tiers:
            found.append(f"the profile has a row of tier '{tier}', which is not configured")
        elif task_class not in classes:
            found.append(f"the profile has a row of class '{task_class}', which does not exist")
    return list(dict.fromkeys(found))


def encode(rows: Iterable[ProfileRow]) -> bytes:
    """The same bytes for the same rows, in whatever order they come."""
    ordered = sorted(rows, key=lambda row: (row.tier, row.task_class))
    return msgspec.json.format(msgspec.json.encode(ProfileDocument(VERSION, ordered)), indent=1) + b"\n"


class ProfileFile:
    """Writes it by rename and synced: a reader, or a power cut, finds the old one or the new one. Any thread."""

    def __init__(self, path: Path, wall: Callable[[], float] = time.time) -> None:
        self.path = path
        self._wall = wall
        self._writing = threading.Lock()

    def write(self, rows: Iterable[ProfileRow]) -> None:
        """All of them; what was there goes into the history. Blocks for a sync of the disk. Raises OSError, and the old
        file stays then.
        """
        with self._writing:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            body = encode(rows)
            if self.path.exists():
                before = self.path.read_bytes()
                if before == body:
                    return
                self._remember(before)
            atomic.write(self.path, body)

    def history(self) -> list[Path]:
        """What it was, the newest last."""
        return sorted(self._history.glob("*.json"))

    @property
    def _history(self) -> Path:
        return self.path.with_name(f"{self.path.name}.d")

    def _remember(self, body: bytes) -> None:
        self._history.mkdir(mode=0o700, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(self._wall()))
        taken = len(list(self._history.glob(f"{stamp}-*.json")))
        (self._history / f"{stamp}-{taken:03}.json").write_bytes(body)
        for old in self.history()[:-KEPT]:
            old.unlink(missing_ok=True)
