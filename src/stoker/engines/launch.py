"""What a start of an engine needs: the record that every engine fills in, and the search for commands."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.domain.serve import SUSPENDED, Driver, Serve

_NOWHERE = ("0.0.0.0", "::", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Rank:
    """Which part of an engine on several machines this is, and where all of them find rank 0."""

    number: int
    count: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class LaunchPlace:
    """The values of one start. The engine asks for `key`; only Stoker knows it."""

    port: int
    key: str = field(repr=False)
    conversations: str | None = None
    """The directory for saved KV caches, with a slash at its end; None: none are saved."""
    rank: Rank | None = None
    """None: the engine has one part."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line and what the engine needs in its environment, the key included."""

    argv: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    takes_key: bool = True
    """Whether the engine asks for `LaunchPlace.key`."""


def find_command(serve: Serve, command: str) -> str | None:
    """The absolute path of an executable, as the child would find it; None: not found. A name is looked up on PATH (the
    serve's own, if its `env` sets one), a path is relative to the serve's directory. For a job it is returned as it is:
    the node looks for it.
    """
    if serve.driver is Driver.RAY:
        return command
    if os.sep in command:
        path = os.path.join(serve.working_directory, command)
        return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
    return shutil.which(command, path=serve.env.get("PATH", os.environ.get("PATH", os.defpath)))


def find_engine(serve: Serve, command: str) -> str | None:
    """As `find_command` for a name; after PATH, it also searches beside Stoker's own interpreter, where `pip install`
    puts it.
    """
    if serve.driver is Driver.RAY:
        return command
    beside = os.path.join(os.path.dirname(sys.executable), command)
    return find_command(serve, command) or find_command(serve, beside)


def sleeps_by_itself(serve: Serve) -> bool:
    """Whether the engine has to be started so that it can sleep; the driver suspends any engine."""
    return serve.sleep_level not in (None, SUSPENDED)


def own_address(serve: Serve, place: LaunchPlace) -> str | None:
    """The address at which the parts of an engine on several machines find this one: the one that it listens on.

    None if there are no such parts, or if no other machine can use that address.
    """
    if place.rank is not None:
        return serve.host
    if serve.tuning.rendezvous is None or serve.host in _NOWHERE or serve.host.startswith("127."):
        return None
    return serve.host


def missing_engine(serve: Serve, title: str, program: str) -> list[str]:
    """The message for an engine that is not there, and whose package has the name of its program, as one sentence."""
    package = program.partition(".")[0].replace("_", "-")
    return [
        f"serve '{serve.name}': {title} is needed, and there is no `{program}` on PATH: type `pip install {package}`, "
        "or add the directory that it is in to `env.PATH`"
    ]


def missing_command(serve: Serve, command: str) -> str:
    """The message for a command that `find_command` does not find."""
    if os.sep in command:
        path = os.path.join(serve.working_directory, command)
        return (
            f"the command {path} of serve '{serve.name}' is not an executable file: correct `cmd`, or install it there"
        )
    return (
        f"the command `{command}` of serve '{serve.name}' is not on PATH: install it, or write its full path into `cmd`"
    )
