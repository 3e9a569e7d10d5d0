"""Prompts whose class is known, and how well something tells them apart: what a mistake costs, and what is better."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import msgspec

from stoker.domain.task import HIGH_RISK, LONG, Outline

MISSED, ALARMED, OTHER = 10, 3, 1
"""Costs of mistakes: high-risk work that is missed, other work that is classified as high-risk, any other mistake."""


class LabelledPrompt(NamedTuple):
    task_class: str
    hard: bool
    """The prompt uses the words of a high-risk class but belongs to another class."""
    outline: Outline
    also: tuple[str, ...] = ()
    """Other classes that its author would accept."""
    language: str = "en"

    @property
    def is_held_out(self) -> bool:
        return hashlib.blake2b(self.outline.text.encode()).digest()[0] % 2 == 1

    @property
    def digest(self) -> str:
        """Of all there is to see: an answer belongs to it."""
        return hashlib.blake2b(msgspec.json.encode(self.outline), digest_size=8).hexdigest()


class ClassifierScore(NamedTuple):
    """`mistakes`: (label, taken for) -> how often; `false_alarms`: hard negatives that were taken for high-risk."""

    total: int
    labels: Counter[str]
    predicted: Counter[str]
    right: Counter[str]
    mistakes: Counter[tuple[str, str]]
    false_alarms: int

    @property
    def accuracy(self) -> float:
        return self.right.total() / self.total if self.total else 0.0

    @property
    def cost(self) -> int:
        return sum(count * mistake_cost(*pair) for pair, count in self.mistakes.items())

    def recall(self, name: str) -> float | None:
        return self.right[name] / self.labels[name] if self.labels[name] else None

    def precision(self, name: str) -> float | None:
        return self.right[name] / self.predicted[name] if self.predicted[name] else None


def mistake_cost(label: str, taken: str) -> int:
    """Of one mistake. One high-risk class taken for the other is routed with the same care."""
    if (label in HIGH_RISK) == (taken in HIGH_RISK):
        return OTHER
    return MISSED if label in HIGH_RISK else ALARMED


def read_prompts(body: bytes) -> list[LabelledPrompt]:
    """One JSON object a line. Raises msgspec.ValidationError for a malformed line."""
    return [_labelled(line) for line in body.splitlines() if line.strip()]


@cache
def held_out() -> tuple[LabelledPrompt, ...]:
    """The half of tests/data/tasks/labelled.jsonl that nothing was learned from, as it ships (scripts/held_out.py)."""
    from importlib.resources import files

    return tuple(read_prompts((files("stoker_auto.classifier") / "held-out.jsonl").read_bytes()))


def score(rows: Iterable[LabelledPrompt], decide: Callable[[Outline], str]) -> ClassifierScore:
    labels: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    right: Counter[str] = Counter()
    mistakes: Counter[tuple[str, str]] = Counter()
    alarms = 0
    for row in rows:
        name = decide(row.outline)
        labels[row.task_class] += 1
        taken[name] += 1
        alarms += row.hard and name in HIGH_RISK
        if name == row.task_class:
            right[name] += 1
        else:
            mistakes[row.task_class, name] += 1
    return ClassifierScore(labels.total(), labels, taken, right, mistakes, alarms)


def why_not_better(built_in: ClassifierScore, other: ClassifierScore) -> str:
    """Why `other` may not take the place of `built_in`, of the same prompts; empty: it may.

    1. its mistakes have to cost less  2. of no high-risk class it may find less  3. it may take no more hard negatives
    for high-risk
    """
    if other.cost >= built_in.cost:  # 1
        return f"its mistakes cost {other.cost}; without it they cost {built_in.cost}"
    for name in HIGH_RISK:
        found, before = other.right[name], built_in.right[name]
        if found < before:  # 2
            return f"it finds {found} of {other.labels[name]} {name}; without it {before} are found"
    if other.false_alarms > built_in.false_alarms:  # 3
        return f"it classifies {other.false_alarms} hard negatives as high-risk; without it {built_in.false_alarms} are"
    return ""


def _labelled(line: bytes) -> LabelledPrompt:
    row = msgspec.json.decode(line, type=dict[str, object])
    task_class, hard = str(row.pop("class")), bool(row.pop("hard", False))
    tokens = row.get("tokens")
    row["is_long"] = isinstance(tokens, int) and tokens >= LONG
    language = str(row.pop("lang", "en"))
    return LabelledPrompt(task_class, hard, msgspec.convert(row, Outline), language=language)
