"""Whether a running process is still what its configuration says: arguments, environment, launch fingerprint."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.serve import Serve
from stoker.fleet.process.identity import MARK_VARIABLE
from stoker.fleet.process.start_records import StartRecord


def differences(
    record: StartRecord, fingerprint: str, command: str, environment: Mapping[str, str] | None, serve: Serve
) -> tuple[str, ...] | None:
    """How the process of `record` differs from `serve`, one phrase each; no value is in them. None: it cannot be read.

    `fingerprint` is that of `serve` now, `command` the digest of the running process's command line (empty: not
    readable), `environment` its variables (`environment_of`).
    """
    found = []
    if fingerprint != record.fingerprint:
        found.append("it runs with an older configuration: `stoker serves down` and `up` start it with this one")
    if command and record.command and command != record.command:
        found.append("its command line has changed since it was started")
    if environment is None or environment.get(MARK_VARIABLE) != record.nonce:
        # Some programs overwrite their command line with a title; it proves nothing then.
        return tuple(found) or None
    changed = sorted(name for name, value in serve.env.items() if environment.get(name) != value)
    if changed:
        found.append(f"its environment differs in {', '.join(changed)}")
    return tuple(found)


def environment_of(pid: int) -> dict[str, str] | None:
    """The variables that a process was started with; None if it is gone or cannot be read."""
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return None
