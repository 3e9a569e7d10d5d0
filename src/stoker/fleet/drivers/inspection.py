"""The state of a serve's container, how it was made, and what a start would do about it. Asks Docker and Compose."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.domain.serve import Serve
from stoker.engines.launch import find_command
from stoker.fleet.drivers import up_command
from stoker.fleet.drivers.containers import (
    TABLE,
    Container,
    ContainerAction,
    ContainerMatch,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    compare,
    refusal,
)
from stoker.fleet.drivers.docker import ASK_LIMIT, Docker, DockerFailed, is_compose
from stoker.fleet.process.environment import port_problem
from stoker.fleet.process.identity import Keys
from stoker.store.files import atomic


class ContainerRecords:
    """Written by rename: a reader sees the old one or the new one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, container: str) -> ContainerRecord | None:
        """None: no record of a container of this name, or an unreadable one."""
        try:
            return msgspec.json.decode(self._path(container).read_bytes(), type=ContainerRecord)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def write(self, container: str, made: ContainerRecord) -> None:
        """Raises OSError. Not synced to disk: after a power cut the container may count as unknown."""
        atomic.write(self._path(container), msgspec.json.encode(made), is_synced=False, make_parents=True)

    def _path(self, container: str) -> Path:
        """Names of Docker are safe file names: letters, digits, `_`, `.` and `-`, the first not a `.`."""
        return self._directory / f"{container}.json"


@dataclass(frozen=True, slots=True)
class Inspection:
    """The state of one serve's container, and what a start would do about it."""

    state: ContainerState
    action: ContainerAction
    container: Container | None = None
    match: ContainerMatch = ContainerMatch.SAME
    why: str = ""
    """What drifted, in words."""
    obstacle: str = ""
    """Why nothing can be done, with what to type; `action` is then REFUSE."""
    up: tuple[str, ...] = ()
    """The `up` command with its placeholders filled in, using the installed Compose."""
    wanted: ContainerSpec | None = None
    note: str = ""
    """A notice if another Compose is used than `up` names."""


class Inspector:
    def __init__(self, docker: Docker, made: ContainerRecords, keys: Keys) -> None:
        self._docker = docker
        self._made = made
        self._keys = keys

    async def inspect(self, serve: Serve) -> Inspection:
        """Changes nothing, never raises. Takes tens of milliseconds; a few hundred if Compose reads its file."""
        name = serve.container or ""
        try:
            up, note = await self._with_installed_compose(up_command.fill(serve))
            container = await self._docker.inspect(name)
            state = ContainerState.MISSING if container is None else container.state
            made = self._made.read(name)
            if container is not None and (
                stranger := up_command.ownership_problem(container, made, up, serve.working_directory)
            ):
                return Inspection(
                    state, ContainerAction.REFUSE, container, obstacle=_foreign(serve, stranger), up=tuple(up)
                )
            wanted = await self._wanted(serve, up, container)
        except DockerFailed as failure:
            return Inspection(
                ContainerState.UNKNOWN, ContainerAction.REFUSE, obstacle=f"serve '{serve.name}': {failure.message}"
            )
        drifted, why = compare(container, made, wanted)
        if stranger := _stranger(serve, container, drifted, up):
            return Inspection(
                state, ContainerAction.REFUSE, container, drifted, why, _foreign(serve, stranger), tuple(up)
            )
        action = TABLE[state, drifted]
        obstacle = ""
        if action is ContainerAction.REFUSE:
            obstacle = f"serve '{serve.name}': {refusal(state, name)}"
        elif action in (ContainerAction.CREATE, ContainerAction.RECREATE) and not up:
            what = "is not there" if container is None else f"has to be recreated ({why})"
            obstacle = f"container '{name}' of serve '{serve.name}' {what}, and the serve has no `up`: give it one"
        return Inspection(
            state,
            ContainerAction.REFUSE if obstacle else action,
            container,
            drifted,
            why,
            obstacle,
            tuple(up),
            wanted,
            note,
        )

    async def lacking(self, serve: Serve, up: Sequence[str]) -> list[str]:
        """What `up` needs but is missing here. Asked before another serve stops."""
        who = f"serve '{serve.name}'"
        if find_command(serve, up[0]) is None:
            return [f"the command `{up[0]}` of {who} is not there: install it, or correct `up`"]
        if is_compose(up):
            own = await self._service(serve, up)
            if own is None:
                return [
                    f"no service of the Compose file of {who} creates container '{serve.container}': write "
                    f"`container_name: {serve.container}` into it"
                ]
            if own.image and not await self._docker.images([own.image]):
                return [f"the image {own.image} of {who} is not on this machine: type `docker pull {own.image}`"]
        elif up_command.verb_of(up) in ("run", "create"):
            words = [word for word in up[2:] if not word.startswith(("-", "/"))]
            if not await self._docker.images(words):
                image = up_command.named_image(up)
                return [f"{who}: the image {image} is not on this machine: type `docker pull {image}`"]
        return []

    async def _with_installed_compose(self, words: list[str]) -> tuple[list[str], str]:
        """Replaces `docker compose` by `docker-compose` or the other way, if only one of them is installed."""
        if not is_compose(words):
            return words, ""
        is_plugin = os.path.basename(words[0]) == "docker"
        if is_plugin:
            if (program := shutil.which("docker-compose")) is None or await self._docker.has_compose():
                return words, ""
            return [program, *words[2:]], f"`docker compose` is not installed: {program} is used"
        if shutil.which(words[0]) is not None or not await self._docker.has_compose():
            return words, ""
        return ["docker", "compose", *words[1:]], f"`{words[0]}` is not installed: `docker compose` is used"

    async def _wanted(self, serve: Serve, up: Sequence[str], container: Container | None) -> ContainerSpec:
        """What the container would be created from now. Also for a missing one, because it is recorded on creation."""
        fingerprint = self._keys.fingerprint(serve)
        config_hash = image = ""
        if is_compose(up):
            service = up_command.service_of(container)
            if not service and (own := await self._service(serve, up)) is not None:
                service = own.name
            if service:
                said = (await self._compose(serve, up_command.hash_command(up, service))).split()
                config_hash = said[-1] if said else ""
        if container is not None:
            image = "".join((await self._docker.images([container.image]))[:1])
        return ContainerSpec(fingerprint=fingerprint, config_hash=config_hash, image_id=image)

    async def _service(self, serve: Serve, up: Sequence[str]) -> up_command.Service | None:
        services = up_command.services(await self._compose(serve, up_command.config_command(up)))
        return up_command.service_for(services, serve.container or "")

    async def _compose(self, serve: Serve, argv: Sequence[str]) -> str:
        return (await self._docker.command(argv, serve.env, ASK_LIMIT, serve.working_directory)).out


def _stranger(serve: Serve, container: Container | None, match: ContainerMatch, up: Sequence[str]) -> str:
    """A running container that nobody knows how it was made, with another program than `up` has, which serves nothing:
    it would be waited for in vain.
    """
    if container is None or container.state is not ContainerState.RUNNING or match is not ContainerMatch.UNKNOWN:
        return ""
    is_silent = serve.port is not None and port_problem(serve.host, serve.port) is None
    if not is_silent or not up_command.runs_another_command(container, up):
        return ""
    return f"runs another command than its `up`, and nothing listens on port {serve.port}"


def _foreign(serve: Serve, whose: str) -> str:
    name = serve.container
    return (
        f"container '{name}' {whose}: it does not belong to serve '{serve.name}' and is left "
        "alone; give the serve another "
        f"`container`, or type `docker rm --force {name}` if it is not needed"
    )
