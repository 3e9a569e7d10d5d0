"""How well tasks are told apart: `python -m bench.classifier [--half NAME | --file FILE] [--errors]`.

Labelled prompts go through the classifier: those of tests/data/tasks, or a FILE of whole request bodies. Shown are
accuracy, recall and precision of each class, languages, hard negatives, the text alone beside all that a request says,
each kind of mistake with its cost, and what a classification costs in CPU time. Mistakes of sets that measure are
counted, never shown; tests/data/tasks/looked_at.json counts how often each was looked at. Exits 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from bench import machine
from bench.figures import show, table
from stoker.domain.dialect import Dialect
from stoker.domain.task import CLASSES, HIGH_RISK, LONG, Outline
from stoker_auto.classifier.labelled_prompts import (
    ClassifierScore,
    LabelledPrompt,
    mistake_cost,
    read_prompts,
    score,
)
from stoker_auto.classify.classify import SIGNS, Classifier
from stoker_auto.classify.weights import Weights
from stoker_auto.routing.classifier import classify, packed
from stoker_content.outline import outline

TASKS = Path(__file__).parent.parent / "tests" / "data" / "tasks"
LABELLED = TASKS / "labelled.jsonl"
BLIND = TASKS / "blind.jsonl"
BLIND2 = TASKS / "blind2.jsonl"
BLIND3 = TASKS / "blind3.jsonl"
"""Written by others, who had seen neither the labelled set nor what tells its classes apart, nor each other's."""
STRANGERS2 = TASKS / "strangers2.jsonl"
"""Whole request bodies as people and their tools send them, by another hand.
Its mistakes were looked at.
"""
BLIND_SET_USES = TASKS / "looked_at.json"
HALVES: dict[str, Callable[[], list[LabelledPrompt]]] = {
    "tuned": lambda: [row for row in load() if not row.is_held_out],
    "held-out": lambda: [row for row in load() if row.is_held_out],
    "both": lambda: load(),
    "blind": lambda: load(BLIND),
    "blind2": lambda: load(BLIND2),
    "blind3": lambda: load(BLIND3),
    "strangers2": lambda: load(STRANGERS2),
}
"""What `--half` takes. `both`: the two halves of the labelled set, without the blind one."""
ACCURACY = 0.90
RECALL = 0.97
ALARMS = 0.02
LANGUAGES_APART = 0.05
"""Goals: of all; of each high-risk class; hard negatives taken for high-risk; how far below English others may be."""
NEVER_SEEN = 2048
"""Bytes of the texts whose cost is measured."""
_LOG_LINE = "2026-03-11T10:14:{:02}Z WARN depot.queue request {} timed out after 30 s, retrying"


class BlindSetUse(msgspec.Struct):
    """`times`: how often a set was measured; `first`: the figures of the first time."""

    times: int = 0
    first: dict[str, float] = {}


class _Request(msgspec.Struct):
    """A row whose prompt is a whole request."""

    task_class: str = msgspec.field(name="class")
    dialect: str
    body: msgspec.Raw
    also: list[str] = []
    hard: bool = False
    lang: str = "en"


def missed(seen: ClassifierScore, hard: int | None = None) -> list[str]:
    """Goals that are not reached. `hard`: negatives among the prompts; None: not one may be taken for high-risk."""
    low = [f"accuracy {seen.accuracy:.3f} < {ACCURACY}"] if seen.accuracy < ACCURACY else []
    recalls = [(name, seen.recall(name)) for name in HIGH_RISK]
    low += [f"recall of {name} {got:.3f} < {RECALL}" for name, got in recalls if got is not None and got < RECALL]
    too_many = seen.false_alarms > ALARMS * (hard or 0)
    return low + ([f"{seen.false_alarms} hard negatives taken for high-risk"] if too_many else [])


def load(path: Path = LABELLED) -> list[LabelledPrompt]:
    """Raises msgspec.ValidationError for a line that is none."""
    body = path.read_bytes()
    if b'"body"' not in body.partition(b"\n")[0]:
        return read_prompts(body)
    return [_of_request(msgspec.json.decode(line, type=_Request)) for line in body.splitlines() if line.strip()]


def _of_request(row: _Request) -> LabelledPrompt:
    """As routing sees it: a prompt that nobody counted is long by its size."""
    seen, _ = outline(Dialect(row.dialect), bytes(row.body))
    seen = msgspec.structs.replace(seen, is_long=seen.estimated_tokens >= LONG)
    return LabelledPrompt(row.task_class, row.hard, seen, tuple(row.also), row.lang)


def learned(outline: Outline) -> str:
    return classify(outline, None, CLASSES).name


def microseconds(texts: Sequence[str], rounds: int = 15) -> float:
    """CPU time of classifying one of these texts, each seen for the first time: the least mean of the rounds. Their
    words have been met before, as on a machine that runs for a while.
    """
    shipped, least = packed(), float("inf")
    weights = Weights(shipped.classes, shipped.tables)
    seen = [Outline(text=text) for text in texts]
    for _ in range(rounds):
        classifier = Classifier(weights)
        began = time.process_time_ns()
        for each in seen:
            classifier.classify(each, None, CLASSES)
        least = min(least, (time.process_time_ns() - began) / len(seen) / 1000)
    return least


def texts_of(size: int, rows: Sequence[LabelledPrompt], count: int = 60, seed: int = 5) -> dict[str, list[str]]:
    """Texts of `size` bytes that differ, by kind: what people ask, beside what they paste. The same each time."""
    chance = random.Random(seed)
    by_kind = {
        "prose": [row.outline.text for row in rows if row.task_class in ("creative", "planning", "chat", "summarise")],
        "code": [row.outline.text for row in rows if row.task_class in ("code-edit", "review")],
        "other languages": [row.outline.text for row in rows if row.language not in ("en", "")],
    }
    found = {}
    for kind, pieces in by_kind.items():
        made = ["\n\n".join(chance.choices(pieces, k=2 + size // 40)) for _ in range(count)]
        found[kind] = [text.encode()[:size].decode(errors="ignore") for text in made]
    found["a request in a log"] = [
        f"{_log(chance, size // 2)}\n\n{chance.choice(rows).outline.text[:200]}\n\n{_log(chance, size // 2 - 200)}"
        for _ in range(count)
    ]
    return found


def _log(chance: random.Random, size: int) -> str:
    lines = size // len(_LOG_LINE) + 1
    return "\n".join(_LOG_LINE.format(chance.randrange(60), chance.randrange(10**6)) for _ in range(lines))[:size]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.classifier", description=__doc__)
    parser.add_argument("--half", choices=tuple(HALVES), default="held-out", help="default held-out")
    parser.add_argument("--file", type=Path, metavar="FILE", help="measure on these rows instead: whole requests")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything that was seen")
    parser.add_argument("--errors", action="store_true", help="show each mistake: of the tuned half only")
    found = parser.parse_args(argv)
    if found.errors and (found.half != "tuned" or found.file is not None):
        parser.error("--errors needs --half tuned: who sees the mistakes of another one tunes on it")
    name = found.half if found.file is None else found.file.stem
    rows = HALVES[found.half]() if found.file is None else load(found.file)
    seen = score(rows, learned)
    sides = by_side(rows)
    texts = texts_of(NEVER_SEEN, load(TASKS / "informal.jsonl"))
    costs = {f"2 KB never seen, {kind}": microseconds(some) for kind, some in texts.items()}
    facts = machine.facts()
    print(machine.headline(facts))
    print(_shown(seen, name, costs, sides))
    if name not in ("tuned", "both"):
        print(_count_use(name, {"accuracy": seen.accuracy, **{side: figure for side, _, figure in sides}}))
    if found.errors:
        print(_errors(rows))
    if found.json is not None:
        raw = {"machine": facts, "half": name, "microseconds": costs, "sides": sides, **_raw(seen)}
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    return 1 if missed(seen, sum(row.hard for row in rows)) else 0


def by_side(rows: Sequence[LabelledPrompt]) -> list[tuple[str, int, float]]:
    """What was measured, of how many prompts, the share."""
    named = {id(row): learned(row.outline) for row in rows}

    def share(
        name: str, some: Iterable[LabelledPrompt], holds: Callable[[LabelledPrompt], bool]
    ) -> tuple[str, int, float]:
        of = list(some)
        return name, len(of), round(sum(map(holds, of)) / len(of), 4) if of else 0.0

    def is_right(row: LabelledPrompt) -> bool:
        return named[id(row)] == row.task_class

    def is_alarmed(row: LabelledPrompt) -> bool:
        return named[id(row)] in HIGH_RISK

    told = [row for row in rows if row.task_class not in SIGNS]
    languages = sorted({row.language for row in rows} - {"en"})
    return [
        share("right or an accepted alternate", rows, lambda row: is_right(row) or named[id(row)] in row.also),
        share("high-risk found", (row for row in rows if row.task_class in HIGH_RISK), is_alarmed),
        share("hard negatives taken for high-risk", (row for row in rows if row.hard), is_alarmed),
        share("others taken for high-risk", (row for row in rows if row.task_class not in HIGH_RISK), is_alarmed),
        share("with all that the request says", told, is_right),
        share(
            "the same by the text alone", told, lambda row: learned(Outline(text=row.outline.text)) == row.task_class
        ),
        share("English", (row for row in rows if row.language == "en"), is_right),
        *([share("other languages", (row for row in rows if row.language != "en"), is_right)] if languages else []),
        *(share(f"language {one}", (row for row in rows if row.language == one), is_right) for one in languages),
    ]


def _count_use(name: str, figures: dict[str, float]) -> str:
    uses = (
        msgspec.json.decode(BLIND_SET_USES.read_bytes(), type=dict[str, BlindSetUse]) if BLIND_SET_USES.exists() else {}
    )
    use = uses.setdefault(name, BlindSetUse())
    use.times += 1
    use.first = use.first or {key: round(figure, 4) for key, figure in figures.items()}
    BLIND_SET_USES.write_bytes(msgspec.json.format(msgspec.json.encode(uses), indent=1) + b"\n")
    return f"{name}: looked at {use.times} times; accuracy at first contact {use.first['accuracy']:.3f}"


def _shown(seen: ClassifierScore, half: str, costs: dict[str, float], sides: Sequence[tuple[str, int, float]]) -> str:
    classes = [
        [name, str(seen.labels[name]), show(seen.recall(name), 2), show(seen.precision(name), 2)] for name in CLASSES
    ]
    mistakes = [
        [label, taken, str(count), str(count * mistake_cost(label, taken))]
        for (label, taken), count in sorted(seen.mistakes.items(), key=lambda item: -item[1] * mistake_cost(*item[0]))
    ]
    hard = next(count for name, count, _ in sides if name.startswith("hard"))
    return "\n".join(
        (
            f"{half}: {seen.total} prompts, accuracy {seen.accuracy:.3f} (goal {ACCURACY}), cost {seen.cost}, "
            f"{seen.false_alarms} of {hard} hard negatives taken for high-risk (goal at most {ALARMS:.0%})",
            table(["", "prompts", "share"], [[name, str(count), f"{share:.3f}"] for name, count, share in sides]),
            table(["class", "prompts", "recall", "precision"], classes),
            table(["label", "taken for", "times", "cost"], mistakes),
            ", ".join(f"{name}: {cost:.0f} us" for name, cost in costs.items()),
            *(f"MISSED: {goal}" for goal in missed(seen, hard)),
        )
    )


def _errors(rows: Iterable[LabelledPrompt]) -> str:
    told = ((row, classify(row.outline, None, CLASSES)) for row in rows)
    return "\n".join(
        f"{row.task_class} taken for {task.name} {' '.join(task.notes)}: {row.outline.text[:100]!r}"
        for row, task in told
        if task.name != row.task_class
    )


def _raw(seen: ClassifierScore) -> dict[str, object]:
    classes = {name: {"recall": seen.recall(name), "precision": seen.precision(name)} for name in CLASSES}
    mistakes = [[*pair, count, count * mistake_cost(*pair)] for pair, count in seen.mistakes.items()]
    return {
        "total": seen.total,
        "accuracy": seen.accuracy,
        "cost": seen.cost,
        "alarms": seen.false_alarms,
        "classes": classes,
        "mistakes": mistakes,
        "missed": missed(seen),
    }


if __name__ == "__main__":
    sys.exit(main())
