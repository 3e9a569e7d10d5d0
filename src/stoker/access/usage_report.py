"""Usage, added up for people: by key, application, model, class, day or hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from stoker.access.access_file import USAGE_COLUMNS, UsageKey, UsageRow
from stoker.access.usage import HOUR
from stoker.domain.errors import ClientError

DIMENSIONS = ("key", "app", "model", "class", "day", "hour")
MAX_ROWS = 10_000


def parse_dimensions(text: str) -> tuple[str, ...]:
    """`key,day`. Raises ClientError 400."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in DIMENSIONS:
            text = f"usage has no dimension '{name[:40]}'; choose among {', '.join(DIMENSIONS)}"
            raise ClientError(text, code="bad_field", param="by")
    return names


def usage_report(rows: Iterable[UsageRow], dimensions: tuple[str, ...]) -> list[dict[str, Any]]:
    """One row for each combination of the dimensions, the largest first; days and hours in order of time.

    `ttft` (mean seconds to the first token) and `tokens_per_second` (while an answer streams) count streamed requests;
    None: there were none. `joules`: the energy of the accelerators, as far as they report their power;
    `joules_per_1000_tokens`: by the tokens of answers whose energy is known. None: unknown.
    """
    sums: dict[tuple[str, ...], list[float]] = {}
    for place, amounts in rows:
        group = tuple(_value(place, name) for name in dimensions)
        found = sums.setdefault(group, [0.0] * len(USAGE_COLUMNS))
        for index, amount in enumerate(amounts):
            found[index] += amount
    report = [{**dict(zip(dimensions, group, strict=True)), **_figures(found)} for group, found in sums.items()]
    is_timed = "day" in dimensions or "hour" in dimensions
    report.sort(key=lambda row: -(row["input_tokens"] + row["output_tokens"]))
    if is_timed:
        report.sort(key=lambda row: str(row.get("hour") or row.get("day")))
    return report[:MAX_ROWS]


def _value(place: UsageKey, dimension: str) -> str:
    hour, key, app, model, task = place
    match dimension:
        case "day":
            return datetime.fromtimestamp(hour * HOUR, UTC).strftime("%Y-%m-%d")
        case "hour":
            return datetime.fromtimestamp(hour * HOUR, UTC).strftime("%Y-%m-%dT%H:00Z")
        case _:
            return {"key": key, "app": app, "model": model, "class": task}[dimension]


def _figures(sums: list[float]) -> dict[str, Any]:
    one = dict(zip(USAGE_COLUMNS, sums, strict=True))
    ttfts, seconds, metered = one["ttft_count"], one["decode_seconds"], one["metered_tokens"]
    return {
        "requests": int(one["requests"]),
        "failed": int(one["failed"]),
        "input_tokens": int(one["input"]),
        "cached_tokens": int(one["cached"]),
        "cache_write_tokens": int(one["cache_written"]),
        "output_tokens": int(one["output"]),
        "reasoning_tokens": int(one["reasoning"]),
        "cost": round(one["cost"], 6),
        "accelerator_seconds": round(one["accelerator_seconds"], 3),
        "swap_seconds": round(one["swap_seconds"], 3),
        "ttft": round(one["ttft_sum"] / ttfts, 4) if ttfts else None,
        "tokens_per_second": round(one["decode_tokens"] / seconds, 2) if seconds > 0 else None,
        "audio_seconds": round(one["audio_seconds"], 3),
        "characters": int(one["characters"]),
        "images": int(one["images"]),
        "joules": round(one["joules"], 1) if one["joules"] else None,
        "joules_per_1000_tokens": round(1000 * one["joules"] / metered, 1) if metered else None,
    }
