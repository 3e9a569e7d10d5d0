"""What to do with a container, as tables. Pure: nothing here calls Docker.

A running container with the right configuration is left alone. A stopped one with another configuration is created
anew, never started with an old model. A container of another owner is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec


class ContainerState(Enum):
    """Docker's states, with MISSING (no such container) and UNKNOWN (the daemon did not answer)."""

    MISSING = "missing"
    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    RESTARTING = "restarting"
    EXITED = "exited"
    DEAD = "dead"
    REMOVING = "removing"
    UNKNOWN = "unknown"


class ContainerMatch(Enum):
    """Whether a container is what the configuration describes now."""

    SAME = "same"
    CHANGED = "changed"
    UNKNOWN = "unknown"
    """Its name and image are right, but it is unknown how it was created."""


class ContainerAction(Enum):
    LEAVE = "leave"
    START = "start"
    UNPAUSE = "unpause"
    CREATE = "create"
    RECREATE = "recreate"
    REFUSE = "refuse"


_SAME, _CHANGED, _UNKNOWN = ContainerMatch.SAME, ContainerMatch.CHANGED, ContainerMatch.UNKNOWN
TABLE: dict[tuple[ContainerState, ContainerMatch], ContainerAction] = {
    (ContainerState.MISSING, _SAME): ContainerAction.CREATE,
    (ContainerState.MISSING, _CHANGED): ContainerAction.CREATE,
    (ContainerState.MISSING, _UNKNOWN): ContainerAction.CREATE,
    (ContainerState.CREATED, _SAME): ContainerAction.START,
    (ContainerState.CREATED, _CHANGED): ContainerAction.RECREATE,
    (ContainerState.CREATED, _UNKNOWN): ContainerAction.RECREATE,
    # A running container that drifted may be in use: it is reported, and created anew after a `down`.
    (ContainerState.RUNNING, _SAME): ContainerAction.LEAVE,
    (ContainerState.RUNNING, _CHANGED): ContainerAction.LEAVE,
    (ContainerState.RUNNING, _UNKNOWN): ContainerAction.LEAVE,
    # A paused container serves no request.
    (ContainerState.PAUSED, _SAME): ContainerAction.UNPAUSE,
    (ContainerState.PAUSED, _CHANGED): ContainerAction.RECREATE,
    (ContainerState.PAUSED, _UNKNOWN): ContainerAction.RECREATE,
    (ContainerState.EXITED, _SAME): ContainerAction.START,
    (ContainerState.EXITED, _CHANGED): ContainerAction.RECREATE,
    (ContainerState.EXITED, _UNKNOWN): ContainerAction.RECREATE,
    # Odd states are left to the operator.
    (ContainerState.RESTARTING, _SAME): ContainerAction.REFUSE,
    (ContainerState.RESTARTING, _CHANGED): ContainerAction.REFUSE,
    (ContainerState.RESTARTING, _UNKNOWN): ContainerAction.REFUSE,
    (ContainerState.DEAD, _SAME): ContainerAction.REFUSE,
    (ContainerState.DEAD, _CHANGED): ContainerAction.REFUSE,
    (ContainerState.DEAD, _UNKNOWN): ContainerAction.REFUSE,
    (ContainerState.REMOVING, _SAME): ContainerAction.REFUSE,
    (ContainerState.REMOVING, _CHANGED): ContainerAction.REFUSE,
    (ContainerState.REMOVING, _UNKNOWN): ContainerAction.REFUSE,
    # The daemon did not answer: do nothing.
    (ContainerState.UNKNOWN, _SAME): ContainerAction.REFUSE,
    (ContainerState.UNKNOWN, _CHANGED): ContainerAction.REFUSE,
    (ContainerState.UNKNOWN, _UNKNOWN): ContainerAction.REFUSE,
}

STEPS: dict[ContainerState, tuple[str, ...]] = {
    ContainerState.RUNNING: ("stop",),
    ContainerState.PAUSED: ("unpause", "stop"),  # SIGTERM reaches a frozen process only when it thaws
    ContainerState.RESTARTING: ("stop",),  # this also ends the restart loop
    ContainerState.MISSING: (),
    ContainerState.CREATED: (),
    ContainerState.EXITED: (),
    ContainerState.DEAD: (),
    ContainerState.REMOVING: (),
    ContainerState.UNKNOWN: (),
}
"""How a container in each state is ended, in Docker's verbs. Empty: nothing runs, or it cannot be stopped."""

HOLDS = frozenset(state for state, steps in STEPS.items() if steps)
"""States in which it holds its memory, or will take it again without Stoker."""


@dataclass(frozen=True, slots=True)
class Container:
    """What `docker inspect` says of one container; times as Docker writes them (RFC 3339, UTC)."""

    id: str
    name: str
    state: ContainerState
    pid: int = 0
    """Process number on the daemon's machine; 0 if it does not run."""
    image_id: str = ""
    image: str = ""
    """The image's name, as `docker run` got it."""
    command: tuple[str, ...] = ()
    """What runs in it, without the image's entrypoint."""
    labels: Mapping[str, str] = field(default_factory=dict)
    restart_policy: str = "no"
    health: str = ""
    """`healthy`, `unhealthy`, `starting`; empty: it has no health check."""
    exit_code: int = 0
    out_of_memory: bool = False
    """Killed at the container's own memory limit."""
    error: str = ""
    """Why Docker could not start it."""
    started_at: str = ""


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How one of Stoker's containers was made. Holds no secret: `fingerprint` is a keyed digest."""

    id: str
    fingerprint: str
    config_hash: str = ""
    """Compose's own hash at that time; empty if `up` is not Compose, or the hash could not be read."""


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the container would be created from now. Empty texts are unknown, and not compared."""

    fingerprint: str
    config_hash: str = ""
    image_id: str = ""
    """The id of the image that the container's image name means now."""


def parse(entry: Mapping[str, object]) -> Container:
    """Reads one element of `docker inspect`. Raises msgspec.ValidationError for anything but a container."""
    found = msgspec.convert(entry, _Inspected)
    state, config = found.State, found.Config
    return Container(
        id=found.Id,
        name=found.Name.removeprefix("/"),
        state=ContainerState(state.Status) if state.Status in _SAID else ContainerState.UNKNOWN,
        pid=state.Pid,
        image_id=found.Image,
        image=config.Image,
        command=tuple(config.Cmd or ()),
        labels=config.Labels or {},
        restart_policy=found.HostConfig.RestartPolicy.Name or "no",
        health=state.Health.Status if state.Health is not None else "",
        exit_code=state.ExitCode,
        out_of_memory=state.OOMKilled,
        error=state.Error,
        started_at=state.StartedAt,
    )


def compare(
    container: Container | None, made: ContainerRecord | None, wanted: ContainerSpec
) -> tuple[ContainerMatch, str]:
    """Whether the container is up to date, and what differs, in words.

    1. The image's name points to another image now: drifted.
    2. Stoker made it: drifted exactly if Stoker's fingerprint or Compose's hash has changed.
    3. Compose made it for another owner: drifted exactly if its label is not Compose's present hash.
    4. Otherwise unknown.
    """
    if container is None:
        return ContainerMatch.SAME, ""
    if wanted.image_id and container.image_id != wanted.image_id:  # 1
        return ContainerMatch.CHANGED, f"the image {container.image} has changed"
    label = container.labels.get(CONFIG_HASH, "")
    if made is not None and made.id == container.id:  # 2
        if made.fingerprint != wanted.fingerprint:
            return ContainerMatch.CHANGED, "the serve's configuration has changed"
        before = made.config_hash or label
        if before and wanted.config_hash and before != wanted.config_hash:
            return ContainerMatch.CHANGED, "the Compose file has changed"
        return ContainerMatch.SAME, ""
    if label and wanted.config_hash:  # 3
        if label == wanted.config_hash:
            return ContainerMatch.SAME, ""
        return ContainerMatch.CHANGED, "the Compose file has changed"
    return ContainerMatch.UNKNOWN, "how it was created is unknown"  # 4


def steps(
    action: ContainerAction, container: Container | None, name: str, up: Sequence[str], only_creates: bool = False
) -> list[list[str]]:
    """The commands of an action, in order. A container is removed by its id, because its name may belong to another one
    by then.
    """
    make = [list(up), ["docker", "start", name]] if only_creates else [list(up)]
    if action is ContainerAction.CREATE:
        return make
    if action is ContainerAction.START:
        return [["docker", "start", name]]
    if action is ContainerAction.UNPAUSE:
        return [["docker", "unpause", name]]
    if action is ContainerAction.RECREATE and container is not None:
        force = ["--force"] if container.state in HOLDS else []
        return [["docker", "rm", *force, container.id], *make]
    return []


def refusal(state: ContainerState, name: str) -> str:
    """Why the operator has to act, with what to type."""
    return {
        ContainerState.RESTARTING: (
            f"container '{name}' exits and is restarted again and again: see `docker logs {name}`, "
            f"then `docker stop {name}`"
        ),
        ContainerState.DEAD: f"container '{name}' is dead: Docker could not remove it; type `docker rm --force {name}`",
        ContainerState.REMOVING: (
            f"container '{name}' is being removed: wait until `docker ps --all` no longer lists it"
        ),
    }.get(state, f"the state of container '{name}' is not known: look at `docker inspect {name}`")


def restarts_by_itself(container: Container) -> str:
    """A sentence if its restart policy starts it again after a `down`; empty if not."""
    if container.restart_policy != "always":
        return ""
    return (
        f"container '{container.name}' has the restart policy `always`: after a stop it starts again when Docker or "
        f'the machine restarts; write `restart: "no"` into its definition, '
        f"or `docker update --restart=no {container.name}`"
    )


CONFIG_HASH = "com.docker.compose.config-hash"
_SAID = frozenset(state.value for state in ContainerState) - {
    ContainerState.MISSING.value,
    ContainerState.UNKNOWN.value,
}


class _Health(msgspec.Struct):
    Status: str = ""


class _State(msgspec.Struct):
    Status: str
    Pid: int = 0
    ExitCode: int = 0
    OOMKilled: bool = False
    Error: str = ""
    StartedAt: str = ""
    Health: _Health | None = None


class _Config(msgspec.Struct):
    Image: str = ""
    Cmd: list[str] | None = None
    Labels: dict[str, str] | None = None


class _Policy(msgspec.Struct):
    Name: str = "no"


class _HostConfig(msgspec.Struct):
    RestartPolicy: _Policy = msgspec.field(default_factory=_Policy)


class _Inspected(msgspec.Struct):
    Id: str
    Name: str
    State: _State
    Image: str = ""
    Config: _Config = msgspec.field(default_factory=_Config)
    HostConfig: _HostConfig = msgspec.field(default_factory=_HostConfig)
