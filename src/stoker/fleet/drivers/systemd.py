"""The systemd driver: a serve is a unit, which survives restarts of Stoker and writes to the journal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Container
from pathlib import Path

import msgspec

from stoker.domain.errors import StartFailed, StokerError
from stoker.domain.serve import Driver, Serve
from stoker.engines.last_output import redact
from stoker.engines.launch import LaunchPlace
from stoker.engines.plan import plan
from stoker.fleet.drivers.process_group import ExitWatch, describe_exit
from stoker.fleet.drivers.unit import UNKILLABLE_AFTER, Launched, Termination, finish
from stoker.fleet.process import identity
from stoker.fleet.process.environment import child_environment, is_secret, port_problem
from stoker.fleet.process.identity import Keys, StartRecord
from stoker.fleet.systemd import syntax, unit_states, units
from stoker.fleet.systemd.systemctl import BOOTED, LIMIT, Systemctl, SystemdFailed
from stoker.fleet.systemd.systemctl import problem as systemd_problem
from stoker.fleet.systemd.unit_states import UnitAction, UnitStatus
from stoker.fleet.systemd.units import Origin
from stoker.store.files import atomic
from stoker.store.files.remedies import remedy
from stoker.system import processes

EXIT_POLL_INTERVAL = 0.02
"""Seconds between two checks of a unit whose main process has just ended."""
LEARN_WITHIN = 1.0
"""Seconds that the exit code may take to reach systemd; after that it counts as unknown."""
POLL_INTERVAL = 1.0
"""Seconds between two checks of a unit whose processes are not visible from here."""


class SystemdUnit:
    """Implements `drivers.unit.Unit` for one start of a unit. `pid` 0: its processes are not visible from here."""

    ended_how = ""

    def __init__(
        self,
        systemctl: Systemctl,
        unit: str,
        pid: int,
        on_exit: Callable[[int | None], None],
        on_gone: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self.pid = pid or None
        self.code: int | None = None
        self._systemctl = systemctl
        self._unit = unit
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._has_told = False
        self._is_late = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._ending = Termination(unit, self._end, on_gone, log)
        self._following: asyncio.Task[None] | None = None
        self._watch: ExitWatch | None = None
        if pid:
            self._watch = ExitWatch(pid, lambda _: self._follow(EXIT_POLL_INTERVAL, LEARN_WITHIN))
        else:
            self._follow(POLL_INTERVAL, float("inf"))

    def on_ready(self) -> None:
        """Nothing changes: its process is watched."""

    async def end(self, grace: float) -> None:
        """`systemctl stop`, `grace` seconds, SIGKILL to all of it; returns when systemd reports that nothing is left.

        A second call joins the first and may shorten its grace. On cancel it goes on, and CancelledError leaves this
        call when everything is gone. Raises StokerError: `systemd_failed` if systemd refuses, `unkillable`.
        """
        task = self.begin_end(grace)
        if task is not None:
            await finish(task)

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, but returns at once; this object owns the task. None: it is gone already."""
        task = self._ending.begin_end(grace)
        if task is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._ending.kill_at, self._is_late.set)
        return task

    def release(self) -> None:
        """Stop watching it; it runs on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.close()
        if self._following is not None:
            self._following.cancel()

    def _follow(self, pause: float, limit: float) -> None:
        self._following = self._loop.create_task(self._wait_until_down(pause, limit), name=f"follow-{self._unit}")

    async def _wait_until_down(self, pause: float, limit: float) -> None:
        """Asks systemd until the main process has ended, at most for `limit` seconds. Then calls `on_exit`."""
        until = self._loop.time() + limit
        status = UnitStatus()
        while self._loop.time() < until:
            with contextlib.suppress(SystemdFailed):  # busy, or being restarted itself: it is asked again
                status = await self._systemctl.show(self._unit)
                if not status.is_up or (self.pid is not None and status.pid != self.pid):
                    break
            await asyncio.sleep(pause)
        self._report_exit(status.code)

    def _report_exit(self, code: int | None) -> None:
        if not self._has_told:
            self._has_told = True
            self.code = code
            self._on_exit(code)

    async def _end(self) -> None:
        stopping = self._loop.create_task(self._systemctl.stop(self._unit), name=f"stop-{self._unit}")
        waiting = self._loop.create_task(self._is_late.wait(), name=f"grace-{self._unit}")
        try:
            await asyncio.wait([stopping, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                with contextlib.suppress(SystemdFailed):  # nothing to kill; the status below tells why
                    await self._systemctl.kill(self._unit)
                await asyncio.wait([stopping], timeout=UNKILLABLE_AFTER)
            if not stopping.done():
                raise self._unkillable()
            status = await self._systemctl.show(self._unit)
            if status.is_up:
                stopping.result()
                stop = f"`{self._systemctl} stop {self._unit}`"
                raise SystemdFailed(f"{stop} succeeded, but the unit is {status.words}: look at its status")
            if status.active is unit_states.ActiveState.FAILED:
                await self._systemctl.reset(self._unit)
        finally:
            stopping.cancel()
            waiting.cancel()
            await asyncio.wait([stopping, waiting])
        self.release()
        if self._following is not None:
            await asyncio.wait([self._following])
        self._report_exit(status.code)

    def _unkillable(self) -> StokerError:
        return StokerError(
            f"{self._unit} survives SIGKILL: a process of it hangs in the kernel; look at `dmesg` and at "
            f"`{self._systemctl} status {self._unit}`, a restart of the machine may be needed",
            code="unkillable",
        )


_FINGERPRINT = "STOKER_FINGERPRINT"
MAX_EXCERPT = 800
"""Characters of a unit's last output in a message."""


class SystemdDriver:
    """Implements `drivers.unit.UnitDriver` with units that `stoker install systemd` or the operator wrote.

    A unit of Stoker's gets its environment, with a new key, from a file (0600) that is written before each start; only
    its command line is in the unit. An operator's unit is started and stopped unchanged.
    """

    def __init__(
        self,
        state: Path,
        keys: Keys,
        log: logging.Logger,
        booted: Path = BOOTED,
        limit: float = LIMIT,
    ) -> None:
        self._state = state
        self._keys = keys
        self._log = log
        self._booted = booted
        self._limit = limit

    async def start_problems(self, serve: Serve) -> list[str]:
        """systemd, the unit, its drift, its port. One sentence each."""
        return (await self._status_and_problems(serve))[1]

    async def launch(
        self, serve: Serve, taken: Container[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """See `UnitDriver.launch`. A unit that already runs with this configuration is taken over as it is."""
        status, problems = await self._status_and_problems(serve)
        if status is None or problems:
            raise StartFailed(f"serve '{serve.name}' cannot start: {'; '.join(problems)}", code="cannot_start")
        unit, systemctl = serve.unit or "", self._systemctl_of(serve.unit or "")
        is_ours = units.origin(_unit_text(status)) is not Origin.FOREIGN
        last = self._last_environment(serve)
        fingerprint = self._keys.fingerprint(serve)
        action = unit_states.start(status, not is_ours or last.get(_FINGERPRINT) == fingerprint)
        nonce = last.get(identity.MARK_VARIABLE) if is_ours and action is UnitAction.JOIN else None
        intent = self._intent(serve, unit, nonce or secrets.token_hex(16), fingerprint, is_ours, started_at)
        intend(intent)
        try:
            if is_ours and action is not UnitAction.JOIN:
                self._prepare(serve, intent)
            if action is UnitAction.RESET_AND_START:
                await systemctl.reset(unit)
            await (systemctl.restart if action is UnitAction.RESTART else systemctl.start)(unit, serve.ready_timeout)
            status = await _visible(systemctl, unit)
            if not status.is_up:
                raise StartFailed(await self._died(serve, intent, status))
        except SystemdFailed as error:
            await self._give_up(systemctl, unit)
            raise StartFailed(f"serve '{serve.name}' was not started: {error.message}", code=error.code) from error
        except BaseException:
            await self._give_up(systemctl, unit)
            raise
        record = _complete(intent, status)
        return Launched(record, self._keys.address(serve, record), None)

    def attach(
        self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]
    ) -> SystemdUnit:
        """Raises ProcessLookupError if its main process is gone already."""
        unit = SystemdUnit(self._systemctl_of(record.handle), record.handle, record.pid, on_exit, on_gone, self._log)
        if record.pid and processes.start_mark(record.pid) != record.mark:  # a watched process cannot change its number
            unit.release()
            raise ProcessLookupError(record.pid)
        return unit

    async def find(self, record: StartRecord) -> StartRecord | None:
        """The unit's record if it is up, whoever started it. An interrupted launch has started the unit, or nothing."""
        systemctl = self._systemctl_of(record.handle)
        try:
            status = await _visible(systemctl, record.handle)
        except SystemdFailed as error:
            self._log.warning("whether serve %s still runs cannot be found out: %s", record.name, error.message)
            return None
        return _complete(record, status) if status.is_up else None

    async def recent_output(self, record: StartRecord) -> str:
        """The last lines of its journal since that start; empty if they may not be read. Not redacted."""
        try:
            return await self._systemctl_of(record.handle).recent_journal(record.handle, record.started_at)
        except SystemdFailed as error:
            self._log.info("the journal of %s cannot be read: %s", record.handle, error.message)
            return ""

    # -- before a start ------------------------------------------------------------------------------------------------

    async def _status_and_problems(self, serve: Serve) -> tuple[UnitStatus | None, list[str]]:
        """The unit's status, and what prevents a start."""
        who = f"serve '{serve.name}'"
        if (missing := systemd_problem(self._booted)) is not None:
            return None, [
                f"{who} runs as a systemd unit, but {missing}: remove `driver`, and Stoker starts the serve itself"
            ]
        unit, systemctl = serve.unit or "", self._systemctl_of(serve.unit or "")
        try:
            status = await systemctl.show(unit)
        except SystemdFailed as error:
            return None, [f"{who}: {error.message}"]
        install = _install(systemctl)
        if (refusal := unit_states.refusal(status)) is not None:
            advice = refusal.format(systemctl=systemctl, install=install, unit=unit)
            return status, [f"the unit {unit} of {who} {advice}"]
        found = [f"the unit {unit} of {who} {difference}" for difference in self._differences(serve, status, systemctl)]
        if serve.port is None:
            found.append(f"{who} runs as a systemd unit and needs a fixed `port`: set one")
        elif not status.is_up and (problem := port_problem(serve.host, serve.port)) is not None:
            found.append(f"{who}: {problem}")
        return status, found

    def _differences(self, serve: Serve, status: UnitStatus, systemctl: Systemctl) -> list[str]:
        """How the unit differs from the configuration; nothing for a unit that the operator wrote."""
        if status.needs_reload:
            return [f"was changed since systemd read it: type `{systemctl} daemon-reload`"]
        text = _unit_text(status)
        origin = units.origin(text)
        if origin is Origin.FOREIGN:
            return []
        if origin is Origin.CHANGED:
            return [
                f"was changed by hand ({status.fragment}): put the change into a drop-in "
                f"(`{systemctl} edit {serve.unit}`), then type `{_install(systemctl)} --force`"
            ]
        try:
            wanted = units.exec_start(units.planned(serve).argv)
            syntax.environment(serve.env)
        except ValueError as error:
            return [f"cannot be written: {error}"]
        if wanted not in text.split("\n"):
            return [f"was written for another configuration: type `{_install(systemctl)}`"]
        return []

    def _intent(
        self, serve: Serve, unit: str, nonce: str, fingerprint: str, is_ours: bool, started_at: float
    ) -> StartRecord:
        return StartRecord(
            name=serve.name,
            pid=0,
            mark="",
            command="",
            fingerprint=fingerprint,
            port=serve.port or 0,
            nonce=nonce,
            takes_key=is_ours and units.planned(serve).takes_key,
            started_at=started_at,
            log="",
            grace=serve.stop_grace,
            driver=Driver.SYSTEMD,
            handle=unit,
        )

    def _prepare(self, serve: Serve, record: StartRecord) -> None:
        """Writes the environment for the next start. Raises StartFailed."""
        key = self._keys.key(serve, record.nonce)
        planned = plan(serve, LaunchPlace(record.port, key))
        own = {identity.MARK_VARIABLE: record.nonce, _FINGERPRINT: record.fingerprint}
        if any(key in word for word in planned.argv):
            own[units.KEY_VARIABLE] = key
        environment = child_environment(os.environ, serve.env, {**planned.environment, **own}, serve.inherit_env)
        path = units.environment_file(self._state, serve.name)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic.write(path, syntax.environment(environment).encode(), 0o600)
        except ValueError as error:
            raise StartFailed(f"serve '{serve.name}' was not started: {error}", code="cannot_start") from error
        except OSError as error:
            advice = remedy(error, path.parent)
            text = f"serve '{serve.name}' was not started: {path} cannot be written ({error.strerror}): {advice}"
            raise StartFailed(text, code="cannot_start") from error

    def _last_environment(self, serve: Serve) -> dict[str, str]:
        """The environment of the last start; empty if there was none."""
        try:
            return syntax.read_environment(units.environment_file(self._state, serve.name).read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            return {}

    async def _died(self, serve: Serve, record: StartRecord, status: UnitStatus) -> str:
        key = self._keys.key(serve, record.nonce)
        hidden = [key, *(text for name, text in serve.env.items() if is_secret(name))]
        lines = [line.strip() for line in (await self.recent_output(record)).splitlines() if line.strip()]
        excerpt = redact(" | ".join(lines[-5:]), hidden)[-MAX_EXCERPT:]
        excerpt = excerpt or "nothing it said can be read here"
        how = f"serve '{serve.name}' {describe_exit(status.code)} at once: {excerpt}"
        return f"{how}; `journalctl -u {record.handle} -n 50` shows more"

    async def _give_up(self, systemctl: Systemctl, unit: str) -> None:
        """Ends what was started, even if the caller is cancelled."""

        async def end() -> None:
            try:
                stopped, _ = await asyncio.gather(systemctl.stop(unit), systemctl.kill(unit), return_exceptions=True)
                status = await systemctl.show(unit)
                if status.active is unit_states.ActiveState.FAILED:
                    await systemctl.reset(unit)
                elif status.is_up and isinstance(stopped, SystemdFailed):
                    raise stopped
            except SystemdFailed as error:
                self._log.warning("%s may still exist: %s", unit, error.message)

        await finish(asyncio.get_running_loop().create_task(end(), name=f"give-up-{unit}"))

    def _systemctl_of(self, unit: str) -> Systemctl:
        """The systemd that runs the unit: the user's if there is such a unit in the user's directory, else the
        system's.
        """
        is_user = bool(unit) and (units.user_directory(os.path.expanduser("~")) / unit).exists()
        return Systemctl(is_user, self._limit)


def _complete(record: StartRecord, status: UnitStatus) -> StartRecord:
    """The unit's record with its main process, if that is visible from here."""
    mark = processes.start_mark(status.pid) if status.pid else None
    return msgspec.structs.replace(record, pid=status.pid if mark else 0, mark=mark or record.handle)


async def _visible(systemctl: Systemctl, unit: str) -> UnitStatus:
    """The status of a unit. Its main process has just ended, or cannot be seen from here: ask a second time."""
    status = await systemctl.show(unit)
    return await systemctl.show(unit) if status.pid and processes.start_mark(status.pid) is None else status


def _install(systemctl: Systemctl) -> str:
    return "stoker install systemd --user" if "--user" in systemctl.command else "stoker install systemd"


def _unit_text(status: UnitStatus) -> str:
    try:
        return Path(status.fragment).read_text("utf-8") if status.fragment else ""
    except (OSError, UnicodeDecodeError):
        return ""
