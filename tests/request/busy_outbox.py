"""An outbox under load."""

from __future__ import annotations

import asyncio

from stoker.request.outbox import FEW, Outbox


class _StandingClock:
    """The running loop, whose time stands still."""

    def __init__(self) -> None:
        self.call_soon = asyncio.get_running_loop().call_soon

    def time(self) -> float:
        return 0.0


def busy_outbox() -> Outbox:
    """What is put in waits for the loop's next turn."""
    outbox = Outbox(_StandingClock())  # type: ignore[arg-type]
    for _ in range(FEW):
        outbox.put(lambda _: None, b"")
    return outbox
