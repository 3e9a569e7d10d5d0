"""From requests and their times to numbers with names. Pure; seconds of one clock in, milliseconds and rates out.

Percentiles are over successes; failures stay in every denominator. A percentile that has too few samples is absent
(`stats.MIN_SAMPLES`), and so is everything that needs usage where the server gives none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from stoker.domain.run import Number
from stoker_lab.requests.timing import RequestTiming, Slo, Window, goodput, output_rate
from stoker_lab.statistics.stats import percentile, percentile_if_enough

CHUNKY = 1.2
"""Tokens per chunk above which a gap is one between chunks (ICL), not between tokens (ITL)."""
SPREAD = ("output_rate", "output_rate_steady", "request_rate", "ttft_p50", "tpot_p50", "e2e_p50", "decode_rate")
"""Figures that are given as the median over repeats, with `.low` and `.high`."""


class StepSample(NamedTuple):
    requests: list[RequestTiming]
    window: Window
    """From the end of the warm-up until nothing new was started."""

    @property
    def whole(self) -> Window:
        """Until the last one ended."""
        return Window(self.window.begin, max((one.ended for one in self.requests), default=self.window.end))


def figures(samples: Sequence[StepSample], slo: Slo | None = None, from_schedule: bool = False) -> dict[str, Number]:
    """Everything about one step. `from_schedule`: times count from when a request should have been sent (open loop)."""
    requests = [one for sample in samples for one in sample.requests]
    found = _pooled(requests, from_schedule)
    each = [_rates(sample, slo) | _pooled(sample.requests, from_schedule) for sample in samples]
    for name in _rates_names(slo):
        found[name] = _median(one[name] for one in each)
    for name in SPREAD:
        known = [value for one in each if (value := one.get(name)) is not None]
        if len(known) > 1:
            found[name] = median(known)
            found[f"{name}.low"], found[f"{name}.high"] = min(known), max(known)
    return {name: _rounded(value) for name, value in found.items()}


def counts(requests: Iterable[RequestTiming]) -> dict[str, Number]:
    """Successes, failures, and those by word."""
    every = list(requests)
    words = Counter(one.failure for one in every if not one.is_ok)
    found: dict[str, Number] = {"requests_ok": len(every) - words.total(), "requests_failed": words.total()}
    return found | {f"failed.{word}": n for word, n in sorted(words.items())}


def summary(numbers: Mapping[str, Number]) -> str:
    """`7 ok, 1 failed (http_503 1)`."""
    words = ", ".join(f"{k.removeprefix('failed.')} {v}" for k, v in numbers.items() if k.startswith("failed."))
    return f"{numbers['requests_ok']} ok, {numbers['requests_failed']} failed" + (f" ({words})" if words else "")


def _pooled(requests: Sequence[RequestTiming], from_schedule: bool) -> dict[str, Number]:
    good = [one for one in requests if one.is_ok]
    found = counts(requests)
    lag = {id(one): one.lag if from_schedule else 0.0 for one in good}
    found |= _times("ttft", [one.ttft + lag[id(one)] for one in good if one.ttft is not None])
    found |= _times("ttfo", [one.ttfo + lag[id(one)] for one in good if one.ttfo is not None])
    found |= _times("e2e", [one.e2e + lag[id(one)] for one in good if one.e2e is not None])
    tpot = [one.tpot for one in good if one.tpot is not None]
    found |= _times("tpot", tpot)
    found |= _times("ntpot", [one.ntpot for one in good if one.ntpot is not None])
    middle = percentile(tpot, 0.5)
    found["decode_rate"] = 1 / middle if middle else None
    found |= _gaps(good)
    found |= _tokens(good)
    return found


def _times(name: str, seconds: list[float]) -> dict[str, Number]:
    """`NAME_p50`, `_p95`, `_p99`, `_max` in milliseconds."""
    shares = {
        "p50": percentile(seconds, 0.5),
        "p95": percentile_if_enough(seconds, 0.95),
        "p99": percentile_if_enough(seconds, 0.99),
    }
    shares["max"] = max(seconds, default=None)
    return {f"{name}_{what}": None if value is None else value * 1000 for what, value in shares.items()}


def _gaps(good: Sequence[RequestTiming]) -> dict[str, Number]:
    """Gaps of all requests together: as `itl` where a chunk is a token, else as `icl`; the worst stall beside them."""
    pairs = [(one.chunks, one.tokens.output) for one in good if one.chunks and one.tokens.output is not None]
    chunks = sum(chunk for chunk, _ in pairs)
    ratio = sum(n for _, n in pairs if n is not None) / chunks if chunks else None
    name = "itl" if ratio is not None and ratio <= CHUNKY else "icl"
    found = _times(name, [gap for one in good for gap in one.gaps])
    stalls = [max(one.gaps) * 1000 for one in good if one.gaps]
    return {"tokens_per_chunk": ratio, **found, "stall_max": max(stalls, default=None)}


def _tokens(good: Sequence[RequestTiming]) -> dict[str, Number]:
    found: dict[str, Number] = {}
    for name in ("input", "output", "cached"):
        known = [value for one in good if (value := getattr(one.tokens, name)) is not None]
        found[f"{name}_tokens"] = sum(known) if known else None
    prompts = [one.tokens.input for one in good if one.tokens.input is not None]
    found["prompt_min"], found["prompt_max"] = min(prompts, default=None), max(prompts, default=None)
    cached, whole = found["cached_tokens"], found["input_tokens"]
    found["cached_share"] = cached / whole if cached is not None and whole else None
    found["n_single_token"] = sum(one.tokens.output == 1 for one in good)
    return found


def _rates_names(slo: Slo | None) -> tuple[str, ...]:
    extra = ("goodput", "goodput_share") if slo is not None else ()
    return ("output_rate", "output_rate_steady", "request_rate", "seconds", *extra)


def _rates(sample: StepSample, slo: Slo | None) -> dict[str, Number]:
    requests, whole = sample.requests, sample.whole
    length = whole.end - whole.begin
    good = sum(one.is_ok for one in requests)
    found: dict[str, Number] = {
        "output_rate": output_rate(requests, whole),
        "output_rate_steady": output_rate(requests, sample.window),
        "request_rate": good / length if length > 0 else None,
        "seconds": length,
    }
    if slo is not None:
        kept = goodput(requests, whole, slo)
        found["goodput"], found["goodput_share"] = kept if kept is not None else (None, None)
    return found


def _median(values: Iterable[Number]) -> Number:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _rounded(value: Number) -> Number:
    return round(value, 4) if isinstance(value, float) else value
