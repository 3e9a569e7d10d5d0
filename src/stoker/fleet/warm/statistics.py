"""What is warm, for `/status`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WarmStatus:
    """One warm model. Bytes. `read` and `locked` are None for a sleeper: its memory is its engine's own."""

    serve: str
    how: str
    size: int
    read: int | None
    """Bytes of its files that were read into the page cache. Pages that are not locked may have been evicted since."""
    locked: int | None
    pinned: bool
    problem: str = ""
    why: str = ""
    """Why it is expected next: `rule`, `pattern`, `frequency`; empty: it is warm only because it was used."""


@dataclass(frozen=True, slots=True)
class WarmStatistics:
    """The pool as it is now. Bytes."""

    budget: int
    size: int
    warm: tuple[WarmStatus, ...]
    holder: int | None
    """The holder's pid; None: it does not run."""
    restarts: int
    """How often the holder ended by itself."""
    is_paused: bool
    predictions: Mapping[str, int]
    """Changes of model, by how the prediction turned out: `hit`, `miss`, `none`."""
