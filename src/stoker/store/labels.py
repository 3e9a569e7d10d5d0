"""Which label values may appear. Their number is bounded: a caller cannot make series by sending odd names."""

from __future__ import annotations

import re

from stoker.domain.dialect import ENDPOINTS

OTHER = "other"
NONE = "none"
"""The serve of a request that never had one: an unknown model, a refused key."""

PATHS: dict[str, str] = {path: path for path in (*ENDPOINTS, "/v1/models")}
"""Endpoint to label; whatever is not in here is `other`."""

OUTCOMES = frozenset({"open", "served", "client_left", "refused", "upstream_failed", "cut", "stalled", "bug"})
PHASES = frozenset({"drain", "check", "stop", "start", "ready"})
TEMPERATURES = frozenset({"cold", "warm", "asleep", "unknown"})
STATES = ("stopped", "starting", "ready", "draining", "stopping", "backoff", "held", "parked", "paused", "cannot_load")

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class BoundedLabels:
    """Keeps the first `limit` label values; later ones, and those that do not match `pattern`, become `other`."""

    def __init__(self, limit: int, pattern: re.Pattern[str] | None = None) -> None:
        self._limit = limit
        self._pattern = pattern
        self._seen: set[str] = set()

    def label(self, word: str) -> str:
        if word in self._seen:
            return word
        if len(self._seen) >= self._limit or (self._pattern and not self._pattern.fullmatch(word)):
            return OTHER
        self._seen.add(word)
        return word


def names() -> BoundedLabels:
    """Serve and slot names come from the configuration; 500 are more than all reloads bring."""
    return BoundedLabels(500)


def codes() -> BoundedLabels:
    """Our own error codes are snake_case words; a serve's own may be anything."""
    return BoundedLabels(200, _CODE)
