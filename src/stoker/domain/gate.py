"""Gates: the conditions that a serve has to meet before an alias may mean it. Aliases, and their promotions."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from stoker.domain.kinds import Form, SomeDuration, setting
from stoker.domain.run import Run, RunKind

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
"""Conditions of one word: the whole measurement of that kind passed."""
BOUNDS = ("lower", "upper")
"""`NAME.lower`: the lower end of the 95 % interval of the rate `NAME.passed` of `NAME.n`."""


class Condition(NamedTuple):
    """`ttft_p95 < 2s`, `tools.lower >= 0.85`, or `preflight` alone."""

    text: str
    metric: str
    op: str = ""
    value: float = 0.0
    """In seconds or bytes; without a unit, the number itself."""

    @property
    def measurement(self) -> RunKind | None:
        """The kind of measurement that has to pass as a whole; None: the condition compares a number."""
        return None if self.op else WHOLE[self.metric]

    @property
    def rate(self) -> str:
        """The rate whose interval the condition compares; empty: it compares no interval."""
        name, dot, bound = self.metric.partition(".")
        return name if dot and bound in BOUNDS else ""

    def holds(self, seen: float) -> bool:
        """Whether a measured number meets the condition."""
        return _OPERATORS[self.op](seen, self.value)


def _condition(value: object) -> Condition:
    if not isinstance(value, str):
        raise ValueError("must be text in quotes: `preflight`, or NAME OP VALUE like `ttft_p95 < 2s`")
    return condition(value)


ConditionText = Annotated[Condition, Form(_condition, show=lambda one: one.text)]


class Gate(msgspec.Struct, frozen=True):
    """Conditions that a serve has to meet before an alias may point at it."""

    name: str
    conditions: Annotated[
        tuple[ConditionText, ...],
        setting(
            "Required. Conditions that all have to hold: `preflight`, `canary`, `ttft_p95 < 2s`, `code-write.lower >= "
            "0.8`."
        ),
    ]
    max_age: Annotated[
        SomeDuration | None,
        setting("Age from which a measurement no longer counts. Left out: it counts until the serve changes."),
    ] = None

    @property
    def digest(self) -> str:
        """Hex digest of what the gate demands; order and spelling of the conditions do not matter."""
        return _digest(self.conditions)


def digest_of_texts(texts: Iterable[str]) -> str:
    """`Gate.digest` of conditions in their written form. Raises ValueError if one of them is no condition."""
    return _digest(condition(text) for text in texts)


def _digest(conditions: Iterable[Condition]) -> str:
    demands = sorted({(one.metric, one.op, one.value) for one in conditions})
    return hashlib.sha256(msgspec.json.encode(demands)).hexdigest()


class IfUndecided(StrEnum):
    BACK = "back"
    STAY = "stay"


class Alias(msgspec.Struct, frozen=True):
    """A model name that means one serve at a time. A promotion moves it."""

    name: str
    serve: str
    """The configured serve; an Override replaces it."""
    gate: str | None = None
    watch: float = 600.0
    """Seconds for which a promotion is watched; 0: it is not."""
    check_every: float = 30.0
    """Seconds between two checks during the watch."""
    if_undecided: IfUndecided = IfUndecided.BACK
    """What happens after a watch that proved nothing."""


class Override(msgspec.Struct, frozen=True):
    """A promotion. It is stored, survives reload and restart, and replaces the serve that the file names."""

    alias: str
    serve: str
    previous: str
    """The serve to which a rollback moves the alias."""
    at: float
    """Unix time."""
    evidence: str = ""
    """Id of the gate's run; empty: it was forced."""
    reason: str = ""


class MovedAlias(NamedTuple):
    """An alias that points to another serve than the file says."""

    override: Override
    watched_for: float | None = None
    """Seconds for which it is still watched; None: it is not."""


def has_gate_changed(gate: Gate, run: Run) -> bool:
    """Whether the gate demands something else now than when it was run."""
    tested = run.setting("conditions")
    if not isinstance(tested, list) or run.setting("max_age") != gate.max_age:
        return True
    try:
        return digest_of_texts(map(str, tested)) != gate.digest
    except ValueError:  # written by a version that knew other conditions
        return True


def condition(text: str) -> Condition:
    """Parse a condition. Raises ValueError; its message says what is expected."""
    stripped = text.strip()
    if _WORD.fullmatch(stripped):
        if stripped in WHOLE:
            return Condition(stripped, stripped)
        raise ValueError(f"is not a condition of one word. Use one of {', '.join(WHOLE)}, or compare a number")
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


_OF_PRODUCTION = (
    "preflight", "canary", "output_rate >= 20", "ttft_p95 < 5s", "c2.ttft_p95 < 10s", "c4.ttft_p95 < 15s",
    "c4.requests_failed == 0",
)  # fmt: skip
PRODUCTION = Gate("production", tuple(map(condition, _OF_PRODUCTION)))
"""The gate that ships, where the file defines none of this name: protocol, limits, images and tools; quality by the
canary; speed and first token of one request; first tokens of two and of four at once, and that none of them fails.
"""
