"""An engine's /metrics, in one shape for all engines. Pure, and linear in the text.

Engines rename their metrics: each signal has a list of names, and the first one present counts. A missing one is None
(unknown), never 0. Names are written as Prometheus has them, with or without `_total`; `:` and `_` count as the same
after the engine's own name, because gateways replace one by the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.engines.record import MetricRow
from stoker.engines.registry import ENGINES, engine_of

LIMIT = 2**20
"""Characters of a text that are read; a line that is cut there is left out."""
# Possessive quantifiers: no backtracking, whatever the text.
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\})?+[ \t]++([^\s#]++)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"')
_COPIES = frozenset(("tp_rank", "pp_rank", "moe_ep_rank", "pid"))
"""Labels that name the reporter. Of samples that differ only in these, the largest counts."""


@dataclass(frozen=True, slots=True)
class Signals:
    """Counts are requests or tokens, shares are 0 to 1. None: the engine does not report it."""

    queued: float | None = None
    """Requests that wait in the engine (for memory, if it distinguishes the reasons)."""
    running: float | None = None
    kv_use: float | None = None
    """Share of the KV cache in use; of several engines, that of the fullest."""
    prompt_tokens: float | None = None
    """Counted since the engine started, like all fields below except the last."""
    generated_tokens: float | None = None
    steps: float | None = None
    """Decode calls."""
    preemptions: float | None = None
    """Requests that had to release their KV cache and start again."""
    prefix_queries: float | None = None
    """Prompt tokens that were looked up in the prefix cache."""
    prefix_hits: float | None = None
    prefix_hit_share: float | None = None
    """Over the last moments, if the engine reports that."""


def read(engine: str, text: str) -> Signals:
    """Never raises. An engine without names of its own may be any of the others, so those of all are tried."""
    own = engine_of(engine).signals
    tables = [own] if own else [one.signals for one in ENGINES.values()]
    samples = _samples(text, {_plain(name.metric) for table in tables for row in table.values() for name in row.names})
    found: dict[str, float] = {}
    for table in tables:
        for signal, row in table.items():
            value = _value(row, samples)
            if value is not None and signal not in found:
                found[signal] = value
    return Signals(**found)


_Sample = tuple[Mapping[str, str], float]


def _value(row: MetricRow, samples: Mapping[str, list[_Sample]]) -> float | None:
    for metric, label in row.names:
        chosen = [one for one in samples.get(_plain(metric), ()) if label is None or one[0].get(label[0]) == label[1]]
        if chosen:
            per_engine = _without_copies(chosen)
            return max(per_engine) if row.largest else math.fsum(per_engine)
    return None


def _without_copies(samples: Iterable[_Sample]) -> list[float]:
    largest: dict[frozenset[tuple[str, str]], float] = {}
    for labels, value in samples:
        what = frozenset((key, one) for key, one in labels.items() if key not in _COPIES)
        largest[what] = max(value, largest.get(what, value))
    return list(largest.values())


def _samples(text: str, wanted: set[str]) -> dict[str, list[_Sample]]:
    found: dict[str, list[_Sample]] = {}
    end = text.rfind("\n", 0, LIMIT)
    for line in text[: max(end, 0)].split("\n"):
        match = None if line.startswith("#") else SAMPLE.match(line)
        if match is None or (name := _plain(match[1])) not in wanted:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            found.setdefault(name, []).append((dict(LABEL.findall(match[2] or "")), value))
    return found


def _plain(metric: str) -> str:
    return metric.replace(":", "_").removesuffix("_total")
