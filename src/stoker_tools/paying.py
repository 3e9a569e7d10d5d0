"""Pays for calls of tools out of the limits of a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stoker.access.quota import Charge
from stoker_tools.running import CallResult
from stoker_tools.tables import Tool

NO_MONEY: Final = CallResult([], "max_uses_exceeded", 0.0, 0, "the key has no money left for it", has_begun=False)
"""In place of a call that the key cannot pay."""


class Payment:
    def __init__(self) -> None:
        self.is_due = False

    def of(self, result: CallResult) -> CallResult:
        """This came of the call."""
        self.is_due = result.is_answered
        return result


@contextmanager
def paid(charge: Charge | None, tool: Tool) -> Iterator[Payment]:
    """Around a call: what it costs is taken before, and given back if the tool has not answered. `charge`: None if
    nothing limits the key. Raises ClientError 429: the key cannot pay it.
    """
    payment = Payment()
    if charge is None or not tool.cost:
        yield payment
        return
    charge.spend(tool.cost)
    try:
        yield payment
    finally:
        if not payment.is_due:
            charge.refund(tool.cost)
