"""The container driver: a serve's `up` (Compose or any other command) creates its container, and Docker runs it.

Reading order: `inspect` (state, owner and drift of the container; see `inspection`), then `start_problems`, `plan` and
`launch`, which act on it, then `find` and `attach`, for after a restart of Stoker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from collections.abc import Container as Taken
from datetime import datetime
from pathlib import Path

import msgspec

from stoker.domain.access import Paths
from stoker.domain.errors import StartFailed
from stoker.domain.serve import Driver, Serve
from stoker.engines.last_output import redact
from stoker.fleet.drivers import up_command
from stoker.fleet.drivers.container_records import ContainerRecords
from stoker.fleet.drivers.container_unit import ContainerUnit, id_of, is_here
from stoker.fleet.drivers.containers import (
    HOLDS,
    Container,
    ContainerAction,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    restarts_by_itself,
    steps,
)
from stoker.fleet.drivers.docker import ASK_LIMIT, Docker, DockerFailed, DockerFault
from stoker.fleet.drivers.inspection import Inspection, Inspector
from stoker.fleet.drivers.termination import finish
from stoker.fleet.drivers.unit import Launched
from stoker.fleet.process import identity
from stoker.fleet.process.environment import is_secret
from stoker.fleet.process.keys import Keys
from stoker.fleet.process.logs import log_path, open_log, rotate_if_full
from stoker.fleet.process.ports import port_problem
from stoker.fleet.process.start_records import StartRecord
from stoker.store.files.remedies import remedy

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
                "serve %s: container %s runs already, and %s; to recreate it, type stoker serves down %s, then up",
                serve.name, container.name, inspection.why, serve.name,
            )  # fmt: skip
        if warning := restarts_by_itself(container):
            self._log.warning("serve %s: %s", serve.name, warning)
        pid = container.pid if is_here(container) else 0
        record = msgspec.structs.replace(
            intent,
            pid=pid,
            mark=(identity.start_mark(pid) or "") if pid else "",
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
            is_alive = record.pid > 0 and identity.start_mark(record.pid) == record.mark
            if not is_alive:
                self._log.warning("whether serve %s still runs cannot be found out: %s", record.name, failure.message)
            return record if is_alive else None
        if found is None or found.state not in HOLDS:
            return None
        if not id_of(record) and _unix(found.started_at) < record.started_at - _CLOCKS:
            return None
        pid = found.pid if is_here(found) else 0
        mark = (identity.start_mark(pid) or "") if pid else ""
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
