"""Weights that no engine can load, as far as names and headers tell: for `config check`, `up` and `reload`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.domain.access import Settings

READ_WITHIN = 3.0
"""Seconds for the headers of one model."""


def weights_warnings(settings: Settings) -> list[str]:
    """One sentence for each serve whose file is there and broken. `stoker doctor` has a row for each instead."""
    from stoker.blocking import StillBlocked, waited_for
    from stoker.config.warnings import needs_weights
    from stoker.domain.cluster import runs_here
    from stoker.domain.serve import Driver

    found = []
    for serve in settings.serves:
        if serve.driver is Driver.EXTERNAL or not needs_weights(serve) or not runs_here(serve, settings.slots):
            continue
        try:
            problem = waited_for(partial(_problem, serve.model), f"the model of serve '{serve.name}'", READ_WITHIN)
        except StillBlocked:
            continue  # another warning says so
        if problem:
            found.append(f"serve '{serve.name}': {problem}")
    return found


def _problem(model: str) -> str:
    from stoker.store.files.model_file import problem_of

    return problem_of(model) if os.path.exists(model) else ""  # another warning names what is not there
