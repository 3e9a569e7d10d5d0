"""One thing that a path does, as /openapi.json describes it. It stands beside the code that does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from stoker.domain.key import Scope

PagePlace = tuple[str, str, bool]
"""A path below /admin: its method, its verb, and whether a part of it differs."""


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

    @property
    def verb(self) -> str:
        """The word behind /admin/."""
        return self.path.removeprefix("/admin/").partition("/")[0]

    @property
    def place(self) -> PagePlace:
        return self.method, self.verb, self.takes_rest

    @property
    def takes_rest(self) -> bool:
        """Whether a part of the path differs."""
        return "{" in self.path


class PageRequest(NamedTuple):
    """A request for a path below /admin that an extension answers."""

    operation: Operation
    rest: str
    """What stands for `{NAME}` in its path."""
    query: Mapping[str, str]
    body: Any
    """As the operation's `body`; None: it has none."""


class Page(NamedTuple):
    """A path below /admin that an extension answers."""

    operation: Operation
    answer: Callable[[PageRequest], Awaitable[Mapping[str, object]]]
    """The document. Raises StokerError."""
