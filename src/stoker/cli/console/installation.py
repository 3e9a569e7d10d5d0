"""The installation that a command works on: its configuration file, state directory and socket."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import UsageError, unknown_serve
from stoker.cli.console.options import same_place
from stoker.domain.errors import ConfigError
from stoker.extensions import FAILURES, installed_extensions, load

if TYPE_CHECKING:
    from stoker.cli.console.control import Control
    from stoker.domain.access import Settings
    from stoker.domain.serve import Serve


@dataclass(frozen=True, slots=True)
class Installation:
    """A state directory, and its configuration if there is one."""

    state: Path
    logs: Path
    start: str
    """The command that starts Stoker here."""
    settings: Settings | None = None
    place: str = ""
    """The options that name it, as they were given: `options.same_place`."""

    @property
    def file_place(self) -> str:
        """As `place`, for a command that takes `--config` alone."""
        source = self.settings.source if self.place and self.settings is not None else ""
        return f" --config {shlex.quote(source)}" if source else ""

    @property
    def socket(self) -> Path:
        return socket_of(self.state)

    def control(self) -> Control:
        """A client for the `up` that runs here. The first call raises NotRunning if none does."""
        from stoker.cli.console import terminal
        from stoker.cli.console.control import Control

        if not self.place and terminal.is_live(stderr=True):
            _name_others(self.state)
        demo = demo_state()
        start = self.start
        if self.state != demo and os.path.exists(socket_of(demo)):
            start += f" (a demo is running too: add --state {shlex.quote(str(demo))} to reach it)"
        return Control(self.socket, start)

    def configured(self) -> Settings:
        """The configuration. Raises UsageError if this command has found none."""
        if self.settings is None:
            where, way = (
                ("the demo has none", "`stoker init` writes one")
                if self.state == demo_state()
                else (f"none was found for {self.state}", "add --config FILE")
            )
            raise UsageError(f"this needs a configuration file, and {where}: {way}", code="no_configuration")
        return self.settings

    def running_name(self, name: str) -> str:
        """The serve's own name in the running Stoker, from any of its names. Raises UsageError with the nearest one."""
        with self.control() as control:
            status = control.status()
        found = status.serve(name)
        if found is None:
            raise unknown_serve(name, status.known_names(), "the running Stoker")
        return found.name if found.name == name else found.replica_of or found.name

    def serve(self, name: str) -> Serve:
        """A configured serve by any of its names, or by that of a replica. Raises UsageError with the nearest one."""
        from stoker.domain.serve import replica_names

        serves = self.settings.serves if self.settings else ()
        found = (
            next((serve for serve in serves if serve.name == name), None)
            or next((serve for serve in serves if name in serve.names()), None)
            or next((serve for serve in serves if name in replica_names(serve)), None)
        )
        if found is None:
            where = self.settings.source or "the demo" if self.settings else str(self.state)
            raise unknown_serve(name, (s.name for s in serves), where)
        return found


@cache
def _name_others(state: Path) -> None:
    """To a person: which Stoker is asked, if several run."""
    from stoker.cli.console import terminal
    from stoker.store.control_socket import running_states

    states = running_states()
    others = [other for other in states if other != state.absolute()]
    if others and len(others) < len(states):
        listed = ", ".join(f"--state {shlex.quote(str(other))}" for other in others)
        terminal.note(f"stoker: this is about the Stoker of {state}; others run: {listed}")


def demo_state() -> Path:
    """The demo's own state directory, so that it can run beside a configured Stoker."""
    from stoker.config.paths import default_state

    return default_state() / "demo"


def socket_of(state: Path) -> Path:
    """The socket where the `up` of this state directory listens for commands."""
    from stoker.store.state_dir import StateDir

    return StateDir(state).socket_path


def load_settings(config: str | None, *, needs_secrets: bool = True) -> Settings:
    """The configuration from `--config` or the search order. Raises ConfigError with every problem.

    Also checks that the engines support the settings of their serves. Without `needs_secrets`, a secret that cannot be
    read here is no problem.
    """
    from stoker.config.find import find
    from stoker.config.load import load
    from stoker.engines.plan import unsupported

    settings = _with_contexts(load(find(config), needs_secrets=needs_secrets))
    problems = [f"{settings.source}: {text}" for serve in settings.serves for text in unsupported(serve)]
    if problems:
        raise ConfigError(problems)
    return settings


def _with_contexts(settings: Settings) -> Settings:
    """With a number for each `context = "auto"`, as the program will have it."""
    if not any(serve.auto_context for serve in settings.serves):
        return settings
    from stoker.app.configuration import with_contexts

    return with_contexts(settings)


def config_warnings(settings: Settings) -> list[str]:
    """What is allowed but probably not meant: one sentence each."""
    from stoker.cli.console.context_warnings import context_warnings
    from stoker.config.warnings import warnings
    from stoker.engines import plan

    found = warnings(settings) + context_warnings(settings)
    found += [serve.context_problem for serve in settings.serves if serve.context_problem]
    found += [f"serve '{serve.name}': {text}" for serve in settings.serves for text in plan.cautions(serve)]
    return found + extension_warnings(settings)


def extension_warnings(settings: Settings) -> list[str]:
    """What extensions say of the configuration: one sentence each."""
    found = []
    for installed in installed_extensions():
        if installed.extension is not None and installed.extension.warnings:
            try:
                found += load(installed.extension.warnings)(settings)
            except FAILURES as error:
                found.append(f"extension {installed.name} cannot look at it: {type(error).__name__}: {error}")
    return found


def find_installation(config: str | None, state: str | None = None) -> Installation:
    """The installation that a command works on. Without a configuration file, a running Stoker is found, and with it
    the file that it runs on.

    A secret that cannot be read here is a problem only when it is revealed: the running Stoker has its own.

    Raises ConfigError (no file, or one with problems) and UsageError (no such state directory).
    """
    if state is not None:
        where = Path(state).expanduser().absolute()
        if not where.is_dir():
            raise UsageError(f"--state {state}: there is no such directory; a running `stoker up` creates it")
        return _of_state(where, same_place(config, state))
    from stoker.config.find import find
    from stoker.config.load import load

    try:
        path = find(config)
    except ConfigError as error:
        return _without_file(config, error)
    settings = _with_contexts(load(path, needs_secrets=False))
    return Installation(
        Path(settings.paths.state), Path(settings.paths.logs), _start(path), settings, same_place(config, state)
    )


def find_running(config: str | None, state: str | None = None) -> Installation:
    """As `find_installation`, without settings: for a command that only asks the running Stoker. Of the file, nothing
    but its state directory counts, so its problems do not matter, and a long one takes little time.
    """
    if state is None:
        from stoker.config.find import find, state_directory

        try:
            path = find(config)
        except ConfigError as error:
            return _without_file(config, error)
        where = state_directory(path)
        if where is not None:
            return Installation(where, where / "logs", _start(path), place=same_place(config, state))
    return find_installation(config, state)


def _start(path: Path) -> str:
    return f"stoker up --config {shlex.quote(str(path))}"


def _without_file(config: str | None, error: ConfigError) -> Installation:
    """A Stoker that runs with the default state directory, or the demo. Raises `error`, about the missing file, if none
    is there or if a file was named.
    """
    from stoker.config.paths import default_state

    if config is not None or os.environ.get("STOKER_CONFIG"):
        raise error
    own, demo = default_state(), demo_state()
    if is_answering(own) and not is_answering(demo):
        return _of_state(own)
    if (demo / "lock").exists():
        return _of_state(demo)
    from stoker.store.control_socket import running_states

    elsewhere = [f"--state {shlex.quote(str(state))}" for state in running_states()]
    raise ConfigError([*error.problems, f"or ask a Stoker that runs: {', '.join(elsewhere)}"]) if elsewhere else error


def _of_state(state: Path, place: str = "") -> Installation:
    """What is at a state directory, with the configuration of the Stoker that runs there, if it can be read here."""
    from stoker.config.load import load
    from stoker.store.state_dir import StateDir

    settings, start = None, "stoker up --config FILE"
    if state == demo_state():
        start = "stoker up --demo, or name the configuration of another Stoker: --config FILE"
    if source := StateDir(state).running_configuration:
        start = _start(Path(source))
        with suppress(ConfigError):
            settings = _with_contexts(load(Path(source), needs_secrets=False))
    logs = state / "logs" if settings is None else Path(settings.paths.logs)
    return Installation(state, logs, start, settings, place)


def load_beside_running(config: str | None) -> tuple[Settings, list[str]]:
    """As `load_settings`, and the secrets that this shell lacks: no problem while the Stoker that has them runs. A file
    that does not exist is one: the running Stoker would not find it, either.
    """
    from stoker.config.secrets import UNREADABLE, UNSET

    try:
        return load_settings(config), []
    except ConfigError as error:
        settings = load_settings(config, needs_secrets=False)
        is_of_this_shell = all(UNSET in problem or UNREADABLE in problem for problem in error.problems)
        if not is_of_this_shell or not is_running(settings):
            raise
        return settings, [f"{problem} (the running Stoker has it)" for problem in error.problems]


def is_running(settings: Settings) -> bool:
    """Whether the Stoker of this configuration runs, and not that of another file with the same state directory."""
    from stoker.store.state_dir import StateDir

    state = StateDir(Path(settings.paths.state))
    running = state.running_configuration
    is_same = not running or os.path.realpath(running) == os.path.realpath(settings.source)
    return is_same and is_answering(state.path)


def is_answering(state: Path) -> bool:
    """Whether an `up` listens for commands in this state directory."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(socket_of(state)))
        except OSError:
            return False
    return True
