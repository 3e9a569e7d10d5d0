"""Pays for calls of tools out of the limits of a key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from stoker.access.quota import Charge
from stoker.domain.errors import ClientError
from stoker_tools.running import CUT_OFF, CallResult
from stoker_tools.tables import Tool

NO_MONEY: Final = CallResult([], "max_uses_exceeded", 0.0, 0, "the key has no money left for it", has_begun=False)
"""In place of a call that the key cannot pay."""


async def paid(
    charge: Charge | None,
    tool: Tool,
    call: Callable[[], Awaitable[CallResult]],
    note: Callable[[Tool, CallResult], None],
) -> CallResult:
    """What comes of the call. What it costs is taken before, and given back if it costs nothing. `charge`: None if
    nothing limits the key. `note` hears what came of it, also on cancel; then it is paid: else leaving in time would
    make every call free. Raises ClientError 429: the key cannot pay it.
    """
    spent_at = charge.spend(tool.cost) if charge is not None and tool.cost else None
    result = CUT_OFF
    try:
        result = await call()
    finally:
        if charge is not None and spent_at is not None and not result.is_paid:
            charge.refund(tool.cost, spent_at)
        note(tool, result)
    return result


async def paid_if_possible(
    charge: Charge | None,
    tool: Tool,
    call: Callable[[], Awaitable[CallResult]],
    note: Callable[[Tool, CallResult], None],
) -> CallResult:
    """As `paid`, but NO_MONEY if the key cannot pay it."""
    try:
        return await paid(charge, tool, call, note)
    except ClientError:
        note(tool, NO_MONEY)
        return NO_MONEY
