"""What operators have paused with `stoker pause`, as it is remembered through a restart."""

from __future__ import annotations

import msgspec


class OperatorPauses(msgspec.Struct, frozen=True):
    """Reasons; empty: not paused."""

    everywhere: str = ""
    """All slots of this machine are, also those that the configuration gains."""
    slots: dict[str, str] = {}
    """By slot; `~NAME`: that of a serve without one."""
