"""Contexts above what their models were trained for, with their lines: `config check`, `up`, `reload` and `doctor`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.config.document import ConfigDocument
    from stoker.config.line_numbers import KeyPath
    from stoker.domain.access import Settings
    from stoker.domain.serve import Serve

READ_WITHIN = 3.0
"""Seconds for the header of one model."""


def context_warnings(settings: Settings) -> list[str]:
    """One sentence for each, with the place in the configuration file."""
    from stoker.domain.cluster import runs_here
    from stoker.fleet.memory.fit.trained import caution

    here = [serve for serve in settings.serves if runs_here(serve, settings.slots)]
    found = [(serve, trained) for serve in here if (trained := _excess(serve)) is not None]
    if not found:
        return []
    document = _document(settings)
    return [_placed(document, serve, caution(serve, trained)) for serve, trained in found]


def _excess(serve: Serve) -> int | None:
    from stoker.blocking import StillBlocked, waited_for
    from stoker.fleet.memory.fit.trained import excess

    if serve.context is None or serve.auto_context:
        return None
    try:
        return waited_for(partial(excess, serve), f"the model of serve '{serve.name}'", READ_WITHIN)
    except StillBlocked:
        return None  # another warning says so


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
