"""Totals of what keys used since the start, for /metrics. Fed once a second, not by requests."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.store.labels import BoundedLabels

LIMIT_CODES = ("rate_limit_exceeded", "key_limit")
"""Codes of requests that a limit of a key refused."""
MAX_KEYS = 100
"""Keys and applications with labels of their own; the others are `other` together."""
COLUMNS = (
    "requests", "failed", "input", "cached", "output", "reasoning", "cost", "accelerator_seconds", "swap_seconds",
    "joules",
)  # fmt: skip


class KeyUsageCounts:
    """By key and application."""

    def __init__(self) -> None:
        self.totals: dict[tuple[str, str], list[float]] = {}
        self.limited: dict[str, int] = {}
        """By key: requests that a limit refused."""
        self._keys, self._apps = BoundedLabels(MAX_KEYS), BoundedLabels(MAX_KEYS)

    def observe_limit(self, key: str) -> None:
        """A limit of the key, or of its application, refused a request."""
        label = self._keys.label(key)
        self.limited[label] = self.limited.get(label, 0) + 1

    def add(self, key: str, app: str, amounts: Sequence[float]) -> None:
        """`amounts`: as COLUMNS."""
        place = self._keys.label(key), self._apps.label(app)
        found = self.totals.setdefault(place, [0.0] * len(COLUMNS))
        for index in range(len(COLUMNS)):
            found[index] += amounts[index]
