"""Reads the configuration for `up`, and for a reload again: then in a process of its own. The one that serves goes on
meanwhile.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker import __version__
from stoker.domain.errors import ConfigError, StokerError

if TYPE_CHECKING:
    from stoker.domain.access import Paths, Settings

LONGEST = 60.0
"""Seconds that the reading may take."""
COMMAND = (sys.executable, "-P", "-m", "stoker.cli.commands.read_again")


class ReadOptions(NamedTuple):
    """What the command line of `up` says. `port` and `state` count instead of the configured ones."""

    config: str | None
    port: int | None = None
    state: str | None = None
    """Absolute."""


def read_file(given: ReadOptions) -> Settings:
    """The configuration with these options. Raises ConfigError with every problem."""
    from stoker.cli.console.installation import load_settings

    return overridden(load_settings(given.config), given)


def overridden(settings: Settings, given: ReadOptions) -> Settings:
    """The settings with these options instead of what the file says."""
    if given.port is not None:
        settings = dataclasses.replace(settings, front_door=dataclasses.replace(settings.front_door, port=given.port))
    if given.state is not None:
        settings = dataclasses.replace(settings, paths=_elsewhere(settings.paths, given.state))
    return settings


def _elsewhere(paths: Paths, state: str) -> Paths:
    """Another state directory; the logs move with it, unless the file places them elsewhere."""
    is_within = paths.logs == os.path.join(paths.state, "logs")
    return dataclasses.replace(paths, state=state, logs=os.path.join(state, "logs") if is_within else paths.logs)


def read_again(given: ReadOptions, old: Settings) -> tuple[Settings, list[str]]:
    """The settings of the file now, and the paths of those that differ from `old`. Blocks. Raises ConfigError for a
    file with problems, for settings that take effect only with a restart, and if another version was installed.
    """
    order = pickle.dumps((__version__, pickle.dumps((tuple(given), old))))
    try:
        done = subprocess.run(
            COMMAND, input=order, stdout=subprocess.PIPE, timeout=LONGEST, check=False, start_new_session=True
        )
        answer: Any = pickle.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise ConfigError([f"it could not be read within {LONGEST:g} s: look at the files that it names"]) from None
    except Exception as error:  # what it wrote may be anything
        raise ConfigError([f"no process could read it ({error}): the log or terminal of Stoker says more"]) from error
    if isinstance(answer, list):
        raise ConfigError(answer)
    settings, changed = answer
    return settings, changed


def main() -> None:
    """In the process that reads."""
    from stoker.cli.console.installation import config_warnings
    from stoker.cli.console.weights_warnings import weights_warnings
    from stoker.config.changes import changes_in_effect

    version, order = pickle.load(sys.stdin.buffer)
    answer: object
    try:
        if version != __version__:  # settings of one version may mean something else in another
            problem = f"Stoker {__version__} is installed, but {version} runs: `stoker up --replace` takes over"
            raise ConfigError([problem])
        given, old = pickle.loads(order)
        settings = read_file(ReadOptions(*given))
        settings = dataclasses.replace(settings, warnings=(*config_warnings(settings), *weights_warnings(settings)))
        answer = settings, changes_in_effect(old, settings)
    except ConfigError as error:
        answer = error.problems
    except StokerError as error:
        answer = [error.message]
    pickle.dump(answer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
