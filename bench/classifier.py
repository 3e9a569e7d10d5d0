"""How well tasks are told apart: `python -m bench.classifier [--half NAME] [--errors]`, with a NAME of `HALVES`.

Labelled prompts (tests/data/tasks) go through the classifier: accuracy, recall and precision of each class, each kind
of mistake with its cost, and what a classification costs in CPU time. It has learned from one half and from a training
set; the mistakes in the other half, and in the blind sets by other hands, are counted, never shown. Exits 1 when a goal
is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from bench import machine
from bench.figures import show, table
from stoker.domain.task import CLASSES, HIGH_RISK, Outline
from stoker.learned import classify
from stoker.measure.labelled import Labelled, Score, price, read, score

TASKS = Path(__file__).parent.parent / "tests" / "data" / "tasks"
LABELLED = TASKS / "labelled.jsonl"
BLIND = TASKS / "blind.jsonl"
BLIND2 = TASKS / "blind2.jsonl"
BLIND3 = TASKS / "blind3.jsonl"
"""Written by others, who had seen neither the labelled set nor what tells its classes apart, nor each other's."""
HALVES: dict[str, Callable[[], list[Labelled]]] = {
    "tuned": lambda: [row for row in load() if not row.is_held_out],
    "held-out": lambda: [row for row in load() if row.is_held_out],
    "both": lambda: load(),
    "blind": lambda: load(BLIND),
    "blind2": lambda: load(BLIND2),
    "blind3": lambda: load(BLIND3),
}
"""What `--half` takes. `both`: the two halves of the labelled set, without the blind one."""
ACCURACY = 0.85
RECALL = 0.95
"""Goals: of all, and of each high-risk class. And no hard negative may be taken for high-risk."""
SHORT = "Rename the variable total to sum in this function, please, and tell me why the test fails on Mondays."
PASTED = " ".join(
    f"Line {number} of a text that was pasted, with a (bracket) and a name.py in it." for number in range(110)
)


def missed(seen: Score) -> list[str]:
    """Goals that are not reached."""
    low = [f"accuracy {seen.accuracy:.3f} < {ACCURACY}"] if seen.accuracy < ACCURACY else []
    recalls = [(name, seen.recall(name)) for name in HIGH_RISK]
    low += [f"recall of {name} {got:.3f} < {RECALL}" for name, got in recalls if got is not None and got < RECALL]
    return low + ([f"{seen.alarms} hard negatives taken for high-risk"] if seen.alarms else [])


def load(path: Path = LABELLED) -> list[Labelled]:
    """Raises msgspec.ValidationError for a line that is none."""
    return read(path.read_bytes())


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
    return 1 if missed(seen) else 0


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
            *(f"MISSED: {goal}" for goal in missed(seen)),
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
        "missed": missed(seen),
    }


if __name__ == "__main__":
    sys.exit(main())
