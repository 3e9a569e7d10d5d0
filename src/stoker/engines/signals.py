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
from typing import NamedTuple

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


class MetricName(NamedTuple):
    """A metric's name, and the label that its samples must have."""

    metric: str
    label: tuple[str, str] | None = None


class MetricRow(NamedTuple):
    names: tuple[MetricName, ...]
    largest: bool = False
    """Of several engines, the largest value counts, not the sum."""


def _row(*metrics: str, largest: bool = False) -> MetricRow:
    return MetricRow(tuple(MetricName(metric) for metric in metrics), largest)


TABLES: Mapping[str, Mapping[str, MetricRow]] = {
    "llama.cpp": {
        "queued": _row("llamacpp:requests_deferred"),
        "running": _row("llamacpp:requests_processing"),
        "kv_use": _row("llamacpp:kv_cache_usage_ratio", largest=True),
        "prompt_tokens": _row("llamacpp:prompt_tokens_total"),
        "generated_tokens": _row("llamacpp:tokens_predicted_total"),
        "steps": _row("llamacpp:n_decode_total"),
    },
    "vllm": {
        # a deferred request waits for something outside the engine: more memory would not help
        "queued": MetricRow((
            MetricName("vllm:num_requests_waiting_by_reason", ("reason", "capacity")),
            MetricName("vllm:num_requests_waiting"),
        )),
        "running": _row("vllm:num_requests_running"),
        "kv_use": _row("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", largest=True),
        "prompt_tokens": _row("vllm:prompt_tokens_total"),
        "generated_tokens": _row("vllm:generation_tokens_total"),
        "preemptions": _row("vllm:num_preemptions_total"),
        "prefix_queries": _row("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        "prefix_hits": _row("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        "prefix_hit_share": _row("vllm:gpu_prefix_cache_hit_rate", largest=True),
    },
    "sglang": {
        "queued": _row("sglang:num_queue_reqs"),
        "running": _row("sglang:num_running_reqs"),
        "kv_use": _row("sglang:token_usage", largest=True),
        "prompt_tokens": _row("sglang:prompt_tokens_total"),
        "generated_tokens": _row("sglang:generation_tokens_total"),
        "preemptions": _row("sglang:num_retracted_requests_total"),
        "prefix_hits": _row("sglang:cached_tokens_total"),
        "prefix_hit_share": _row("sglang:cache_hit_rate", largest=True),
    },
}  # fmt: skip
"""Engine -> signal -> its names in all versions, newest first."""


def read(engine: str, text: str) -> Signals:
    """Never raises. Engine `openai` may be any of the others, so the names of all are tried in turn."""
    tables = [TABLES[engine]] if engine in TABLES else list(TABLES.values())
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
