"""Learns the weights that tell classes of tasks apart: `python -m training.classifier`.

Multinomial logistic regression over the features of `stoker_auto.classify.features`, by full gradients with Adam
(arXiv:1412.6980); hard negatives count more, since a false alarm is dearer than another mistake. It learns from
tests/data/tasks: training.jsonl, informal.jsonl, strangers.jsonl, what `training.compose` makes of requests.txt, and
the half of labelled.jsonl that is not held out. Writes
src/stoker_auto/classify/data/weights.bin. Two to three minutes on one core; needs numpy.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench.classifier import TASKS, load

from stoker.domain.task import CLASSES, HIGH_RISK
from stoker_auto.classifier.labelled_prompts import ClassifierScore, LabelledPrompt, score
from stoker_auto.classify.asks import read
from stoker_auto.classify.classify import Classifier
from stoker_auto.classify.features import features, form, named
from stoker_auto.classify.packed import Table, pack, table
from stoker_auto.classify.weights import SCALE, Weights, share_of
from training.compose import composed

OUT = Path(__file__).parent.parent / "src" / "stoker_auto" / "classify" / "data" / "weights.bin"
LEARNED = TASKS / "training.jsonl"
INFORMAL = TASKS / "informal.jsonl"
REQUESTS = TASKS / "requests.txt"
STRANGERS = TASKS / "strangers.jsonl"
"""Its first turns only: what a later one asks for is told by those before it."""
STEPS = 120
RATE = 0.08
PENALTY = 0.5
"""Half the sum of the squares of all weights, times this: what keeps them small."""
HARD = 3.0
WRITTEN = 0.5
OWN = 2.0
PEOPLES = 5.0
MADE = 1.5
"""What prompts count: hard negatives, those of training.jsonl, of labelled.jsonl, of informal.jsonl and
strangers.jsonl, composed ones.
"""
MIX = 0.5
"""How freely every weight may grow, however its feature is spread over the classes."""
LEAST_WEIGHT = 4
"""A feature with no weight of so many hundredths of 24 is left out."""
LEAST, LEAST_NEXT = 3, 6
"""Prompts in which a feature has to be; and a pair of words."""
SAID = ("planning", "multi-file-refactor", "code-edit", "code-write", "review", "tool-use")
"""Classes that are told by the text, whatever a system prompt says."""
Name = tuple[str, str]


class Matrix(NamedTuple):
    """Sparse: of row `r` the columns `columns[starts[r] : starts[r + 1]]`, each `counts` times."""

    columns: np.ndarray
    counts: np.ndarray
    starts: np.ndarray
    width: int


def rows() -> list[tuple[LabelledPrompt, float]]:
    """What it learns from, and how much each counts. Where a system prompt may decide, a text teaches nothing."""
    written = load(LEARNED)
    given = [
        *((row, WRITTEN) for row in written),
        *((row, OWN) for row in load() if not row.is_held_out),
        *((row, MADE) for row in composed(REQUESTS, written)),
        *((row, PEOPLES) for row in load(INFORMAL)),
        *((row, PEOPLES) for row in load(STRANGERS) if row.task_class in CLASSES and not row.outline.earlier),
    ]
    decided = [(row, times) for row, times in given if not row.outline.systems or row.task_class in SAID]
    return [(row, times * (HARD if row.hard else 1.0)) for row, times in decided]


def seen(row: LabelledPrompt) -> dict[Name, float]:
    """What each feature of it counts."""
    found = features(read(row.outline.text))
    share = share_of(found.size)
    counted = {name: times * share for name, times in Counter(named(found, ())).items()}
    return {**counted, **{("form", name): 1.0 for name in ("usual", *form(row.outline))}}


def matrix(found: Sequence[Mapping[Name, float]], places: dict[Name, int]) -> Matrix:
    kept = [[(places[name], count) for name, count in one.items() if name in places] for one in found]
    columns = np.array([column for one in kept for column, _ in one], dtype=np.int64)
    counts = np.array([count for one in kept for _, count in one], dtype=np.float32)
    starts = np.cumsum([0, *(len(one) for one in kept)])
    return Matrix(columns, counts, starts, len(places))


def learn(made: Matrix, labels: np.ndarray, importance: np.ndarray, steps: int = STEPS) -> np.ndarray:
    """Weights, one row per feature and one column per class."""
    scales = _scales(made, labels).astype(np.float32)
    bare = np.zeros((made.width, len(CLASSES)), dtype=np.float32)
    mean, spread = np.zeros_like(bare), np.zeros_like(bare)
    of_row = np.repeat(np.arange(len(labels)), np.diff(made.starts))
    order = np.argsort(made.columns, kind="stable")
    sorted_columns = made.columns[order]
    firsts = np.flatnonzero(np.diff(sorted_columns, prepend=-1))
    met = sorted_columns[firsts]
    wanted = np.eye(len(CLASSES), dtype=np.float32)[labels]
    for step in range(1, steps + 1):
        weights = bare * scales
        sums = np.add.reduceat(weights[made.columns] * made.counts[:, None], made.starts[:-1], axis=0)
        grown = np.exp(sums - sums.max(axis=1, keepdims=True))
        wrong = (grown / grown.sum(axis=1, keepdims=True) - wanted) * importance[:, None]
        gradient = PENALTY * bare
        each = (wrong[of_row] * made.counts[:, None])[order]
        gradient[met] += np.add.reduceat(each, firsts, axis=0) * scales[met]
        mean = 0.9 * mean + 0.1 * gradient
        spread = 0.999 * spread + 0.001 * gradient**2
        rate = RATE * (1 - (step - 1) / steps)
        bare -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(spread / (1 - 0.999**step)) + 1e-8)
    return bare * scales


def _scales(made: Matrix, labels: np.ndarray) -> np.ndarray:
    """How freely each weight may grow: MIX, and more where the feature is of that class more often than of others, or
    less. After Wang and Manning 2012 (Baselines and Bigrams, aclanthology.org/P12-2018).
    """
    often = np.zeros((made.width, len(CLASSES)))
    np.add.at(often, (made.columns, np.repeat(labels, np.diff(made.starts))), made.counts)
    inside, outside = often + 1, often.sum(axis=1, keepdims=True) - often + 1
    ratio = np.log((inside / inside.sum(axis=0)) / (outside / outside.sum(axis=0)))
    return MIX + (1 - MIX) * np.abs(ratio)


def tables(weights: np.ndarray, places: dict[Name, int]) -> dict[str, Table]:
    """As `request.decide.weights` reads them. A feature whose weights are all next to nothing is left out."""
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    for (name, feature), place in places.items():
        scaled = np.clip(np.round(weights[place] * SCALE), -127, 127).astype(int)
        if np.abs(scaled).max() >= LEAST_WEIGHT:
            found[name][feature] = bytes(128 + int(one) for one in scaled)
    return {name: table(dict(sorted(rows.items())), len(CLASSES)) for name, rows in sorted(found.items())}


def train(given: Sequence[LabelledPrompt], importance: Sequence[float], steps: int = STEPS) -> dict[str, Table]:
    found = [seen(row) for row in given]
    often = Counter(name for one in found for name in one)
    kept = sorted(name for name, n in often.items() if n >= (LEAST_NEXT if name[0] == "next" else LEAST))
    places = {name: place for place, name in enumerate(kept)}
    labels = np.array([CLASSES.index(row.task_class) for row in given])
    return tables(learn(matrix(found, places), labels, np.array(importance, dtype=np.float32), steps), places)


def folded(given: Sequence[LabelledPrompt], importance: Sequence[float], folds: int) -> ClassifierScore:
    """What it does on each fold of its own prompts, having learned from the others."""
    names: dict[int, str] = {}
    for fold in range(folds):
        apart = [place for place in range(len(given)) if place % folds != fold]
        made = train([given[place] for place in apart], [importance[place] for place in apart])
        classifier = Classifier(Weights(CLASSES, made))
        for place in range(fold, len(given), folds):
            names[id(given[place].outline)] = classifier.classify(given[place].outline, None, CLASSES).name
    return score(given, lambda outline: names[id(outline)])


def digest() -> str:
    """Of what it learns from: the held-out half counts too, for it stands in the same file."""
    files = (LEARNED, INFORMAL, REQUESTS, STRANGERS, TASKS / "labelled.jsonl")
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.classifier", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--folds", type=int, metavar="N", help="write nothing: measure it on N folds of what it has")
    found = parser.parse_args(argv)
    given, importance = zip(*rows(), strict=True)
    if found.folds:
        seen = folded(given, importance, found.folds)
        recalls = ", ".join(f"{name} {seen.recall(name):.3f}" for name in HIGH_RISK)
        hard = sum(row.hard for row in given)
        print(
            f"{seen.total} prompts, accuracy {seen.accuracy:.3f}, {recalls}, {seen.false_alarms} of {hard} hard taken"
        )
        return 0
    made = train(given, importance)
    found.out.parent.mkdir(exist_ok=True)
    found.out.write_bytes(pack(digest(), CLASSES, made))
    features = sum(len(one.names) for one in made.values())
    print(f"{len(given)} prompts, {features} features, {found.out.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
