"""A model beside the built-in classifier has to have beaten it: by which answers, by which figures, and of what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts import held_out as script

from stoker.domain.routing import ClassifierModelSettings
from stoker.domain.run import Fingerprint
from stoker.domain.task import HIGH_RISK, ClassSource, Outline, Task
from stoker_auto.classifier.labelled_prompts import ClassifierScore, LabelledPrompt, held_out, score, why_not_better
from stoker_auto.classifier.proof import (
    AnswersHeader,
    ClassifierAnswer,
    ClassifierAnswers,
    header_of,
    load_answers,
    parse_answers,
    path_of,
    prove,
)
from stoker_lab.artifacts import record_file

ALWAYS = ClassifierModelSettings("x", 1.0, 1.0)


def row(number: int, task_class: str, hard: bool = False) -> LabelledPrompt:
    return LabelledPrompt(task_class, hard, Outline(f"text {number}"))


ROWS = (
    row(0, "planning"),
    row(1, "planning"),
    row(2, "chat", hard=True),
    row(3, "chat"),
    row(4, "multi-file-refactor"),
)
RIGHT = tuple(one.task_class for one in ROWS)


def scored(*names: str) -> ClassifierScore:
    given = iter(names)
    return score(ROWS, lambda outline: next(given))


def answers(names: Sequence[str], seconds: float = 0.1) -> dict[str, ClassifierAnswer]:
    return {one.digest: ClassifierAnswer(one.digest, name, seconds) for one, name in zip(ROWS, names, strict=False)}


def tasks(*names: str, sure: float = 0.5) -> list[Task]:
    return [Task(name, ClassSource.LEARNED, (), sure=sure) for name in names]


# -- what is better --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built_in", "other", "why"),
    [
        (("chat", *RIGHT[1:]), RIGHT, ""),
        (RIGHT, RIGHT, "its mistakes cost 0; without it they cost 0"),
        (("chat", "chat", *RIGHT[2:]), (*RIGHT[:4], "chat"), "it finds 0 of 1 multi-file-refactor; without it 1 "),
        (("chat", *RIGHT[1:]), (*RIGHT[:2], "planning", *RIGHT[3:]), "it classifies 1 hard negatives as high-risk; "),
        (("chat", *RIGHT[1:]), (*RIGHT[:3], "planning", *RIGHT[4:]), ""),
    ],
)
def test_it_costs_less_finds_as_much_of_each_high_risk_class_and_takes_no_more_hard_negatives(
    built_in: tuple[str, ...], other: tuple[str, ...], why: str
) -> None:
    found = why_not_better(scored(*built_in), scored(*other))
    assert found.startswith(why)
    assert bool(found) == bool(why)


@given(st.lists(st.sampled_from(["planning", "chat", "review"]), min_size=5, max_size=5))
def test_nothing_is_better_than_itself(names: list[str]) -> None:
    assert why_not_better(scored(*names), scored(*names))


# -- weighing --------------------------------------------------------------------------------------------------------


def test_what_both_decide_is_weighed_and_not_the_model_alone() -> None:
    ours = tasks("chat", *RIGHT[1:])
    sure = [ours[0], *(task._replace(sure=0.9) for task in ours[1:])]
    said = answers(("planning", "chat", "chat", "chat", "chat"))
    proof = prove(said, ClassifierModelSettings("x", 1.0, 0.8), HIGH_RISK, ROWS, sure)
    assert (proof.rejection, proof.built_in.cost, proof.together.cost, proof.alone.cost) == ("", 10, 0, 20)
    assert (proof.asked, proof.total) == (5, 5)


def test_an_answer_that_came_too_late_or_was_none_leaves_what_was_learned() -> None:
    ours = tasks("chat", *RIGHT[1:])
    late = prove(answers(RIGHT, seconds=2.0), ALWAYS, HIGH_RISK, ROWS, ours)
    assert (late.late, late.unclear, late.together.cost) == (5, 0, 10)
    assert late.rejection == "its mistakes cost 10; without it they cost 10"
    none = prove(answers([""] * 5), ALWAYS, HIGH_RISK, ROWS, ours)
    assert (none.late, none.unclear, none.together.cost) == (0, 5, 10)
    assert (
        prove(answers(RIGHT, seconds=2.0), ClassifierModelSettings("x", 3.0, 1.0), HIGH_RISK, ROWS, ours).rejection
        == ""
    )


def test_until_every_prompt_was_asked_it_is_off() -> None:
    ours = tasks("chat", *RIGHT[1:])
    assert prove({}, ALWAYS, HIGH_RISK, ROWS, ours).rejection == "it was not measured"
    assert prove(answers(RIGHT[:4]), ALWAYS, HIGH_RISK, ROWS, ours).rejection == "it was measured with 4 of 5 prompts"


def test_high_risk_that_the_built_in_one_is_sure_of_is_not_brought_down() -> None:
    ours = [task._replace(sure=0.95) for task in tasks("planning", *RIGHT[1:])]
    assert prove(answers(["chat"] * 5), ALWAYS, HIGH_RISK, ROWS, ours).together.cost == 0


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_answers_are_read_back_and_torn_lines_are_not(tmp_path: Path) -> None:
    said = [ClassifierAnswer("a", "chat", 0.1), ClassifierAnswer("b", "", 30.0)]
    body = (
        record_file.line(AnswersHeader("i", "e"))
        + record_file.line(said[0])
        + b'{"digest": "c", "wo\n'
        + record_file.line(said[1])
        + b'{"dig'
    )
    path = path_of(tmp_path, "x")
    path.parent.mkdir()
    path.write_bytes(body)
    kept = load_answers(path)
    assert kept.header == header_of(Fingerprint("i", "e"))
    assert list(kept.answers.values()) == said


def test_what_was_said_to_other_words_or_is_no_file_says_nothing(tmp_path: Path) -> None:
    assert (
        parse_answers(
            record_file.line(AnswersHeader("i", "e", "older")) + record_file.line(ClassifierAnswer("a", "chat", 0.1))
        )
        == ClassifierAnswers()
    )
    assert load_answers(tmp_path / "none.jsonl") == ClassifierAnswers()
    assert load_answers(tmp_path) == ClassifierAnswers()


@given(st.binary())
def test_reading_what_is_kept_never_raises(body: bytes) -> None:
    assert parse_answers(body).answers == {}


# -- the prompts -----------------------------------------------------------------------------------------------------


def test_the_held_out_half_ships_as_it_stands_in_the_labelled_set() -> None:
    """If not: python scripts/held_out.py"""
    assert script.OUT.read_bytes() == script.body()
    assert len(held_out()) > 300
    assert all(one.is_held_out for one in held_out())


def test_no_two_prompts_share_a_digest() -> None:
    assert len({one.digest for one in held_out()}) == len(held_out())
