"""Who uses a slot for how long: its busy time, divided among the leases that are held at the same time. Pure."""

from __future__ import annotations


class SlotTime:
    """Times are monotonic seconds. Each step takes the same time, however many leases are held."""

    __slots__ = ("_at", "_held", "_share")

    def __init__(self) -> None:
        self._held = 0
        self._at = 0.0
        self._share = 0.0
        """What a lease that was held from the start on would have got so far."""

    def enter(self, now: float) -> float:
        """A lease begins. Returns what `leave` wants."""
        if self._held:
            self._share += (now - self._at) / self._held
        else:
            self._share = 0.0  # nobody refers to it, and small numbers stay exact
        self._at = now
        self._held += 1
        return self._share

    def leave(self, now: float, entered: float) -> float:
        """A lease ends. Returns its seconds. The sum over all leases is the time in which any was held."""
        self._share += (now - self._at) / self._held
        self._at = now
        self._held -= 1
        return self._share - entered
