"""From a configured serve to a running process: port, key, command line, log, environment."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.access import Paths
from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve
from stoker.fleet import identity
from stoker.fleet.drivers.process import spawn
from stoker.fleet.engines.http import Address
from stoker.fleet.engines.last_words import redact
from stoker.fleet.engines.launch import Launch, Place
from stoker.fleet.engines.plan import plan
from stoker.fleet.environment import child_environment
from stoker.fleet.fingerprint import fingerprint
from stoker.fleet.logs import log_path, open_log, rotate_if_full
from stoker.fleet.ports import free_port, reachable
from stoker.fleet.records import Record
from stoker.fleet.signing import Signer


@dataclass(frozen=True, slots=True)
class Launched:
    """A process that was just spawned; nobody watches it yet."""

    record: Record
    address: Address
    log: Path
    log_start: int


class Launcher:
    """Spawns; remembers nothing."""

    def __init__(self, paths: Paths, signer: Signer) -> None:
        self._paths = paths
        self._signer = signer

    def launch(self, serve: Serve, taken: Container[int], started_at: float) -> Launched:
        """Spawn `serve`, on a port outside `taken` unless it has a fixed one. A few milliseconds of blocking.

        Raises StartFailed, and StokerError for a state directory that cannot be used; nothing runs then.
        """
        nonce = secrets.token_hex(16)
        port = serve.port or free_port(serve.host, taken)
        place = Place(port, self.key(serve, nonce))
        planned = plan(serve, place)
        environment = child_environment(os.environ, serve.env, {**planned.environment, identity.MARK_VARIABLE: nonce})
        log = log_path(self._paths.logs, serve.name)
        try:
            rotate_if_full(log, self._paths.log_bytes)
            output = open_log(log)
        except OSError as error:
            text = f"serve '{serve.name}' was not started: {log} cannot be written ({error.strerror}): make room"
            raise StartFailed(text, code="cannot_start") from error
        try:
            os.write(output, _header(serve, planned, place).encode())
            log_start = os.lseek(output, 0, os.SEEK_END)
            pid = spawn(planned.argv, environment, serve.directory, output)
        except OSError as error:
            text = f"serve '{serve.name}' cannot be started: {planned.argv[0]} in {serve.directory}: {error.strerror}"
            raise StartFailed(f"{text}; correct `cmd`, or install it", code="cannot_start") from error
        finally:
            os.close(output)
        record = Record(
            name=serve.name,
            pid=pid,
            mark=identity.start_mark(pid) or "",
            command=self.command(pid),
            fingerprint=fingerprint(serve, self._signer),
            port=port,
            nonce=nonce,
            takes_key=planned.takes_key,
            started_at=started_at,
            log=str(log),
            grace=serve.stop_grace,
        )
        return Launched(record, self.address(serve, record), log, log_start)

    def key(self, serve: Serve, nonce: str) -> str:
        """What the engine is told to ask for: the configured key, or one of its own for each start."""
        return serve.key.reveal() if serve.key is not None else self._signer.engine_key(serve.name, nonce)

    def address(self, serve: Serve, record: Record) -> Address:
        """Where the process of `record` answers, and with which key."""
        key = self.key(serve, record.nonce) if record.takes_key or serve.key is not None else None
        return Address(reachable(serve.host), record.port, "", key)

    def command(self, pid: int) -> str:
        """A keyed digest of a process's command line, which may hold a key; empty if there is none."""
        line = identity.command_line(pid)
        return self._signer.digest("command", line) if line else ""


def _header(serve: Serve, planned: Launch, place: Place) -> str:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    command = redact(" ".join(planned.argv), [place.key])
    return f"--- stoker {now}: serve '{serve.name}' on port {place.port}: {command}\n"
