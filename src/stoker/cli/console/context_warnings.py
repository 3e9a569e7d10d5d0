"""Contexts above what their models were trained for, with their lines: `config check`, `up`, `reload` and `doctor`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.config.document import ConfigDocument
    from stoker.domain.access import Settings
    from stoker.domain.definition import KeyPath
    from stoker.domain.serve import Serve

READ_WITHIN = 3.0
"""Seconds for the header of one model."""


def context_warnings(settings: Settings) -> list[str]:
    """One sentence for each, with the place in the configuration file."""
    from stoker.blocking import each_waited_for
    from stoker.domain.cluster import runs_here
    from stoker.fleet.memory.fit.trained import caution, excess

    here = [
        serve
        for serve in settings.serves
        if serve.context is not None and not serve.auto_context and runs_here(serve, settings.slots)
    ]
    works = [(f"the folder {os.path.dirname(serve.model)}", partial(excess, serve)) for serve in here]
    # What cannot be read is what another warning is about.
    found = [
        (serve, trained)
        for serve, trained in zip(here, each_waited_for(works, READ_WITHIN), strict=True)
        if isinstance(trained, int)
    ]
    if not found:
        return []
    document = _document(settings)
    return [_placed(document, serve, caution(serve, trained)) for serve, trained in found]


def _document(settings: Settings) -> ConfigDocument | None:
    """None: the demo has no file, or it cannot be read any more."""
    from stoker.config.document import ConfigDocument
    from stoker.config.find import read_text
    from stoker.domain.errors import ConfigError

    try:
        return ConfigDocument(read_text(Path(settings.source)), settings.source) if settings.source else None
    except ConfigError:
        return None


def _placed(document: ConfigDocument | None, serve: Serve, text: str) -> str:
    path = _context_key(document, serve.name) if document is not None else None
    if document is None or path is None:
        return f"serve '{serve.name}': context {text}"
    return document.text(path, text)


def _context_key(document: ConfigDocument, name: str) -> KeyPath | None:
    """Where the context of a serve is written, in its own table or in the one that it extends."""
    rows = document.raw.get("serve")
    places = {row.get("name"): place for place, row in enumerate(rows or ()) if isinstance(row, dict)}
    seen: set[str] = set()
    while name in places and name not in seen:
        seen.add(name)
        path: KeyPath = ("serve", places[name], "context")
        if document.holds(path):
            return path
        name = str(document.raw["serve"][places[name]].get("extends"))
    return None
