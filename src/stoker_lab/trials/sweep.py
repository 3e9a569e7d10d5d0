"""Variants of one serve, what became of each, and the best of them by a goal. Pure.

1. `--vary parallel=4,8 --vary context=2048,4096` -> four variants, in that order; more than MAX_VARIANTS are refused
2. each variant ends as measured, or as a failure with a name (`VariantFailure`)
3. the best is the one that is measured and leads by the goal
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

import msgspec

from stoker.domain.run import Finding, Number, Outcome
from stoker.domain.serve import Serve

MAX_VARIANTS = 64
"""Variants of one sweep."""
NOT_RUN = "not run"


class Goal(StrEnum):
    """By what the best variant is chosen."""

    THROUGHPUT = "throughput"
    TTFT = "ttft"
    DECODE = "decode"
    CONTEXT = "context"


class GoalFigure(NamedTuple):
    """What a goal looks at, and which way it is better."""

    figure: str
    more_is_better: bool
    description: str


GOAL_FIGURES: Mapping[Goal, GoalFigure] = {
    Goal.THROUGHPUT: GoalFigure("output_rate", True, "output tokens per second of all clients"),
    Goal.TTFT: GoalFigure("ttft_p50", False, "median time to first token with one client, ms"),
    Goal.DECODE: GoalFigure("decode_rate", True, "tokens per second of one answer, with one client"),
    Goal.CONTEXT: GoalFigure("context", True, "tokens that one request may use"),
}


class VariantFailure(StrEnum):
    """Why a variant has no figures, besides the names in `engines.failures`."""

    UNSUPPORTED = "unsupported"
    """Its engine cannot express it, or something that it needs is not here: it was not started."""
    START_FAILED = "start_failed"
    """The engine ended before it was ready, for an unknown reason."""
    START_TIMEOUT = "start_timeout"
    SMOKE_FAILED = "smoke_failed"
    """The engine runs but answers wrongly."""
    REQUESTS_FAILED = "requests_failed"
    """Requests of the benchmark failed, and the engine still runs."""
    DIED = "died"
    """The engine ended during the benchmark, for an unknown reason."""
    TIMEOUT = "timeout"
    """The variant was not measured within its time limit."""


class Variant(msgspec.Struct):
    """One variant, and what became of it."""

    settings: dict[str, str] = msgspec.field(name="variant")
    outcome: str = NOT_RUN
    """`measured`, `failed`, or `not run`."""
    failure: str = ""
    observed: str = msgspec.field(default="", name="seen")
    """What happened, as the engine or Stoker describes it."""
    fix: str = ""
    numbers: dict[str, Number] = {}
    seconds: float | None = None

    @property
    def name(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.settings.items())

    @property
    def is_over(self) -> bool:
        return self.outcome != NOT_RUN


class BadVariation(ValueError):
    """A `--vary` that cannot be carried out; the text says what is expected."""


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _count(text: str) -> int:
    found = int(text)
    if found < 1:
        raise ValueError
    return found


_OF_SERVE: Mapping[str, Callable[[str], Any]] = {
    "context": _count, "parallel": _count, "threads": _count, "gpu_layers": int,
}  # fmt: skip
_OF_TUNING: Mapping[str, Callable[[str], Any]] = {
    "tensor_parallel": _count, "pipeline_parallel": _count, "memory_fraction": float, "batched_tokens": _count,
    "dtype": str, "quantization": str, "kv_cache_type": str, "attention_backend": lambda text: (text,),
    "prefix_caching": _flag, "graphs": _flag,
}  # fmt: skip
KEYS = (*_OF_SERVE, *_OF_TUNING, "extra_args")
"""What may vary: settings of a serve, by their names in the configuration."""


def parse_variations(given: Sequence[str]) -> dict[str, list[str]]:
    """From `parallel=4,8` to its key and values. Raises BadVariation."""
    found: dict[str, list[str]] = {}
    for text in given:
        key, equals, listed = text.partition("=")
        values = list(dict.fromkeys(value.strip() for value in listed.split(",") if value.strip()))
        if not equals or not values:
            raise BadVariation(f"--vary {text}: write KEY=VALUE,VALUE,..., as parallel=4,8")
        if key not in KEYS:
            raise BadVariation(f"--vary {text}: unknown key '{key}'; known keys: {', '.join(KEYS)}")
        if key in found:
            raise BadVariation(f"--vary {key} is given twice: put all its values into one, separated by commas")
        for value in values:
            _value(key, value)
        found[key] = values
    if not found:
        raise BadVariation("--vary is required, for example --vary parallel=4,8 --vary context=4096,8192")
    count = 1
    for values in found.values():
        count *= len(values)
    if count > MAX_VARIANTS:
        sizes = " x ".join(str(len(values)) for values in found.values())
        raise BadVariation(
            f"these are {count} variants ({sizes}); a sweep runs at most {MAX_VARIANTS}: use fewer values"
        )
    return found


def variants(varied: Mapping[str, Sequence[str]]) -> list[Variant]:
    """The cross product, the last key changing fastest."""
    return [Variant(dict(zip(varied, values, strict=True))) for values in product(*varied.values())]


def apply_variant(serve: Serve, variant: Mapping[str, str]) -> Serve:
    own = {key: _value(key, text) for key, text in variant.items()}
    tuning = {key: own.pop(key) for key in list(own) if key in _OF_TUNING}
    if "extra_args" in own:
        own["extra_args"] = (*serve.extra_args, *own["extra_args"])
    return replace(serve, **own, tuning=replace(serve.tuning, **tuning))


def _value(key: str, text: str) -> Any:
    """Raises BadVariation."""
    try:
        if key == "extra_args":
            return tuple(shlex.split(text))
        return (_OF_SERVE.get(key) or _OF_TUNING[key])(text)
    except ValueError:
        raise BadVariation(f"--vary {key}: '{text[:40]}' is not a valid value") from None


def best_variant(found: Sequence[Variant], goal: Goal) -> Variant | None:
    """The variant that was measured and leads; of equals the one with more tokens per second, then the first."""
    aim = GOAL_FIGURES[goal]

    def key(row: Variant) -> tuple[float, float]:
        figure = row.numbers.get(aim.figure) or 0.0
        return (figure if aim.more_is_better else -figure), row.numbers.get("output_rate") or 0.0

    measured = [row for row in found if row.outcome == "measured" and row.numbers.get(aim.figure) is not None]
    return max(measured, key=key, default=None)


def findings(found: Sequence[Variant]) -> list[Finding]:
    outcomes = {"measured": Outcome.PASSED, "failed": Outcome.FAILED, NOT_RUN: Outcome.INTERRUPTED}
    return [
        Finding(row.name, outcomes[row.outcome], row.observed, row.failure, row.fix, dict(row.numbers), row.seconds)
        for row in found
    ]


def outcome_of(found: Sequence[Variant]) -> Outcome:
    """Interrupted while one was not run; failed if none could be measured. A variant that fails is a result."""
    if any(not row.is_over for row in found):
        return Outcome.INTERRUPTED
    return Outcome.PASSED if any(row.outcome == "measured" for row in found) else Outcome.FAILED
