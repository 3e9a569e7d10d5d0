"""Totals of what keys used since the start, for /metrics. Fed once a second, not by requests."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.store.labels import BoundedLabels

MAX_KEYS = 100
"""Keys and applications with labels of their own; the others are `other` together."""
COLUMNS = (
    "requests", "failed", "input", "cached", "output", "reasoning", "cost", "accelerator_seconds", "swap_seconds",
)  # fmt: skip


class KeyUsageCounts:
    """By key and application."""

    def __init__(self) -> None:
        self.totals: dict[tuple[str, str], list[float]] = {}
        self._keys, self._apps = BoundedLabels(MAX_KEYS), BoundedLabels(MAX_KEYS)

    def add(self, key: str, app: str, amounts: Sequence[float]) -> None:
        """`amounts`: as COLUMNS; more are ignored."""
        place = self._keys.label(key), self._apps.label(app)
        found = self.totals.setdefault(place, [0.0] * len(COLUMNS))
        for index in range(len(COLUMNS)):
            found[index] += amounts[index]
