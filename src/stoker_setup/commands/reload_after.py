"""A changed configuration reaches the Stoker that runs with it, or the file is as it was before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import NotRunning, RequestRefused
from stoker.cli.console.installation import find_running
from stoker.domain.errors import StokerError
from stoker.store.state_dir import StateDir

if TYPE_CHECKING:
    from stoker_setup.config_edit import ConfigEdit
    from stoker_setup.config_file import ConfigFile


def reload_after(file: ConfigFile, edit: ConfigEdit) -> bool:
    """Whether a Stoker runs with this file; it has the change then. Raises RequestRefused if it does not take it: the
    file has its old text again.
    """
    installation = find_running(str(file.path))
    running = StateDir(installation.state).running_configuration
    if running and Path(running).resolve() != file.path.resolve():
        return False
    try:
        with installation.control() as control:
            problems = control.reload().problems
    except NotRunning:
        return False
    except StokerError as error:
        problems = [error.message]
    if problems:
        file.undo(edit)
        text = f"the running Stoker does not take the change ({'; '.join(problems)}); {file.path} is as it was"
        raise RequestRefused(text, code="reload_refused")
    return True
