"""One thing that a path does, as /openapi.json describes it. It stands beside the code that does it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.domain.key import Scope


class Operation(NamedTuple):
    method: str
    path: str
    """With `{NAME}` for what differs."""
    summary: str
    scope: Scope = Scope.ADMIN
    body: type[msgspec.Struct] | None = None
    fields: tuple[str, ...] = ()
    """Of the body, those that count here."""
    required: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
