"""The container driver: a serve's `up` (Compose or any other command) creates its container, and Docker runs it.

Reading order: `inspect` (state, owner and drift of the container; see `inspection`), then `start_problems`, `plan` and
`launch`, which act on it, then `find` and `attach`, for after a restart of Stoker.

One running container: watches it, copies its output, and ends it on request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from collections.abc import Container as Taken
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.access import Paths
from stoker.domain.errors import StartFailed, StokerError
from stoker.domain.serve import Driver, Serve
from stoker.engines.last_output import redact
from stoker.fleet.drivers import up_command
from stoker.fleet.drivers.containers import (
    HOLDS,
    STEPS,
    Container,
    ContainerAction,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    restarts_by_itself,
    steps,
)
from stoker.fleet.drivers.docker import ASK_LIMIT, Docker, DockerFailed, DockerFault
from stoker.fleet.drivers.inspection import ContainerRecords, Inspection, Inspector
from stoker.fleet.drivers.process_group import ExitWatch
from stoker.fleet.drivers.unit import POLL_INTERVAL, UNKILLABLE_AFTER, Launched, Termination, finish
from stoker.fleet.process.environment import is_secret, port_problem
from stoker.fleet.process.identity import Keys, StartRecord
from stoker.fleet.process.logs import log_path, open_log, rotate_if_full
from stoker.store.files.remedies import remedy
from stoker.system import processes
from stoker.system.processes import is_alive

_UNDO_GRACE = 2.0
_CLOCKS = 2.0
"""Seconds by which the daemon's clock may be behind."""


class ContainerDriver:
    """Implements `drivers.unit.UnitDriver`. `ports`: the ports of Stoker's own serves, which a swap frees."""

    def __init__(self, paths: Paths, keys: Keys, log: logging.Logger, ports: Callable[[], Collection[int]]) -> None:
        self._keys = keys
        self._log = log
        self._logs = paths.logs
        self._log_bytes = paths.log_bytes
        self._ports = ports
        self._docker = Docker(os.environ)
        self._made = ContainerRecords(Path(paths.state) / "containers")
        self._inspector = Inspector(self._docker, self._made, keys)

    # -- questions -------------------------------------------------------------------------------------------------

    async def inspect(self, serve: Serve) -> Inspection:
        return await self._inspector.inspect(serve)

    async def start_problems(self, serve: Serve) -> list[str]:
        """See `UnitDriver.start_problems`: Docker, the container, the Compose file, the image, the port."""
        inspection = await self._inspector.inspect(serve)
        if inspection.obstacle:
            return [inspection.obstacle]
        found: list[str] = []
        if inspection.state not in HOLDS and serve.port is not None and serve.port not in self._ports():
            problem = port_problem(serve.host, serve.port)
            found += [f"serve '{serve.name}': {problem}"] if problem else []
        return found + await self._up_problems(serve, inspection)

    async def plan(self, serve: Serve) -> list[list[str]]:
        """The commands that a start would run now, in order; empty if there is nothing to do. Raises StartFailed if the
        start would.
        """
        inspection = await self._inspector.inspect(serve)
        if inspection.obstacle:
            raise StartFailed(inspection.obstacle, code="cannot_start")
        if problems := await self._up_problems(serve, inspection):
            raise StartFailed("; ".join(problems), code="cannot_start")
        return _steps(serve, inspection)

    async def _up_problems(self, serve: Serve, inspection: Inspection) -> list[str]:
        """What prevents `up`, if a start would run it."""
        if inspection.action not in (ContainerAction.CREATE, ContainerAction.RECREATE):
            return []
        found = up_command.problems(serve, inspection.up)
        try:
            return found + await self._inspector.lacking(serve, inspection.up)
        except DockerFailed as failure:
            return [*found, f"serve '{serve.name}': {failure.message}"]

    async def state(self, record: StartRecord) -> ContainerState:
        """The present state of a record's container, for a probe without an answer. UNKNOWN: Docker does not answer."""
        return await self._docker.state(id_of(record) or record.handle)

    async def recent_output(self, record: StartRecord) -> str:
        """Nothing: the output is in a log file."""
        return ""

    # -- start -----------------------------------------------------------------------------------------------------

    async def launch(
        self, serve: Serve, taken: Taken[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """See `UnitDriver.launch`. A container that already runs is used as it is, drifted or not; that is logged."""
        intent = self._intent(serve, started_at)
        inspection = await self._inspector.inspect(serve)
        if inspection.obstacle:
            raise StartFailed(inspection.obstacle, code="cannot_start")
        if inspection.state not in HOLDS and (problem := port_problem(serve.host, intent.port)) is not None:
            raise StartFailed(f"serve '{serve.name}': {problem}", code="cannot_start")
        intend(intent)
        log_start = self._begin_log(serve, inspection, Path(intent.log))
        if inspection.action is ContainerAction.LEAVE:
            return self._launched(serve, intent, inspection, inspection.container, log_start)
        try:
            container = await self._act(serve, inspection)
            return self._launched(serve, intent, inspection, container, log_start)
        except BaseException as failure:
            if not _is_name_taken(failure):
                await finish(asyncio.get_running_loop().create_task(self._undo(serve), name=f"undo-{serve.name}"))
            raise

    async def _act(self, serve: Serve, inspection: Inspection) -> Container | None:
        name = serve.container or ""
        if inspection.note:
            self._log.info("serve %s: %s", serve.name, inspection.note)
        for argv in _steps(serve, inspection):
            is_up = argv == list(inspection.up)
            self._log.info("serve %s: %s", serve.name, self._shown(serve, argv))
            try:
                await self._docker.command(
                    argv,
                    serve.env if is_up else {},
                    serve.ready_timeout if is_up else ASK_LIMIT,
                    serve.working_directory if is_up else None,
                )
            except DockerFailed as failure:
                text = redact(failure.message, _secrets(serve))
                raise StartFailed(f"serve '{serve.name}' was not started: {text}", code="cannot_start") from failure
        container = await self._inspect(serve)
        if container is None:
            raise StartFailed(
                f"`up` of serve '{serve.name}' ended, but created no container '{name}': give it that name "
                f"(`container_name: {name}` in a Compose file, `--name {name}` for docker run)",
                code="cannot_start",
            )
        if inspection.action in (ContainerAction.CREATE, ContainerAction.RECREATE):
            self._remember(serve, inspection, container)
        return container

    def _launched(
        self, serve: Serve, intent: StartRecord, inspection: Inspection, container: Container | None, log_start: int
    ) -> Launched:
        """A container that has ended already counts as launched: its unit reports how it ended, with its output."""
        assert container is not None
        if container.state not in (ContainerState.RUNNING, ContainerState.EXITED, ContainerState.RESTARTING):
            why = f": {container.error}" if container.error else ""
            text = f"container '{container.name}' of serve '{serve.name}' is {container.state.value} after its start"
            raise StartFailed(f"{text}{why}; see `docker inspect {container.name}`", code="cannot_start")
        if inspection.why and inspection.action is ContainerAction.LEAVE:
            self._log.warning(
                "serve %s: container %s runs already, and %s; to recreate it, type stoker serves down %s, then stoker "
                "serves up %s", serve.name, container.name, inspection.why, serve.name, serve.name,
            )  # fmt: skip
        if warning := restarts_by_itself(container):
            self._log.warning("serve %s: %s", serve.name, warning)
        pid = container.pid if is_here(container) else 0
        record = msgspec.structs.replace(
            intent,
            pid=pid,
            mark=(processes.start_mark(pid) or "") if pid else "",
            command=self._keys.command(pid) if pid else "",
            handle=f"{container.name} {container.id}",
            facts=_facts(inspection, container),
        )
        return Launched(record, self._keys.address(serve, record), Path(record.log), log_start)

    def _begin_log(self, serve: Serve, inspection: Inspection, log: Path) -> int:
        """Notes this start in the log. Returns the offset at which its own output begins. Raises StartFailed."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        what = "; ".join(self._shown(serve, argv) for argv in _steps(serve, inspection)) or "runs already"
        try:
            rotate_if_full(log, self._log_bytes)
            output = open_log(log)
            try:
                os.write(output, f"--- stoker {now}: serve '{serve.name}' on port {serve.port}: {what}\n".encode())
                return os.lseek(output, 0, os.SEEK_END)
            finally:
                os.close(output)
        except OSError as error:
            advice = remedy(error, log.parent)
            text = f"serve '{serve.name}' was not started: {log} cannot be written ({error.strerror}): {advice}"
            raise StartFailed(text, code="cannot_start") from error

    def _intent(self, serve: Serve, started_at: float) -> StartRecord:
        if not serve.container or serve.port is None:
            raise StartFailed(f"serve '{serve.name}' needs a `container` and a `port`", code="cannot_start")
        return StartRecord(
            name=serve.name,
            pid=0,
            mark="",
            command="",
            fingerprint=self._keys.fingerprint(serve),
            port=serve.port,
            nonce=secrets.token_hex(16),
            takes_key=False,
            started_at=started_at,
            log=str(log_path(self._logs, serve.name)),
            grace=serve.stop_grace,
            driver=Driver.COMPOSE,
            handle=serve.container,
        )

    async def _undo(self, serve: Serve) -> None:
        """Ends what a failed or cancelled start created, even if it appears only after its command was killed."""
        name = serve.container or ""
        if await self._docker.state(name) is ContainerState.MISSING:
            return
        try:
            await self._docker.stop(name, min(serve.stop_grace, _UNDO_GRACE))
        except DockerFailed as failure:
            if await self._docker.state(name) in HOLDS:
                self._log.error("container %s could not be stopped again: %s", name, failure.message)

    async def _inspect(self, serve: Serve) -> Container | None:
        try:
            return await self._docker.inspect(serve.container or "")
        except DockerFailed as failure:
            raise StartFailed(f"serve '{serve.name}': {failure.message}", code="cannot_start") from failure

    def _remember(self, serve: Serve, inspection: Inspection, container: Container) -> None:
        wanted = inspection.wanted or ContainerSpec(fingerprint=self._keys.fingerprint(serve))
        made = ContainerRecord(id=container.id, fingerprint=wanted.fingerprint, config_hash=wanted.config_hash)
        try:
            self._made.write(container.name, made)
        except OSError as error:  # harmless: the next start makes it again
            self._log.warning("the record of container %s cannot be written: %s", container.name, error.strerror)

    # -- after a restart of Stoker -----------------------------------------------------------------------------------

    def attach(
        self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]
    ) -> ContainerUnit:
        return ContainerUnit(self._docker, record, on_exit, on_gone, self._log)

    async def find(self, record: StartRecord) -> StartRecord | None:
        """The record with its container's process of now, if it still holds the GPU; else None.

        After an interrupted launch, a container that was started since counts as found; one that ran before is left
        alone. If Docker does not answer, a living process of the record counts as found.
        """
        try:
            found = await self._docker.inspect(id_of(record) or record.handle)
        except DockerFailed as failure:
            is_alive = record.pid > 0 and processes.start_mark(record.pid) == record.mark
            if not is_alive:
                self._log.warning("whether serve %s still runs cannot be found out: %s", record.name, failure.message)
            return record if is_alive else None
        if found is None or found.state not in HOLDS:
            return None
        if not id_of(record) and _unix(found.started_at) < record.started_at - _CLOCKS:
            return None
        pid = found.pid if is_here(found) else 0
        mark = (processes.start_mark(pid) or "") if pid else ""
        return msgspec.structs.replace(record, pid=pid, mark=mark, handle=f"{found.name} {found.id}")

    def _shown(self, serve: Serve, argv: Sequence[str]) -> str:
        return redact(" ".join(argv), _secrets(serve))


def _steps(serve: Serve, inspection: Inspection) -> list[list[str]]:
    is_only_created = up_command.only_creates(inspection.up)
    return steps(inspection.action, inspection.container, serve.container or "", inspection.up, is_only_created)


def _facts(inspection: Inspection, container: Container) -> dict[str, str | int | float]:
    """Facts to show beside the engine's own; `health` and `drift` only if they are known."""
    facts: dict[str, str | int | float] = {"container": container.id[:12], "image": container.image}
    if container.health:
        facts["container_health"] = container.health
    if inspection.why and inspection.action is ContainerAction.LEAVE:
        facts["drift"] = inspection.why
    return facts


def _secrets(serve: Serve) -> list[str]:
    own = [serve.key.reveal()] if serve.key is not None else []
    return own + [value for name, value in serve.env.items() if is_secret(name) and value]


def _is_name_taken(failure: BaseException) -> bool:
    cause = failure.__cause__
    return isinstance(cause, DockerFailed) and cause.fault is DockerFault.NAME_TAKEN


def _unix(stamp: str) -> float:
    """A time of Docker's; 0 if it is not one."""
    try:
        return max(0.0, datetime.fromisoformat(stamp).timestamp())
    except ValueError:
        return 0.0


CODE_LIMIT = 1.0
"""Seconds that Docker has to report how a container ended."""
RETRY_PAUSE = 0.5
LOOK_EVERY = 10.0
"""Seconds between two questions whether somebody has paused it."""
_SIGNALS = range(129, 193)


def is_here(container: Container) -> bool:
    """Whether its process runs on this machine. If the daemon runs elsewhere or in a virtual machine, its process
    number means nothing here.
    """
    try:
        return container.pid > 0 and container.id in Path(f"/proc/{container.pid}/cgroup").read_text("ascii", "replace")
    except OSError:
        return False


def id_of(record: StartRecord) -> str:
    """The container's id; empty: its launch was interrupted before that was known."""
    return record.handle.partition(" ")[2]


def exit_code(container: Container) -> int | None:
    """The exit code, negative for a signal; None if it runs, or never ran."""
    if container.state not in (ContainerState.EXITED, ContainerState.DEAD, ContainerState.RESTARTING):
        return None
    code = container.exit_code
    return 128 - code if code in _SIGNALS else code


class ContainerUnit:
    """Implements `drivers.unit.Unit`. The container's output goes to the record's log as it comes.

    If its process runs on this machine, its end is noticed at once; `on_exit` follows when Docker has reported the exit
    code and the last output, within two times CODE_LIMIT seconds. Otherwise a `docker wait` notices. A daemon that does
    not answer does not count as an end.

    Raises ProcessLookupError if an adopted container is gone. If a container that was just launched is gone, that is
    reported as its end.
    """

    ended_how = ""

    def __init__(
        self,
        docker: Docker,
        record: StartRecord,
        on_exit: Callable[[int | None], None],
        on_gone: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._docker = docker
        self._record = record
        self._name = record.handle.partition(" ")[0]
        self._id = id_of(record)
        self._on_exit = on_exit
        self._log = log
        self.pid: int | None = record.pid or None
        self.code: int | None = None
        self._exited = asyncio.Event()
        self._killed_at: float | None = None
        self._signalled: signal.Signals | None = None
        self._ending = Termination(f"container {self._name}", self._end, on_gone, log)
        self._watch: ExitWatch | None = None
        self._asking: asyncio.Task[None] | None = None
        self._watch_exit()
        # an earlier run of Stoker has already copied the older output of an adopted container
        since = time.time() if record.ready else record.started_at
        loop = asyncio.get_running_loop()
        self._following = loop.create_task(self._follow_output(since), name=f"log-{self._name}")
        self._looking = loop.create_task(self._unpause_whenever_paused(), name=f"look-{self._name}")

    def _watch_exit(self) -> None:
        if self.pid is None:
            self._ask(self._wait())
            return
        try:
            self._watch = ExitWatch(self.pid, lambda code: self._ask(self._learn_code()))
            if self._is_alive():  # asked only now, because a watched process cannot change its number
                return
            self._watch.close()
        except ProcessLookupError:
            pass
        if self._record.ready:
            raise ProcessLookupError(self.pid)
        self._ask(self._learn_code())

    def on_ready(self) -> None:
        """Nothing changes: its process is watched."""

    async def end(self, grace: float) -> None:
        """See `Unit.end`. Raises StokerError `unkillable`, or DockerFailed if it cannot be stopped."""
        await self._ending.end(grace)

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, but returns at once; this object owns the task. None: it is gone already."""
        return self._ending.begin_end(grace)

    def release(self) -> None:
        """Stop watching it; it runs on."""
        if self._watch is not None:
            self._watch.close()
        for task in self._tasks():
            task.cancel()

    # -- noticing its end ------------------------------------------------------------------------------------------

    def _ask(self, question: Coroutine[Any, Any, None]) -> None:
        self._asking = asyncio.get_running_loop().create_task(question, name=f"exit-{self._name}")

    async def _learn_code(self) -> None:
        """Waits for the exit code: the process is gone, but Docker needs a moment to notice."""
        found = None
        with contextlib.suppress(DockerFailed, TimeoutError):
            async with asyncio.timeout(CODE_LIMIT):
                while True:
                    found = await self._docker.inspect(self._id)
                    if found is None or found.pid != self.pid:
                        break
                    await asyncio.sleep(POLL_INTERVAL)
        await self._report_end(found)

    async def _wait(self) -> None:
        while True:
            with contextlib.suppress(DockerFailed):
                found = await self._docker.inspect(self._id)
                if found is None or found.state not in (ContainerState.RUNNING, ContainerState.PAUSED):
                    await self._report_end(found)
                    return
                await self._docker.wait(self._id)
                continue
            await asyncio.sleep(RETRY_PAUSE)

    async def _unpause_whenever_paused(self) -> None:
        """A paused container has the memory and answers nobody: requests to it would hang."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            with contextlib.suppress(DockerFailed):
                if await self._docker.state(self._id) is ContainerState.PAUSED:
                    await self._docker.unpause(self._id)
                    self._log.warning(
                        "container %s was paused, and Stoker resumed it, because serve '%s' is loaded; to free its "
                        "memory: stoker serves down %s", self._name, self._record.name, self._record.name,
                    )  # fmt: skip

    async def _report_end(self, found: Container | None) -> None:
        """Reports the end after the last output, and adds the reason if only Docker knows it."""
        await asyncio.wait([self._following], timeout=CODE_LIMIT)
        if found is not None and (why := found.error or ("out of memory" if found.out_of_memory else "")):
            self._write(f"--- stoker: Docker about its exit: {why}\n".encode())
        self._report_exit(exit_code(found) if found is not None else None)

    async def _follow_output(self, since: float) -> None:
        try:
            await self._docker.follow(self._id, since, self._write)
        except DockerFailed as failure:
            self._log.warning("the log of container %s is no longer written: %s", self._name, failure.message)

    def _write(self, data: bytes) -> None:
        """Opens the log for each write, as it may have been rotated or deleted. A full disk only loses lines."""
        with contextlib.suppress(OSError):
            output = open_log(Path(self._record.log))
            try:
                os.write(output, data)
            finally:
                os.close(output)

    def _report_exit(self, code: int | None) -> None:
        if self._exited.is_set():
            return
        self.code = code
        self._exited.set()
        self._on_exit(code)

    # -- ending it -------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        code = await self._until_gone()
        self.release()
        await asyncio.wait(self._tasks())
        self._report_exit(code)

    async def _until_gone(self) -> int | None:
        """Stop the container, and check until it has stopped. Returns the exit code, if known."""
        while True:
            try:
                found = await self._docker.inspect(self._id)
            except DockerFailed as failure:
                if self._is_over_without_docker(failure):
                    return None
                await asyncio.sleep(POLL_INTERVAL)
                continue
            state = ContainerState.MISSING if found is None else found.state
            if state not in HOLDS and not self._is_alive():
                return None if found is None else exit_code(found)
            for step in STEPS[state]:
                if step == "unpause":
                    with contextlib.suppress(DockerFailed):  # it may have started again
                        await self._docker.unpause(self._id)
                else:
                    await self._stop()
            self._give_up_late()
            await asyncio.sleep(POLL_INTERVAL)

    async def _stop(self) -> None:
        """`docker stop` with the rest of the grace; SIGKILL if the grace is shortened in the meantime."""
        loop = asyncio.get_running_loop()
        stopping = loop.create_task(self._docker.stop(self._id, self._ending.kill_at - loop.time()))
        try:
            while not stopping.done():
                await asyncio.wait([stopping], timeout=POLL_INTERVAL)
                if loop.time() >= self._ending.kill_at and self._killed_at is None and not stopping.done():
                    self._killed_at = loop.time()
                    with contextlib.suppress(DockerFailed):  # it has ended
                        await self._docker.kill(self._id)
        finally:
            stopping.cancel()
            await asyncio.wait([stopping])
        with contextlib.suppress(DockerFailed):  # the caller checks the result next
            stopping.result()

    def _is_over_without_docker(self, failure: DockerFailed) -> bool:
        """The daemon is gone, and containers outlive it: signals the process itself, if it is local and permitted."""
        now = asyncio.get_running_loop().time()
        if self.pid is None:
            if now >= self._ending.kill_at + ASK_LIMIT:
                raise failure
            return False
        if not self._is_alive():
            return True
        number = signal.SIGTERM if now < self._ending.kill_at else signal.SIGKILL
        try:
            if number is not self._signalled:  # to an engine a second SIGTERM may mean "end at once"
                os.kill(self.pid, number)
                self._signalled = number
        except ProcessLookupError:
            return True
        except PermissionError:
            raise DockerFailed(
                failure.fault, f"container '{self._name}' still runs as process {self.pid}: {failure.message}"
            ) from failure
        self._give_up_late()
        return False

    def _give_up_late(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._ending.kill_at:
            return
        self._killed_at = now if self._killed_at is None else self._killed_at
        if now - self._killed_at > UNKILLABLE_AFTER:
            raise StokerError(
                f"container '{self._name}' survives SIGKILL: it hangs in the kernel; look at `dmesg` and "
                f"`docker inspect {self._name}`, a restart of the machine may be needed",
                code="unkillable",
            )

    def _tasks(self) -> list[asyncio.Task[None]]:
        own = [self._following, self._looking]
        return own if self._asking is None else [*own, self._asking]

    def _is_alive(self) -> bool:
        return self.pid is not None and is_alive(self.pid) and processes.start_mark(self.pid) == self._record.mark
