"""Recorded traffic: lengths and times of requests, never a word of them. Pure.

The form is Mooncake's (https://github.com/kvcache-ai/Mooncake), one JSON object a line: `timestamp` in milliseconds
from the start, `input_length` and `output_length` in tokens, `hash_ids` of the prompt's blocks of 512 tokens (equal id:
equal block after equal blocks). Without `hash_ids` nothing is known about what requests share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stoker.domain.decision import Decision


class Arrival(msgspec.Struct, omit_defaults=True):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int] = []


class BadTrace(ValueError):
    """A line is no request; the message says which one."""


def read_trace(lines: Iterable[bytes | str], limit: int | None = None) -> list[Arrival]:
    """In order of time; empty lines are left out. Raises BadTrace."""
    found: list[Arrival] = []
    decoder = msgspec.json.Decoder(Arrival)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise BadTrace(f"line {number}: {error}; a line is {EXAMPLE}") from None
        if one.timestamp < 0 or one.input_length < 1 or one.output_length < 0:
            raise BadTrace(f"line {number}: a time or a length is below zero, or the prompt is empty")
        found.append(one)
        if len(found) == limit:
            break
    if not found:
        raise BadTrace("it has no requests")
    return sorted(found, key=lambda one: one.timestamp)


EXAMPLE = '{"timestamp": 0, "input_length": 900, "output_length": 80, "hash_ids": [0, 1]}'


def arrivals(trace: Sequence[Arrival], speed: float = 1.0) -> list[float]:
    """Seconds from the first request to each; `speed` 2: twice as fast."""
    first = trace[0].timestamp
    return [(one.timestamp - first) / 1000 / speed for one in trace]


def export_trace(decisions: Iterable[Decision]) -> tuple[list[bytes], int]:
    """(lines, how many decisions are left out): those of requests whose lengths were counted.

    Decisions hold nothing of a prompt, not even hashes: `hash_ids` is absent, and a replay shares no prefixes.
    """
    every = sorted(decisions, key=lambda one: one.at)
    counted = [(one.at, one.input_tokens, one.output_tokens) for one in every]
    known = [(at, before, after) for at, before, after in counted if before and after is not None]
    first = known[0][0] if known else 0.0
    lines = [
        msgspec.json.encode(Arrival(round((at - first) * 1000), before, after)) for at, before, after in known
    ]  # fmt: skip
    return lines, len(every) - len(known)
