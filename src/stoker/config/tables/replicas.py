"""`replicas`: how many processes of a serve may be loaded, and how many of them are kept loaded."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from stoker.domain.kinds import Form

MAX_REPLICAS = 64
_FORM = "write a whole number, or { min = 1, max = 3 }"


class ReplicaCount(NamedTuple):
    least: int = 0
    """So many are kept loaded."""
    most: int = 1


def _count(value: object) -> ReplicaCount:
    """A whole number, which is the most; or a table with `min` and `max`."""
    table: dict[object, object] = value if isinstance(value, dict) else {"max": value}
    if unknown := [str(key) for key in table if key not in ("min", "max")]:
        raise ValueError(f"has an unknown key '{unknown[0][:40]}'; {_FORM}")
    if "max" not in table:
        raise ValueError(f"has no `max`; {_FORM}")
    least, most = table.get("min", 0), table["max"]
    if not isinstance(least, int) or not isinstance(most, int) or bool in (type(least), type(most)):
        raise ValueError(f"is no number of replicas; {_FORM}")
    if not 1 <= most <= MAX_REPLICAS or least < 0:
        raise ValueError(f"must be from 1 to {MAX_REPLICAS}")
    if least > most:
        raise ValueError(f"has a `min` of {least} and a `max` of {most}; the `max` must not be smaller")
    return ReplicaCount(least, most)


def _show(counts: ReplicaCount) -> int | dict[str, int]:
    return {"min": counts.least, "max": counts.most} if counts.least else counts.most


_NUMBER = {"type": "integer", "minimum": 1, "maximum": MAX_REPLICAS}
_TABLE = {
    "type": "object",
    "properties": {"min": {**_NUMBER, "minimum": 0}, "max": _NUMBER},
    "required": ["max"],
    "additionalProperties": False,
}
Replicas = Annotated[
    ReplicaCount,
    Form(_count, {"oneOf": [_NUMBER, _TABLE]}, _show),
]
