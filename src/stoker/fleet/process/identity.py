"""What is stored about a start, so that a later run of Stoker finds it: its process's marks, its engine's own key, and
digests that reveal nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.host_port import reachable
from stoker.domain.lease import Target
from stoker.domain.serve import Secret, Serve
from stoker.store.files import atomic
from stoker.system.processes import command_line, has_variable


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
    """`processes.start_mark` of the process."""
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
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"


MARK_VARIABLE = "STOKER_START"
"""In every child's environment: the nonce of its start. Grandchildren inherit it."""


STOP_VARIABLE = "STOKER_STOP"
"""In the environment of a serve's stop command: the nonce of the start that it ends."""


def has_start_nonce(pid: int, nonce: str, variable: str = MARK_VARIABLE) -> bool:
    """Whether the process descends from the start with this nonce; or, by STOP_VARIABLE, from its stop command."""
    return has_variable(pid, variable, nonce)


class KeySigner:
    """Signs with the key that `read` gives (`STATE/signing.key`), which is asked for at first use.

    An engine's key is derived from it and from a nonce. So a record on disk needs only the nonce, and a later control
    plane can still talk to an engine that an earlier one started.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._key: bytes | None = None

    def engine_key(self, name: str, nonce: str) -> str:
        """The key of one start of one serve: 64 hex digits. Raises StokerError `state_unusable`."""
        return self.digest("engine", name, nonce)

    def digest(self, *parts: str) -> str:
        """64 hex digits over `parts`. Raises StokerError `state_unusable`."""
        if self._key is None:
            self._key = self._read()
        # Lengths first, so that no two lists of parts look alike.
        text = "".join(f"{len(part)}:{part}" for part in parts)
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def fingerprint(serve: Serve, signer: KeySigner) -> str:
    """The same for two serves exactly when one `launches_like` the other. 64 hex digits; keyed, it reveals no secret.

    Only what differs from the defaults goes in: a setting that a later version adds changes nothing by itself.
    """
    chosen = _chosen(serve.launch_settings(), serve)
    return signer.digest("launch", json.dumps(chosen, sort_keys=True, default=_plain))


def _chosen(values: Mapping[str, Any], record: Any) -> dict[str, Any]:
    """Those that differ from the defaults of the record's fields."""
    defaults = {f.name: f.default_factory() if f.default_factory is not MISSING else f.default for f in fields(record)}
    return {name: value for name, value in values.items() if value != defaults[name]}


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _chosen({f.name: getattr(value, f.name) for f in fields(value)}, value)
    raise TypeError(f"a serve's fingerprint cannot hold {type(value).__name__}")


class Keys:
    """Derives; remembers nothing."""

    def __init__(self, signer: KeySigner) -> None:
        self._signer = signer

    def key(self, serve: Serve, nonce: str) -> str:
        """The key that the engine asks for: the configured one, or one of its own for each start."""
        return serve.key.reveal() if serve.key is not None else self._signer.engine_key(serve.name, nonce)

    def address(self, serve: Serve, record: StartRecord) -> Target:
        """Where the start of `record` answers, and with which key."""
        key = self.key(serve, record.nonce) if record.takes_key or serve.key is not None else None
        host = reachable(serve.host) if record.job is None else record.job.host
        return Target(host, record.port, serve.base_path, serve.served_name or serve.name, key)

    def command(self, pid: int) -> str:
        """A keyed digest of a process's command line, which may hold a key; empty if the process is gone."""
        line = command_line(pid)
        return self._signer.digest("command", line) if line else ""

    def fingerprint(self, serve: Serve) -> str:
        """The same for two serves exactly when one `launches_like` the other."""
        return fingerprint(serve, self._signer)
