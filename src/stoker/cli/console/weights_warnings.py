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
    from stoker.blocking import each_waited_for
    from stoker.config.warnings import serves_with_weights

    here = serves_with_weights(settings)
    works = [(f"the folder {os.path.dirname(serve.model)}", partial(_problem, serve.model)) for serve in here]
    found = zip(here, each_waited_for(works, READ_WITHIN), strict=True)
    # What cannot be read is what another warning is about.
    return [f"serve '{serve.name}': {text}" for serve, text in found if isinstance(text, str) and text]


def _problem(model: str) -> str:
    from stoker.store.files.model_file import problem_of

    return problem_of(model) if os.path.exists(model) else ""  # another warning names what is not there
