"""Do the methods exist that a Python block calls? `jedi` says which class a value is of.

It runs in a process with limits (`methods_program`), because what it takes depends on the text. Without the extra
`orchestrator` nothing is found.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from stoker_lab.suites.sandbox.command import bounded_command

_SECONDS = 10.0
"""What jedi does not know by then is taken to exist."""
_CACHE = os.path.expanduser("~/.cache")
"""Where jedi keeps what it has parsed."""
_MAX_OUTPUT = 4 * 2**20


@cache
def can_check_methods() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec("jedi") is not None


async def missing_method(
    source: str, first: int, python: str, roots: Sequence[str], directory: Path
) -> dict[str, Any] | None:
    """The first attribute that a value lacks: `line` (of the source), `shown`, `owner`, `name`, `known`. None: nothing
    is proved. `first`: lines before the block. Raises OSError: no process can be started. On cancel it is killed.
    """
    if not can_check_methods():
        return None
    order = {"source": source, "first": first, "python": python, "roots": list(roots)}
    # -P and PYTHONNOUSERSITE: nothing is imported from the directory or from below HOME, where files of the answer are.
    env = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "HOME": str(directory),
        "XDG_CACHE_HOME": _CACHE,
        "PATH": os.defpath,
    }
    command = [sys.executable, "-P", "-m", "stoker_orchestrator.checks.methods_program"]
    data = json.dumps(order).encode()
    result = await bounded_command(command, directory, data, env, _SECONDS, max_output=_MAX_OUTPUT)
    try:
        found = json.loads(result.output)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
