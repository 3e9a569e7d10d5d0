"""What a model has to prove before an alias may mean it, and the aliases that are held to it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from stoker.domain.run import RunKind

_FORM = re.compile(
    r"(?P<metric>(?:r[0-9]+\.[0-9]+\.)?[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)?)\s*(?P<op><=|>=|<|>|==)\s*(?P<value>\S+)"
)
_WORD = re.compile(r"[a-z][a-z0-9_-]*")
_VALUE = re.compile(r"(-?\d+(?:\.\d+)?)([a-zA-Z%]*)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
}  # fmt: skip
_UNITS = {
    "": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "%": 0.01, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
    "KB": 1e3, "MB": 1e6, "GB": 1e9,
}  # fmt: skip
WHOLE = {
    RunKind.PREFLIGHT.value: RunKind.PREFLIGHT,
    RunKind.CANARY.value: RunKind.CANARY,
    RunKind.SOAK.value: RunKind.SOAK,
}
"""Conditions of one word: that kind of measurement passed as a whole."""
BOUNDS = ("lower", "upper")
"""`NAME.lower`: the lower end of the 95 % interval of the rate `NAME.passed` of `NAME.n`."""


class Condition(NamedTuple):
    """`ttft_p95 < 2s`, `tools.lower >= 0.85`, or `preflight` alone."""

    text: str
    metric: str
    op: str = ""
    value: float = 0.0
    """In seconds, bytes, or as it stands."""

    @property
    def measurement(self) -> RunKind | None:
        """The kind of measurement that has to have passed as a whole; None: it compares a number."""
        return None if self.op else WHOLE[self.metric]

    @property
    def rate(self) -> str:
        """The rate whose interval is meant; empty: none is."""
        name, dot, bound = self.metric.partition(".")
        return name if dot and bound in BOUNDS else ""

    def holds(self, seen: float) -> bool:
        return _OPERATORS[self.op](seen, self.value)


class Gate(msgspec.Struct, frozen=True):
    """A named list of conditions. All have to hold."""

    name: str
    conditions: tuple[Condition, ...]
    max_age: float | None = None
    """Seconds after which a measurement is too old; None: it is good as long as its fingerprint."""


class Alias(msgspec.Struct, frozen=True):
    """A model name that means one serve at a time. A promotion moves it."""

    name: str
    serve: str
    """As configured; an override counts more."""
    gate: str | None = None
    watch: float = 600.0
    """Seconds for which a promotion is watched; 0: not at all."""
    check_every: float = 30.0
    """Seconds between two looks."""


class Override(msgspec.Struct, frozen=True):
    """A promotion, kept over reload and restart: effective = override over file."""

    alias: str
    serve: str
    previous: str
    """Where the alias goes back to."""
    at: float
    """Unix time."""
    evidence: str = ""
    """Id of the gate's run; empty: it was forced."""
    reason: str = ""


def condition(text: str) -> Condition:
    """Raises ValueError that says what is expected."""
    stripped = text.strip()
    if _WORD.fullmatch(stripped):
        if stripped in WHOLE:
            return Condition(stripped, stripped)
        raise ValueError(
            f"is not a measurement that can stand alone. Use one of {', '.join(WHOLE)}, or compare a number"
        )
    found = _FORM.fullmatch(stripped)
    if found is None:
        raise ValueError("is not a condition: write `preflight`, or NAME OP VALUE such as `ttft_p95 < 2s`")
    return Condition(stripped, found["metric"], found["op"], _value(found["value"]))


def _value(text: str) -> float:
    found = _VALUE.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(
            f"{text[:40]!r} is not a number with a known unit: write for example 0.85, 90%, 250ms, 2s or 18GiB"
        )
    return float(found[1]) * _UNITS[found[2]]
