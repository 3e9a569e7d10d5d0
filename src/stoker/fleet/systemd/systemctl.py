"""A thin shell over `systemctl` and `journalctl`: argument lists, bounded in time and output, no password asked for."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from pathlib import Path

from stoker.domain.errors import StokerError
from stoker.fleet.systemd import unit_states
from stoker.fleet.systemd.unit_states import UnitStatus

BOOTED = Path("/run/systemd/system")
"""There exactly where systemd runs as the first process: sd_booted(3)."""
LIMIT = 15.0
"""Seconds that a question, or a command that waits for nothing, may take."""
_PASSED = ("PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_KEPT = 2**16
_ADVICE = (
    (
        r"interactive authentication|access denied|permission denied|not permitted|authorization",
        "the user that Stoker runs as may not do that: `sudo stoker install systemd` installs a rule that allows it",
    ),
    (
        r"failed to connect to (the )?(system |user )?bus|failed to connect to .*scope bus|host is down",
        "systemd cannot be reached: for units of a user type `loginctl enable-linger` and log in again",
    ),
    (r"not found|not loaded|no such file", "type `stoker install systemd`"),
)


class SystemdFailed(StokerError):
    """systemd refused, or cannot be asked."""

    status = 503
    code = "systemd_failed"


class Systemctl:
    """One systemd: the system's or the user's. Every call raises SystemdFailed; on cancel its child is gone."""

    def __init__(self, is_user: bool = False, limit: float = LIMIT) -> None:
        self.command = ("systemctl", "--user") if is_user else ("systemctl",)
        self._journal = ("journalctl", "--user") if is_user else ("journalctl",)
        self._limit = limit

    def __str__(self) -> str:
        return " ".join(self.command)

    async def show(self, unit: str) -> UnitStatus:
        """How the unit is. One that is not there is an answer, too."""
        return unit_states.read(await self._run("show", f"--property={unit_states.PROPERTIES}", unit))

    async def start(self, unit: str, limit: float) -> None:
        """Returns when systemd counts it as started, at most after `limit` seconds."""
        await self._run_within(limit, "start", unit)

    async def restart(self, unit: str, limit: float) -> None:
        await self._run_within(limit, "restart", unit)

    async def stop(self, unit: str) -> None:
        """Returns when nothing of it is left, or when its own TimeoutStopSec is over; there is no other limit."""
        await self._run_within(None, "stop", unit)

    async def kill(self, unit: str) -> None:
        """SIGKILL to all of its processes. Nothing of it there: nothing."""
        await self._run("kill", "--signal=SIGKILL", unit)

    async def reset(self, unit: str) -> None:
        """Forget that it failed."""
        await self._run("reset-failed", unit)

    async def recent_journal(self, unit: str, since: float, lines: int = 50) -> str:
        """The last lines that it wrote since then (Unix time), newest last."""
        words = ("-u", unit, "-n", str(lines), f"--since=@{int(since)}", "-o", "cat", "--quiet", "--no-pager")
        return await run((*self._journal, *words), self._limit)

    async def _run(self, verb: str, *words: str) -> str:
        return await self._run_within(self._limit, verb, *words)

    async def _run_within(self, limit: float | None, verb: str, *words: str) -> str:
        return await run((*self.command, "--no-ask-password", "--no-pager", verb, *words), limit)


async def run(argv: Sequence[str], limit: float | None) -> str:
    """Its output, the last 64 KiB. Raises SystemdFailed with the error text and the next command to type."""
    what = f"`{shlex.join(argv)}`"
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ} | {"LC_ALL": "C"}
    try:
        child = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment)
    except OSError as error:
        raise SystemdFailed(f"{what}: {error.strerror}: install systemd, or remove `driver`") from error
    try:
        async with asyncio.timeout(limit):
            out, err, code = await _whole(child)
    except TimeoutError:
        text = f"{what} was not done after {limit} s: `systemctl list-jobs` shows what it waits for"
        raise SystemdFailed(text, code="systemd_late") from None
    finally:
        if child.returncode is None:
            child.kill()
            await _whole(child)
    if code != 0:
        raise SystemdFailed(failure(what, code, err))
    return out


def failure(what: str, code: int, said: str) -> str:
    """One sentence about a command that failed, and what to do."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = lines[0] if lines else f"exit code {code}, and it printed nothing"
    advice = next((advice for pattern, advice in _ADVICE if re.search(pattern, said, re.IGNORECASE)), "")
    return f"{what}: {text[:300]}" + (f"; {advice}" if advice else "")


def problem(booted: Path = BOOTED) -> str | None:
    """Why there is no systemd to be asked here; None: there is one."""
    if shutil.which("systemctl") is None:
        return "there is no `systemctl` on PATH"
    if not booted.is_dir():
        return f"systemd does not run here (there is no {booted})"
    return None


async def _whole(child: asyncio.subprocess.Process) -> tuple[str, str, int]:
    """Both outputs and the exit code, once it has ended and its pipes are closed."""
    return await asyncio.gather(_last(child.stdout), _last(child.stderr), child.wait())


async def _last(stream: asyncio.StreamReader | None) -> str:
    kept = b""
    while stream is not None and (chunk := await stream.read(_KEPT)):
        kept = (kept + chunk)[-_KEPT:]
    return kept.decode("utf-8", "replace")
