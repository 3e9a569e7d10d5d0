"""What a judge is measured on, and what follows from its verdicts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stoker.domain.answer import Answer
from stoker.domain.prompt import Text, ToolCall
from stoker.domain.run import Fingerprint
from stoker.domain.task import CLASSES
from stoker_lab.artifacts import record_file
from stoker_lab.suites.checkers.table import check_answer
from stoker_lab.suites.fixture import shipped_fixtures
from stoker_lab.validator import judge_rates
from stoker_lab.validator.judge_cases import DAYS, BadCases, read_cases, shipped_cases, with_cases
from stoker_lab.validator.judge_rates import JudgedCase, JudgedCases, JudgeRates, header_of, load, path_of, rates_of


def test_of_each_shipped_answer_a_program_says_whether_it_is_right() -> None:
    """Those of code are the planted faults, which have a test of their own."""
    checks = {str(one.request["messages"]): one.check for one in shipped_fixtures()}
    for name in with_cases():
        cases = shipped_cases(name)
        assert sum(one.right for one in cases) == len(cases) / 2 >= judge_rates.MIN_CASES
        assert len({one.digest for one in cases}) == len(cases)
        for one in cases if name != "code-write" else ():
            blocks = [*([Text(one.answer)] if one.answer else []), *(ToolCall("c", *call) for call in one.calls)]
            grade = check_answer(
                checks[str(one.messages)], Answer("", "", blocks), lambda *_: pytest.fail("no program")
            )
            assert grade.passed is one.right, (name, one.answer)


def test_a_wrong_answer_of_reasoning_is_one_that_the_question_suggests() -> None:
    """ "Saturday" to "who is the tallest?" is wrong at a glance, and a judge that fails it has proved nothing."""
    words = [(str(one.messages[-1]["content"]), one.answer.removeprefix("Answer: ")) for one in
             shipped_cases("reasoning") if not one.right and one.answer.startswith("Answer: ")]  # fmt: skip
    assert len(words) > 30
    for question, word in words:
        weekdays = question.startswith("Today is")
        assert word in DAYS if weekdays else re.search(rf"\b{word}\b", question), (question, word)


def test_a_wrong_word_is_of_the_language_that_was_asked_for() -> None:
    german = [one for one in shipped_cases("multilingual") if "German word for" in str(one.messages)]
    words = {one.answer for one in german if one.right}
    assert {"Baum"} < {one.answer for one in german if not one.right} < words


def test_where_a_check_does_not_say_what_is_right_none_ship() -> None:
    missing = {"chat", "planning", "summarise", "creative", "vision", "multi-file-refactor"}
    assert set(CLASSES) - set(with_cases()) == missing


def test_cases_of_ones_own_are_read_by_line(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    case = {"task_class": "chat", "messages": [{"role": "user", "content": "hi"}], "answer": "hello", "right": True}
    path.write_text(f"{json.dumps(case)}\n\n{json.dumps({**case, 'task_class': 'review'})}\n")
    assert [one.answer for one in read_cases(path, "chat")] == ["hello"]
    path.write_text(f"{json.dumps(case)}\n" * 2)
    assert len(read_cases(path, "chat")) == 1, "a line that is there twice is one case"
    for line, says in (("{}", "line 1: is no case"), (json.dumps({**case, "task_class": "x"}), "no class 'x'")):
        path.write_text(line)
        with pytest.raises(BadCases, match=says):
            read_cases(path, "chat")
    path.write_text("")
    with pytest.raises(BadCases, match="no cases of class 'chat'"):
        read_cases(path, "chat")
    with pytest.raises(BadCases, match="cannot be read"):
        read_cases(tmp_path / "none", "chat")


def judged(right: str, wrong: str, total: int | None = None, identity: str = "i") -> JudgeRates:
    """One letter for each verdict: Pass, Fail, Unsure."""
    words = {"P": "pass", "F": "fail", "U": "unsure"}
    verdicts = [JudgedCase(f"{kind}{at}", kind, words[one], 1.0)
                for kind, said in ((True, right), (False, wrong)) for at, one in enumerate(said)]  # fmt: skip
    head = header_of(Fingerprint(identity), "r", "c", len(verdicts) if total is None else total)
    return rates_of(JudgedCases(head, {one.digest: one for one in verdicts}))


@pytest.mark.parametrize(
    ("rates", "problem"),
    [
        (judged("P" * 60, "F" * 60), ""),
        (judged("P" * 57 + "F" * 3, "F" * 48 + "P" * 12), ""),
        (judged("P" * 20 + "U" * 40, "F" * 20 + "U" * 40), ""),
        (judged("P" * 56 + "F" * 4, "F" * 60), "it failed 4 of 60 right answers"),
        (judged("F" * 60, "F" * 60), "it failed 60 of 60 right answers"),
        (judged("P" * 60, "P" * 60), "it passed 60 of 60 wrong answers"),
        (judged("P" * 60, "F" * 47 + "P" * 13), "it passed 13 of 60 wrong answers"),
        (judged("P" * 19, "F" * 60), "it judged only 19 right answers, and 20 are needed"),
        (judged("P" * 60, "U" * 60), "it judged only 0 wrong answers, and 20 are needed"),
        (judged("P" * 60, "F" * 59, 120), "it was asked about 119 of 120 answers"),
        (rates_of(JudgedCases()), "it was asked about 0 of 0 answers"),
    ],
)
def test_a_judge_passes_that_is_seldom_wrong_on_enough_answers(rates: JudgeRates, problem: str) -> None:
    assert rates.problem == problem


def test_a_judge_of_which_nobody_knows_the_model_does_not_pass() -> None:
    rates = judged("P" * 60, "F" * 60, identity="")
    assert rates.problem == "which model it is is not known, so nobody can tell that it is the one that was measured"


def test_verdicts_are_kept_by_line(tmp_path: Path) -> None:
    path = path_of(tmp_path, "far", "chat")
    head, one = header_of(Fingerprint("i", "e"), "r", "c", 1), JudgedCase("d", True, "pass", 1.0)
    with record_file.writer(path, head, is_continued=False) as write:
        write(one)
    assert load(path) == JudgedCases(head, {"d": one})
    assert load(tmp_path / "none") == JudgedCases()
