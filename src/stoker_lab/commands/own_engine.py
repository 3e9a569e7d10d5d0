"""An engine of our own for one candidate of a search: started on a free port with that limit, stopped after it."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import time
from dataclasses import replace
from pathlib import Path

from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import Installation as ConfiguredPlace
from stoker.cli.machine.ports import free_port
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver, Serve, ServeIdentity
from stoker.engines.last_output import last_output, redact
from stoker.engines.launch import LaunchPlace
from stoker.engines.plan import plan, problems
from stoker.engines.registry import engine_of
from stoker.fleet.drivers.local import StopCommand, stop_words
from stoker.fleet.drivers.process_group import spawn
from stoker.fleet.process.environment import child_environment
from stoker.fleet.process.identity import StartRecord
from stoker.http import client
from stoker.store.files.hashes import HashCache
from stoker_lab.artifacts import fingerprint
from stoker_lab.artifacts.fingerprint import EngineReport
from stoker_lab.identify import ask, packages
from stoker_lab.trials.context_search import EngineNotStarted, StartedEngine
from stoker_lab.trials.sweep import VariantFailure

POLL_INTERVAL, _SOON = 0.1, 0.02
_KILLED = 10.0
"""Seconds that a killed process gets to be gone: a driver may take its time to give memory back."""
_TAIL = 300


class OwnEngine:
    """Starts `serve` repeatedly, each time with another limit. A running Stoker does not know about it."""

    def __init__(self, serve: Serve, log: Path, concurrency: int) -> None:
        """`concurrency`: how many requests the engine must allow at once.

        Raises UsageError for a serve whose engine Stoker does not start as a process, or cannot start here.
        """
        if serve.driver is not Driver.PROCESS or serve.base_url is not None:
            raise UsageError(
                f"'{serve.name}' is not a process that Stoker starts ({serve.driver.value}): set its context "
                "where it is started"
            )
        if missing := [*([serve.device_problem] if serve.device_problem else []), *problems(serve)]:
            raise UsageError("; ".join(missing), code="not_startable")
        self._serve = serve
        self._concurrency = concurrency
        self._log = log

    async def start(self, context: int) -> StartedEngine:
        """Raises EngineNotStarted with the end of the engine's log. On cancel the engine is stopped."""
        parallel = max(self._serve.parallel, self._concurrency)
        return await self.launch(replace(self._serve, context=context, parallel=parallel))

    async def launch(self, variant: Serve) -> StartedEngine:
        """Start this variant of the serve. Raises as `start` does."""
        key, port = secrets.token_urlsafe(24), free_port(self._serve.host)
        serve = replace(variant, port=port, die_with_parent=True)
        place = LaunchPlace(port, key)
        launch = plan(serve, place)
        environment = child_environment(os.environ, serve.env, launch.environment, serve.inherit_env)
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        output = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            pid = spawn(launch.argv, environment, serve.working_directory, output)
        except OSError as error:
            raise EngineNotStarted(f"{launch.argv[0]}: {error.strerror}") from error
        finally:
            os.close(output)
        _codes.pop(pid, None)  # of another process that had this number
        stopper = self._stopper(serve, place, pid)

        async def stop() -> None:
            await _stop(pid, serve.stop_grace, stopper)

        try:
            used = key if launch.takes_key else None
            target = Target(serve.host, port, serve.base_path, serve.served_name or serve.name, used)
            await self._until_ready(serve, target, pid, key)
            report = await ask(target, _open_pages(serve))
            log = self._log.read_text(errors="replace")
        except BaseException:
            await stop()
            raise

        def failure() -> EngineNotStarted | None:
            return self._ended(serve, key, code) if (code := _exit_code(pid)) is not None else None

        return StartedEngine(target, report, log, stop, failure)

    def _stopper(self, serve: Serve, place: LaunchPlace, pid: int) -> StopCommand | None:
        """The serve's own stop command, for this process; None: it has none."""
        words = stop_words(serve, place)
        if words is None:
            return None
        record = StartRecord(
            name=serve.name, pid=pid, mark="", command="", fingerprint="", port=place.port, takes_key=True,
            nonce=secrets.token_hex(16), started_at=time.time(), log=str(self._log), grace=serve.stop_grace, stop=words,
        )  # fmt: skip
        return StopCommand(record, words, place.key, logging.getLogger("stoker.fleet"))

    async def _until_ready(self, serve: Serve, target: Target, pid: int, key: str) -> None:
        deadline = time.monotonic() + serve.ready_timeout
        path = serve.probe_path or ("/v1/models" if serve.identity is ServeIdentity.MODELS else None)
        while time.monotonic() < deadline:
            if (code := _exit_code(pid)) is not None:
                raise self._ended(serve, key, code)
            try:
                if path is None:
                    await client.connect(target)
                    return
                if (await client.ask(target, path)).status == 200:
                    return
            except client.NoResponse:
                pass
            await asyncio.sleep(POLL_INTERVAL)
        raise EngineNotStarted(f"not ready within {serve.ready_timeout:g} s", VariantFailure.START_TIMEOUT)

    def _ended(self, serve: Serve, key: str, code: int) -> EngineNotStarted:
        hidden = (key, serve.key.reveal() if serve.key is not None else "")
        said = last_output(self._log, 0, hidden, serve.engine, code)
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        text = redact(lines[-1], hidden)[-_TAIL:] if lines else "it ended without output"
        if said.failure is None:
            return EngineNotStarted(text)
        return EngineNotStarted(text, said.failure.kind.value, said.hint, said.failure.evidence)


def configured_fingerprint(place: ConfiguredPlace, name: str, report: EngineReport | None = None) -> Fingerprint:
    """Of the serve as it is configured: what its slot adds is added when it runs, too."""
    serve = place.serve(name)
    digests = HashCache(place.state).hash_all(fingerprint.identity_files(serve))
    return fingerprint.fingerprint(serve, report or EngineReport(), digests, packages(serve))


def _open_pages(serve: Serve) -> set[str]:
    """What the front door lets through: so that it says the same of itself here as when it serves."""
    return {page for method, page in engine_of(serve.engine).paths if method == "GET"}


async def _stop(pid: int, grace: float, stopper: StopCommand | None) -> None:
    """The whole group: by its stop command, for `grace` seconds at most; then by SIGTERM; killed after `grace` more."""
    if stopper is not None and not _has_ended(pid):
        await _stop_by(stopper, pid, asyncio.get_running_loop().time() + grace)
    for number, looks in ((signal.SIGTERM, int(grace / _SOON)), (signal.SIGKILL, int(_KILLED / _SOON))):
        _signal(pid, number)
        for _ in range(looks):
            if _has_ended(pid):
                break
            await asyncio.sleep(_SOON)


async def _stop_by(stopper: StopCommand, pid: int, until: float) -> None:
    exited = asyncio.Event()

    async def watch() -> None:
        while True:
            if _has_ended(pid):
                exited.set()
                return
            await asyncio.sleep(_SOON)

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        await stopper.run(exited, lambda: until)
        watching.cancel()


def _signal(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # it is gone


def _has_ended(pid: int) -> bool:
    return _exit_code(pid) is not None


_codes: dict[int, int] = {}
"""Exit codes of children that were waited for: the kernel tells one only once."""


def _exit_code(pid: int) -> int | None:
    """Negative: the signal that ended it. None: it runs."""
    if pid in _codes:
        return _codes[pid]
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0  # somebody else waited for it
    if found != pid:
        return None
    _codes[pid] = os.waitstatus_to_exitcode(status)
    return _codes[pid]
