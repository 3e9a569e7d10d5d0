"""What runs, on disk: one small file per serve, so that a later control plane finds it."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from stoker.store.files import atomic


class StopWords(msgspec.Struct, frozen=True, kw_only=True):
    """A serve's stop command. `{pid}` and `{key}` are filled in when it is run."""

    words: list[str]
    directory: str


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job was submitted, and what it holds there."""

    cluster: str
    address: str
    """Of the cluster's head, at that time."""
    slot: str
    node: str
    """Ray's id of the node."""
    host: str
    """The node's address."""
    gpus: int
    others: list[JobRecord] = []
    """Those of the ranks after rank 0, for an engine on several machines."""

    def ranks(self) -> list[JobRecord]:
        """Of each rank."""
        return [self, *self.others]


class StartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One start. It holds no secret: the engine's key is derived from `nonce` and the state directory's key."""

    name: str
    pid: int
    """0: about to be started; it is unknown whether it was."""
    mark: str
    """`identity.start_mark` of the process."""
    command: str
    """A keyed digest of its command line."""
    fingerprint: str
    port: int
    nonce: str
    takes_key: bool
    started_at: float
    """Unix time."""
    log: str
    """Empty: its driver keeps its output."""
    grace: float
    """`stop_grace` at that time, in case the serve is no longer configured."""
    ready: bool = False
    asleep: bool = False
    driver: str = "process"
    handle: str = ""
    """What the driver knows it by: a container's name and id, a unit's name. Processes need only the pid."""
    facts: dict[str, str | int | float] = {}
    stop: StopWords | None = None
    """How its process is stopped, if not by SIGTERM."""
    job: JobRecord | None = None
    """Driver `ray`; `handle` is the id of its job."""


class StartRecords:
    """`STATE/serves/NAME.json`, 0600. Written by rename: a reader sees the old one or the new one."""

    def __init__(self, directory: Path, log: logging.Logger) -> None:
        self._directory = directory
        self._log = log

    def write(self, record: StartRecord) -> None:
        """Raises OSError. Not synced to disk: what a power cut would lose has ended with it."""
        content = msgspec.json.format(msgspec.json.encode(record), indent=1)
        atomic.write(self._path(record.name), content, is_synced=False, make_parents=True)

    def remove(self, record: StartRecord) -> None:
        """Unless a later start of the same serve has taken its place."""
        path = self._path(record.name)
        found = self._read(path)
        if found is None or found.nonce != record.nonce:
            return
        try:
            path.unlink(missing_ok=True)
        except OSError as error:  # harmless: the next run of Stoker sees that the process is gone
            self._log.warning("%s cannot be deleted (%s): check who owns its directory", path, error.strerror)

    def load(self) -> list[StartRecord]:
        """All of them. One that cannot be read is logged and put aside as `NAME.json.unreadable`."""
        found = []
        for path in sorted(self._directory.glob("*.json")):
            record = self._read(path)
            if record is not None and self._path(record.name) == path:
                found.append(record)
                continue
            aside = path.with_name(f"{path.name}.unreadable")
            path.replace(aside)
            self._log.warning("%s is not a valid record: moved to %s; its serve is not adopted", path, aside)
        return found

    def _read(self, path: Path) -> StartRecord | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=StartRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"
