"""Durations ("45s") and sizes ("32MiB"). Numbers without a unit are refused: 30 of what?"""

from __future__ import annotations

import re
from decimal import Decimal

DURATION_FORM = 'text with a unit: "500ms", "45s", "10m" or "2h"'
SIZE_FORM = 'text with a unit: "32MiB", "18GiB" (powers of 1024) or "1.5GB" (powers of 1000)'

_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86_400)}
_BYTES = {"B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGT", start=1)
    for suffix, base in (("iB", 1024), ("B", 1000))
}
_LONGEST = Decimal(366 * 24 * 3600)
_LARGEST = 2**60
_QUANTITY = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?) ?([A-Za-z]+)", re.ASCII)


def parse_duration(value: object) -> float:
    """Seconds. Raises ValueError that names the accepted units; at most 366 days."""
    number, factor = _split(value, _SECONDS, "a duration", DURATION_FORM)
    seconds = number * Decimal(factor)
    if seconds > _LONGEST:
        raise ValueError(f"is a duration of more than 366 days; write {DURATION_FORM}")
    return float(seconds)


def parse_size(value: object) -> int:
    """Bytes; a fraction of a byte is dropped. Raises ValueError that names the accepted units; at most 1 EiB."""
    number, factor = _split(value, _BYTES, "a size", SIZE_FORM)
    size = int(number * Decimal(factor))
    if size > _LARGEST:
        raise ValueError(f"is a size of more than 1 EiB; write {SIZE_FORM}")
    return size


def show_duration(seconds: float) -> str:
    """The shortest exact text: parse_duration(show_duration(x)) == x."""
    exact = Decimal(repr(seconds))
    for unit in ("h", "m", "s", "ms"):
        number = exact / _SECONDS[unit]
        if number == int(number) and (number or unit == "s"):
            return f"{int(number)}{unit}"
    return f"{exact:f}s"


def show_size(size: int) -> str:
    """The shortest exact text: parse_size(show_size(x)) == x."""
    for unit, factor in sorted(_BYTES.items(), key=lambda item: -item[1]):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def _split(
    value: object, factors: dict[str, Decimal] | dict[str, int], what: str, form: str
) -> tuple[Decimal, Decimal | int]:
    """Number and factor of one quantity; `what` and `form` are for the error."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"is not {what}; write {form}")
    if not isinstance(value, str):
        raise ValueError(f"{value} has no unit; write {form}")
    match = _QUANTITY.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value[:40]!r} is not {what}; write {form}")
    number, unit = match.groups()
    if unit not in factors:
        known = {name.lower(): name for name in factors}
        nearest = known.get(unit.lower())
        hint = f"; did you mean '{number}{nearest}'?" if nearest else f"; write {form}"
        raise ValueError(f"the unit {unit[:20]!r} is not known{hint}")
    return Decimal(number), factors[unit]
