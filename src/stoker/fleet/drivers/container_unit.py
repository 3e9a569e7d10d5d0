"""One running container: watches it, copies its output, and ends it on request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from stoker.domain.errors import StokerError
from stoker.fleet.drivers.containers import HOLDS, STEPS, Container, ContainerState
from stoker.fleet.drivers.docker import ASK_LIMIT, Docker, DockerFailed
from stoker.fleet.drivers.exit_watch import ExitWatch, is_alive
from stoker.fleet.drivers.termination import POLL_INTERVAL, UNKILLABLE_AFTER, Termination
from stoker.fleet.process import identity
from stoker.fleet.process.logs import open_log
from stoker.fleet.process.start_records import StartRecord

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
        return self.pid is not None and is_alive(self.pid) and identity.start_mark(self.pid) == self._record.mark
