"""Tests that `scripts/as-macos` leaves out, and why: they hold on Linux only, or the stand-in cannot show them."""

from __future__ import annotations

KERNEL = "Linux's own calls or files"
STAND_IN = "not to be told in a stand-in: it is Linux below"

LINUX_ONLY: dict[str, str] = {}
"""The beginning of a test's id, and why."""


def why_linux_only(node_id: str) -> str | None:
    return next((why for beginning, why in LINUX_ONLY.items() if node_id.startswith(beginning)), None)
