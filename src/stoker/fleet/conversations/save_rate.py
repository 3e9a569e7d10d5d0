"""What can be saved in the time there is, from what saving took before."""

from __future__ import annotations

EASING = 0.75
"""What was too slow once is tried again after some swaps: a disk is not always busy."""


class SaveRate:
    """Of one serve. Seconds per token."""

    def __init__(self) -> None:
        self._per_token: float | None = None

    def fits(self, tokens: int | None, seconds: float) -> bool:
        """Whether saving so many tokens in so much time is worth a try. What is not known is."""
        if seconds <= 0:
            return False
        if tokens is None or self._per_token is None or tokens * self._per_token <= seconds:
            return True
        self._per_token *= EASING
        return False

    def on_saved(self, tokens: int, seconds: float) -> None:
        """It took `seconds`."""
        if tokens > 0:
            self._per_token = seconds / tokens

    def on_late(self, tokens: int | None, seconds: float) -> None:
        """It was not done after `seconds`."""
        if tokens:
            self._per_token = max(self._per_token or 0.0, 2 * seconds / tokens)
