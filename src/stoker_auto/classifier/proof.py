"""Whether a model may classify requests beside the built-in classifier. Its answers to the held-out prompts are in
STATE/classifier/SERVE.jsonl; together with them the built-in classifier has to do better than alone.

The first line names the model and the wording; each further line is the answer to one prompt. An interrupted run
continues there, and other settings are judged by the same answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.domain.routing import ClassifierModelSettings
from stoker.domain.run import Fingerprint
from stoker.domain.task import CLASSES, Task
from stoker_auto.classifier.labelled_prompts import ClassifierScore, LabelledPrompt, held_out, score, why_not_better
from stoker_auto.classifier.question import WORDING, combined, is_doubtful, unanswered
from stoker_auto.routing.classifier import classify
from stoker_lab.artifacts import record_file


class AnswersHeader(msgspec.Struct, frozen=True):
    identity: str
    execution: str
    wording: str = WORDING


class ClassifierAnswer(msgspec.Struct, frozen=True):
    """The model's answer to one prompt. `word`: empty if the answer names no class."""

    digest: str
    word: str
    seconds: float


class ClassifierAnswers(NamedTuple):
    """`header`: None if there is no file, or if it was made with another wording."""

    header: AnswersHeader | None = None
    answers: Mapping[str, ClassifierAnswer] = {}
    """Answers by the digest of their prompt."""


class ClassifierProof(NamedTuple):
    """`rejection`: why the model may not be used; empty: it may."""

    built_in: ClassifierScore
    together: ClassifierScore
    """The score of both classifiers together."""
    alone: ClassifierScore
    asked: int
    """How many of the `total` prompts the model was asked."""
    unclear: int
    late: int
    rejection: str

    @property
    def total(self) -> int:
        return self.built_in.total


def path_of(state: str | Path, serve: str) -> Path:
    return Path(state) / "classifier" / f"{serve}.jsonl"


def load_answers(path: Path) -> ClassifierAnswers:
    """Never raises: what cannot be read was not measured."""
    return _of_this_wording(*record_file.load(path, AnswersHeader, ClassifierAnswer))


def parse_answers(body: bytes) -> ClassifierAnswers:
    """As `load_answers`."""
    return _of_this_wording(*record_file.parse(body, AnswersHeader, ClassifierAnswer))


def _of_this_wording(header: AnswersHeader | None, answers: Iterable[ClassifierAnswer]) -> ClassifierAnswers:
    if header is None or header.wording != WORDING:
        return ClassifierAnswers()
    return ClassifierAnswers(header, {one.digest: one for one in answers})


def header_of(found: Fingerprint) -> AnswersHeader:
    return AnswersHeader(found.identity, found.execution)


@cache
def built_in_tasks() -> tuple[Task, ...]:
    """The class of each held-out prompt by the built-in classifier."""
    return tuple(classify(row.outline, None, CLASSES) for row in held_out())


def prove(
    answers: Mapping[str, ClassifierAnswer],
    settings: ClassifierModelSettings,
    high_risk: Collection[str],
    rows: Sequence[LabelledPrompt] | None = None,
    tasks: Sequence[Task] | None = None,
) -> ClassifierProof:
    """From the answers so far; a late answer does not count. The model may be used only if every prompt was asked and
    what both decide is better than the built-in classifier alone.
    """
    rows, tasks = held_out() if rows is None else rows, built_in_tasks() if tasks is None else tasks
    replies = [answers.get(row.digest) for row in rows]
    words = ["" if one is None or one.seconds > settings.timeout else one.word for one in replies]
    both = [_both(task, word, settings, high_risk) for task, word in zip(tasks, words, strict=True)]
    alone = [word or task for task, word in zip((task.name for task in tasks), words, strict=True)]
    asked = sum(one is not None for one in replies)
    ours, theirs = _score(rows, [task.name for task in tasks]), _score(rows, both)
    return ClassifierProof(
        ours,
        theirs,
        _score(rows, alone),
        asked,
        sum(one is not None and not one.word for one in replies),
        sum(one is not None and one.seconds > settings.timeout for one in replies),
        why_not_better(ours, theirs) if asked == len(rows) else "it was not measured" if not asked else
        f"it was measured with {asked} of {len(rows)} prompts",
    )  # fmt: skip


def _both(task: Task, word: str, settings: ClassifierModelSettings, high_risk: Collection[str]) -> str:
    if not is_doubtful(task, settings.below):
        return task.name
    return (combined(task, word, high_risk) if word else unanswered(task, "unclear")).name


def _score(rows: Sequence[LabelledPrompt], names: Iterable[str]) -> ClassifierScore:
    given = iter(names)
    return score(rows, lambda outline: next(given))
