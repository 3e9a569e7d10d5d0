"""A changed configuration reaches the Stoker that runs with it, or the file is as it was before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import NotRunning, RequestRefused
from stoker.cli.console.installation import find_running
from stoker.domain.errors import StokerError
from stoker.store.state_dir import StateDir
from stoker_setup.config_edit import EditRefused

if TYPE_CHECKING:
    from stoker_setup.config_edit import ConfigEdit
    from stoker_setup.config_file import ConfigFile


def other_configuration(state: Path, path: Path) -> str:
    """The file that configures the Stoker of this state directory, if it is another one than `path`; else empty."""
    running = StateDir(state).running_configuration
    return running if running and Path(running).resolve() != path.resolve() else ""


def reload_after(file: ConfigFile, edit: ConfigEdit, state: str | None = None) -> bool:
    """Whether a Stoker runs with this file; it has the change then. Raises RequestRefused if it does not take it: the
    file has its old text again, if nobody else has changed it since. `state`: its state directory; None: the file's.
    """
    installation = find_running(str(file.path), state)
    if other_configuration(installation.state, file.path):
        return False
    try:
        with installation.control() as control:
            problems = control.reload().problems
    except NotRunning:
        return False
    except StokerError as error:
        problems = [error.message]
    if problems:
        try:
            file.undo(edit)
            now = f"{file.path} is as it was"
        except EditRefused as error:
            now = f"it is still in {file.path}: {error.message}"
        text = f"the running Stoker does not take the change ({'; '.join(problems)}); {now}"
        raise RequestRefused(text, code="reload_refused")
    return True
