"""Seconds, sizes and dates as people read them. None is unknown and prints as a dash, never as 0.

So does a negative time, which means that the clock was set back.
"""

from __future__ import annotations

import datetime

UNKNOWN = "-"


def seconds(value: float | None) -> str:
    """`120 ms`, `4.2 s`, `3m 05s`, `2h 10m`."""
    if value is None or value < 0:
        return UNKNOWN
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 99.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def size(value: int | None) -> str:
    """Bytes in powers of 1024: `512 B`, `1.5 GiB`."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def counted(amount: float | None, noun: str) -> str:
    """`1 request`, `3 requests`, for nouns that take an s."""
    shown = UNKNOWN if amount is None else f"{amount:g}" if isinstance(amount, float) else str(amount)
    return f"{shown} {noun}{'' if amount == 1 else 's'}"


def number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def moment(unix: float) -> str:
    """Local time, `2026-03-01 14:02:11`."""
    return datetime.datetime.fromtimestamp(unix).strftime("%Y-%m-%d %H:%M:%S")
