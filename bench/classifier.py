"""How well tasks are told apart: `python -m bench.classifier [--half tuned|held-out|both|blind|blind2] [--errors]`.

Labelled prompts (tests/data/tasks) go through the classifier: accuracy, recall and precision of each class, each kind
of mistake with its cost, and what a classification costs in CPU time. It has learned from one half and from a training
set; the mistakes in the other half, and in the blind sets by other hands, are counted, never shown. Exits 1 when a goal
is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import machine
from bench.figures import show, table
from stoker.domain.task import CLASSES, HIGH_RISK, LONG, Outline
from stoker.learned import classify

TASKS = Path(__file__).parent.parent / "tests" / "data" / "tasks"
LABELLED = TASKS / "labelled.jsonl"
BLIND = TASKS / "blind.jsonl"
BLIND2 = TASKS / "blind2.jsonl"
"""Written by others, who had seen neither the labelled set nor what tells its classes apart, nor each other's."""
HALVES: dict[str, Callable[[], list[Labelled]]] = {
    "tuned": lambda: [row for row in load() if not row.is_held_out],
    "held-out": lambda: [row for row in load() if row.is_held_out],
    "both": lambda: load(),
    "blind": lambda: load(BLIND),
    "blind2": lambda: load(BLIND2),
}
"""What `--half` takes. `both`: the two halves of the labelled set, without the blind one."""
ACCURACY = 0.85
RECALL = 0.95
"""Goals: of all, and of each high-risk class. And no hard negative may be taken for high-risk."""
MISSED, ALARMED, OTHER = 10, 3, 1
"""What it costs to take high-risk work for something else, something else for high-risk, and the rest."""
SHORT = "Rename the variable total to sum in this function, please, and tell me why the test fails on Mondays."
PASTED = " ".join(
    f"Line {number} of a text that was pasted, with a (bracket) and a name.py in it." for number in range(110)
)


class Labelled(NamedTuple):
    task_class: str
    hard: bool
    outline: Outline

    @property
    def is_held_out(self) -> bool:
        return hashlib.blake2b(self.outline.text.encode()).digest()[0] % 2 == 1


class Score(NamedTuple):
    """`mistakes`: (label, taken for) -> how often; `alarms`: hard negatives that were taken for high-risk."""

    total: int
    labels: Counter[str]
    taken: Counter[str]
    right: Counter[str]
    mistakes: Counter[tuple[str, str]]
    alarms: int

    @property
    def accuracy(self) -> float:
        return self.right.total() / self.total if self.total else 0.0

    @property
    def cost(self) -> int:
        return sum(count * price(*pair) for pair, count in self.mistakes.items())

    def recall(self, name: str) -> float | None:
        return self.right[name] / self.labels[name] if self.labels[name] else None

    def precision(self, name: str) -> float | None:
        return self.right[name] / self.taken[name] if self.taken[name] else None

    def missed(self) -> list[str]:
        """Goals that are not reached."""
        low = [f"accuracy {self.accuracy:.3f} < {ACCURACY}"] if self.accuracy < ACCURACY else []
        recalls = [(name, self.recall(name)) for name in HIGH_RISK]
        low += [f"recall of {name} {got:.3f} < {RECALL}" for name, got in recalls if got is not None and got < RECALL]
        return low + ([f"{self.alarms} hard negatives taken for high-risk"] if self.alarms else [])


def price(label: str, taken: str) -> int:
    """Of one mistake. One high-risk class taken for the other is routed with the same care."""
    if (label in HIGH_RISK) == (taken in HIGH_RISK):
        return OTHER
    return MISSED if label in HIGH_RISK else ALARMED


def load(path: Path = LABELLED) -> list[Labelled]:
    """Raises msgspec.ValidationError for a line that is none."""
    return [_labelled(line) for line in path.read_bytes().splitlines() if line.strip()]


def _labelled(line: bytes) -> Labelled:
    row = msgspec.json.decode(line, type=dict[str, object])
    task_class, hard = str(row.pop("class")), bool(row.pop("hard", False))
    tokens = row.get("tokens")
    row["is_long"] = isinstance(tokens, int) and tokens >= LONG
    return Labelled(task_class, hard, msgspec.convert(row, Outline))


def score(rows: Iterable[Labelled], decide: Callable[[Outline], str]) -> Score:
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
    return Score(labels.total(), labels, taken, right, mistakes, alarms)


def learned(outline: Outline) -> str:
    return classify(outline, None, CLASSES).name


def microseconds(text: str, times: int = 50, rounds: int = 9) -> float:
    """CPU time of one classification: the least of the rounds."""
    outline = Outline(text=text)
    least = float("inf")
    for _ in range(rounds):
        began = time.process_time_ns()
        for _ in range(times):
            classify(outline, None, CLASSES)
        least = min(least, (time.process_time_ns() - began) / times / 1000)
    return least


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.classifier", description=__doc__)
    parser.add_argument("--half", choices=tuple(HALVES), default="held-out", help="default held-out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    parser.add_argument("--errors", action="store_true", help="show each mistake: of the tuned half only")
    found = parser.parse_args(argv)
    if found.errors and found.half != "tuned":
        parser.error("--errors needs --half tuned: who sees the mistakes of another one tunes on it")
    rows = HALVES[found.half]()
    seen = score(rows, learned)
    costs = {"short": microseconds(SHORT), "8 KB": microseconds(PASTED[:8192])}
    facts = machine.facts()
    print(machine.headline(facts))
    print(_shown(seen, found.half, costs))
    if found.errors:
        print(_errors(rows))
    if found.json is not None:
        raw = {"machine": facts, "half": found.half, "microseconds": costs, **_raw(seen)}
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    return 1 if seen.missed() else 0


def _shown(seen: Score, half: str, costs: dict[str, float]) -> str:
    classes = [
        [name, str(seen.labels[name]), show(seen.recall(name), 2), show(seen.precision(name), 2)] for name in CLASSES
    ]
    mistakes = [
        [label, taken, str(count), str(count * price(label, taken))]
        for (label, taken), count in sorted(seen.mistakes.items(), key=lambda item: -item[1] * price(*item[0]))
    ]
    return "\n".join(
        (
            f"{half}: {seen.total} prompts, accuracy {seen.accuracy:.3f} (goal {ACCURACY}), cost {seen.cost}, "
            f"{seen.alarms} hard negatives taken for high-risk (goal 0)",
            table(["class", "prompts", "recall", "precision"], classes),
            table(["label", "taken for", "times", "cost"], mistakes),
            ", ".join(f"{name}: {cost:.0f} us" for name, cost in costs.items()),
            *(f"MISSED: {goal}" for goal in seen.missed()),
        )
    )


def _errors(rows: Iterable[Labelled]) -> str:
    told = ((row, classify(row.outline, None, CLASSES)) for row in rows)
    return "\n".join(
        f"{row.task_class} taken for {task.name} {' '.join(task.notes)}: {row.outline.text[:100]!r}"
        for row, task in told
        if task.name != row.task_class
    )


def _raw(seen: Score) -> dict[str, object]:
    classes = {name: {"recall": seen.recall(name), "precision": seen.precision(name)} for name in CLASSES}
    mistakes = [[*pair, count, count * price(*pair)] for pair, count in seen.mistakes.items()]
    return {
        "total": seen.total,
        "accuracy": seen.accuracy,
        "cost": seen.cost,
        "alarms": seen.alarms,
        "classes": classes,
        "mistakes": mistakes,
        "missed": seen.missed(),
    }


if __name__ == "__main__":
    sys.exit(main())
