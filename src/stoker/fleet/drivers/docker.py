"""The `docker` command: one short-lived child per call, bounded in time and in the output that is kept.

Every failure is a sentence with the next step.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from stoker.domain.errors import StokerError
from stoker.fleet.drivers.containers import Container, ContainerState, parse
from stoker.fleet.drivers.process_group import ExitWatch, reap
from stoker.fleet.process.environment import child_environment

OUTPUT = 2**20
"""How many bytes of each output are kept, from its end."""
_PIECE = 2**16


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How it ended; `code` is negative for a signal."""

    code: int
    out: str
    err: str


async def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    limit: float | None,
    directory: str | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> CommandResult:
    """Run `argv` for at most `limit` seconds (None: no limit), in its own session. It has ended when its outputs are
    closed, too.

    `on_output` gets both outputs as they come, and nothing is kept then. Raises OSError if it cannot be started, and
    TimeoutError; then, and on cancel, its process group is killed before the call returns.
    """
    child = _Child(argv, environment, directory, on_output)
    try:
        async with asyncio.timeout(limit):
            await child.ended.wait()
    finally:
        if not child.ended.is_set():
            child.kill()
        await _surely(child.exited)
        child.close()
    return CommandResult(child.code, child.text(child.out), child.text(child.err))


class _Child:
    """A child that is created without an await, so that a cancel cannot leave it half created.

    (The event loop's own subprocesses are created in several steps, some of them in tasks. If these are cancelled
    when a loop is closed, a child is left that is waited for without end.)
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | None,
        on_output: Callable[[bytes], None] | None,
    ) -> None:
        self.ended = asyncio.Event()
        self.exited = asyncio.Event()
        self.code = 0
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        (self.out, out), (self.err, err) = os.pipe(), os.pipe()
        self._open = {self.out, self.err}
        self._kept = {self.out: bytearray(), self.err: bytearray()}
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(environment),
                cwd=directory,
                start_new_session=True,
            )
        except BaseException:
            self.close()
            raise
        finally:
            os.close(out)
            os.close(err)
        process.returncode = 0  # `reap` collects it, so Popen must neither wait for it nor warn that it lives
        self._pid = process.pid
        for pipe in self._open:
            os.set_blocking(pipe, False)
            self._loop.add_reader(pipe, self._read, pipe)
        self._watch = ExitWatch(self._pid, self._on_exit)

    def kill(self) -> None:
        """Kills the whole group, because any process left of it holds the outputs open."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)

    def close(self) -> None:
        for pipe in list(self._open):
            self._shut(pipe)
        if self.exited.is_set():
            reap(self._pid)

    def text(self, pipe: int) -> str:
        return self._kept[pipe].decode("utf-8", "replace")

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _PIECE)
        except BlockingIOError:
            return
        if not data:
            self._shut(pipe)
            self._check_ended()
        elif self._on_output is not None:
            self._on_output(data)
        else:
            kept = self._kept[pipe]
            kept += data
            del kept[:-OUTPUT]

    def _on_exit(self, code: int | None) -> None:
        self.code = code or 0
        self.exited.set()
        self._check_ended()

    def _check_ended(self) -> None:
        if self.exited.is_set() and not self._open:
            self.ended.set()

    def _shut(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        self._open.discard(pipe)
        os.close(pipe)


async def _surely(event: asyncio.Event) -> None:
    """Waits for an event that is certain to come soon; a cancel is passed on afterwards."""
    cancelled = False
    while not event.is_set():
        try:
            await event.wait()
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


ASK_LIMIT = 10.0
"""Seconds for questions."""
_STOP_LONGEST = 86_400
_OURS = (
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION",
    "COMPOSE_FILE", "COMPOSE_PROJECT_NAME", "COMPOSE_PROFILES", "COMPOSE_PATH_SEPARATOR", "SSH_AUTH_SOCK",
)  # fmt: skip


class DockerFault(Enum):
    NOT_INSTALLED = "not installed"
    NO_DAEMON = "no daemon"
    NO_PERMISSION = "no permission"
    NO_ANSWER = "no answer"
    NO_CONTAINER = "no container"
    NO_IMAGE = "no image"
    NO_GPU = "no GPU"
    NAME_TAKEN = "name taken"
    BAD_COMPOSE = "bad compose file"
    OTHER = "other"


class DockerFailed(StokerError):
    status = 503
    code = "docker_failed"

    def __init__(self, fault: DockerFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


_PATTERNS: tuple[tuple[str, DockerFault, str], ...] = (
    (
        r"permission denied[^\n]*(docker daemon|docker\.sock|docker api)|PermissionError[^\n]*Permission denied",
        DockerFault.NO_PERMISSION,
        "this user may not use Docker: type `sudo usermod -aG docker $(id -un)` and log in again",
    ),
    (
        r"cannot connect to the docker daemon|is the docker daemon running|error during connect"
        r"|failed to connect to the docker api|error while fetching server api version",
        DockerFault.NO_DAEMON,
        "the Docker daemon does not answer: type `sudo systemctl start docker`, and check DOCKER_HOST",
    ),
    (
        r"container name \"?/?(?P<what>[^\"\s]+)\"? is already in use",
        DockerFault.NAME_TAKEN,
        "another container has the name '{what}': see `docker inspect {what}`, then `docker rm {what}` or another name",
    ),
    (
        r"no such image:? (?P<what>\S+?)(?=:?\s|$)|pull access denied for (?P<other>[^\s,]+)"
        r"|manifest for (?P<third>\S+) not found|unable to find image '(?P<fourth>[^']+)'(?!.*status: downloaded)",
        DockerFault.NO_IMAGE,
        "the image {what} is not on this machine: type `docker pull {what}`, or correct its name",
    ),
    (
        r"could not select device driver|failed to discover GPU vendor|nvidia-container-cli: (?!mount error)",
        DockerFault.NO_GPU,
        "Docker cannot use the GPU: install the NVIDIA Container Toolkit, then type "
        "`sudo nvidia-ctk runtime configure --runtime=docker` and `sudo systemctl restart docker` ({last})",
    ),
    (r"no such (container|object)", DockerFault.NO_CONTAINER, "there is no such container: see `docker ps --all`"),
    (
        r"yaml|no such service|unsupported config|invalid compose|no configuration file|can't find a suitable"
        r"|FileNotFoundError|no such file or directory.*\.ya?ml|open .*\.ya?ml: no such file",
        DockerFault.BAD_COMPOSE,
        "the Compose file cannot be used: `{config}` shows why ({last})",
    ),
)
_COMPILED = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), fault, advice) for pattern, fault, advice in _PATTERNS
)


def environment(ours: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of `docker` and Compose: that of every child, the daemon's address, and a serve's own `extra`."""
    return child_environment(ours, extra or {}, {name: ours[name] for name in _OURS if name in ours})


def explain(argv: Sequence[str], said: str) -> DockerFailed:
    """The output of a failed command, as a sentence with the next step."""
    last = last_line(said)
    for pattern, fault, advice in _COMPILED:
        found = pattern.search(said)
        if found is None:
            continue
        what = next((text for text in found.groupdict().values() if text), "")
        if fault is DockerFault.BAD_COMPOSE and not is_compose(argv):
            continue
        config = " ".join([*before_verb(argv), "config"])
        return DockerFailed(fault, advice.format(what=what, config=config, last=last))
    return DockerFailed(DockerFault.OTHER, f"`{' '.join(argv[:2])}` failed: {last or 'it printed nothing'}")


def is_compose(argv: Sequence[str]) -> bool:
    """Whether a command is Docker Compose, the plugin or the program of its own."""
    name = os.path.basename(argv[0]) if argv else ""
    return name == "docker-compose" or (name == "docker" and len(argv) > 1 and argv[1] == "compose")


def before_verb(argv: Sequence[str]) -> list[str]:
    """A Compose command up to its verb: its files and its project."""
    length = 1 if os.path.basename(argv[0]) == "docker-compose" else 2
    while length < len(argv) and argv[length].startswith("-"):
        takes_value = argv[length] in _VALUED
        length += 2 if takes_value else 1
    return list(argv[:length])


def last_line(said: str) -> str:
    """The last line with text, shortened."""
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Run 'docker", "See 'docker", "See '"))]
    return telling[-1][:300] if telling else ""


_VALUED = frozenset(
    ("-f", "--file", "-p", "--project-name", "--project-directory", "--profile", "--env-file", "--ansi", "--parallel",
     "--progress", "-c", "--context", "-H", "--host", "--log-level", "--tlscacert", "--tlscert", "--tlskey")
)  # fmt: skip


class Docker:
    """Each method is one run of the `docker` command. All raise DockerFailed; on cancel the command is killed."""

    def __init__(self, ours: Mapping[str, str]) -> None:
        self._environment = environment(ours)

    async def version(self) -> str:
        """The daemon's version; proves that it runs and may be used."""
        return (await self._run_checked(["version", "--format", "{{.Server.Version}}"])).out.strip()

    async def has_compose(self) -> bool:
        return (await self._run(["compose", "version"], ASK_LIMIT)).code == 0

    async def inspect(self, name: str) -> Container | None:
        """By name or id; None: there is no such container."""
        result = await self._run(["inspect", "--type", "container", name], ASK_LIMIT)
        if result.code != 0:
            failure = explain(["docker", "inspect", name], result.err)
            if failure.fault is DockerFault.NO_CONTAINER:
                return None
            raise failure
        try:
            return parse(json.loads(result.out)[0])
        except (ValueError, IndexError, msgspec.ValidationError) as error:
            raise DockerFailed(
                DockerFault.OTHER, f"`docker inspect {name}` gave output that cannot be read: {error}"
            ) from error

    async def state(self, name: str) -> ContainerState:
        """Never raises DockerFailed: ContainerState.UNKNOWN if it cannot be determined."""
        try:
            found = await self.inspect(name)
        except DockerFailed:
            return ContainerState.UNKNOWN
        return ContainerState.MISSING if found is None else found.state

    async def images(self, names: Sequence[str]) -> list[str]:
        """The ids of the images that exist here; unknown names are left out."""
        result = await self._run(["image", "inspect", "--format", "{{.Id}}", *names], ASK_LIMIT)
        if result.code != 0 and explain(["docker", "image"], result.err).fault in _NOBODY_THERE:
            raise explain(["docker", "image"], result.err)
        return result.out.split()

    async def start(self, name: str) -> None:
        await self._run_checked(["start", name])

    async def unpause(self, name: str) -> None:
        await self._run_checked(["unpause", name])

    async def stop(self, name: str, grace: float) -> None:
        """Sends the image's stop signal, waits `grace` seconds (rounded up), sends SIGKILL. No policy restarts it."""
        seconds = math.ceil(min(max(grace, 0.0), _STOP_LONGEST))
        await self._run_checked(["stop", "--time", str(seconds), name], seconds + ASK_LIMIT)

    async def kill(self, name: str) -> None:
        await self._run_checked(["kill", name])

    async def never_restart(self, name: str) -> None:
        """Disables automatic restarts, however the container was created."""
        await self._run_checked(["update", "--restart=no", name])

    async def wait(self, name: str) -> int:
        """Waits without a limit until the container has ended. Returns its exit code."""
        return int((await self._run_checked(["wait", name], None)).out.strip() or 0)

    async def follow(self, name: str, since: float, on_output: Callable[[bytes], None]) -> None:
        """Passes its output since that time (Unix) to `on_output`, both streams, and follows it until it ends.

        If Stoker is killed, the command ends too, because nobody reads its output any more.
        """
        await self._run(["logs", "--follow", "--since", f"{since:.6f}", name], None, on_output)

    async def command(
        self, argv: Sequence[str], extra: Mapping[str, str], limit: float, directory: str | None = None
    ) -> CommandResult:
        """Any command that speaks to Docker, with `extra` in its environment."""
        seen = {**self._environment, **extra}
        try:
            result = await run(argv, seen, limit, directory)
        except TimeoutError:
            raise DockerFailed(
                DockerFault.NO_ANSWER,
                f"`{' '.join(argv[:2])}` did not end within {limit:g} s: check whether Docker hangs",
            ) from None
        except OSError as error:
            raise _not_started(argv, error) from error
        if result.code != 0:
            raise explain(argv, f"{result.out}\n{result.err}")
        return result

    async def _run_checked(self, words: Sequence[str], limit: float | None = ASK_LIMIT) -> CommandResult:
        result = await self._run(words, limit)
        if result.code != 0:
            raise explain(["docker", *words], result.err)
        return result

    async def _run(
        self, words: Sequence[str], limit: float | None, on_output: Callable[[bytes], None] | None = None
    ) -> CommandResult:
        try:
            return await run(["docker", *words], self._environment, limit, on_output=on_output)
        except TimeoutError:
            raise DockerFailed(
                DockerFault.NO_ANSWER,
                f"Docker did not answer `docker {words[0]}` within {limit:g} s: type `sudo systemctl restart docker`",
            ) from None
        except OSError as error:
            raise _not_started(["docker"], error) from error


_NOBODY_THERE = (DockerFault.NO_DAEMON, DockerFault.NO_PERMISSION)


def _not_started(argv: Sequence[str], error: OSError) -> DockerFailed:
    if isinstance(error, FileNotFoundError) and os.path.basename(argv[0]).startswith("docker"):
        return DockerFailed(
            DockerFault.NOT_INSTALLED,
            f"`{argv[0]}` is not installed: install Docker (on Debian `sudo apt install docker.io docker-compose`)",
        )
    return DockerFailed(DockerFault.OTHER, f"`{argv[0]}` cannot be started: {error.strerror}")
