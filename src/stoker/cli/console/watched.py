"""What of GET /status is about proofs of serves. Unknown fields are ignored: the running Stoker may be newer."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.cli.console.errors import Unreadable


class Finding(msgspec.Struct, frozen=True):
    """`ok` None: not known."""

    assertion: str
    ok: bool | None = None
    detail: str = ""


class Watched(msgspec.Struct, frozen=True):
    """What the watchdog of a running Stoker says of one serve. Times are Unix; None: never, or not known."""

    health: str = "unknown"
    verified_at: float | None = None
    restarts: int = 0
    parked: str | None = None
    findings: list[Finding] = []

    def details(self, ok: bool | None) -> str:
        return "; ".join(f"{found.assertion}: {found.detail}" for found in self.findings if found.ok is ok)


class Totals(msgspec.Struct, frozen=True):
    """`tokens_per_second` of the last streamed reply; None: not known."""

    tokens_per_second: float | None = None


class Serve(msgspec.Struct, frozen=True):
    """What of GET /status this command is about."""

    name: str
    state: str
    keep_loaded: bool = False
    last_error: str | None = None
    watchdog: Watched = Watched()
    min_tokens_per_second: float | None = None
    totals: Totals = Totals()


class Status(msgspec.Struct, frozen=True):
    serves: list[Serve] = []


def serves_of(document: dict[str, Any]) -> list[Serve]:
    """Raises Unreadable."""
    try:
        return msgspec.convert(document, Status).serves
    except msgspec.ValidationError as error:
        raise Unreadable(
            f"the running stoker answers in a form that this version does not know ({error}); "
            "restart `stoker up` with the version that is installed"
        ) from error
