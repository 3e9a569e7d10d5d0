"""A model that answers otherwise once is asked again; one that goes on with it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from stoker.domain.answer import Answer
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Text
from stoker.domain.run import Finding, Outcome
from stoker_lab.canary.steadiness import QUESTIONS, REPEATS, SteadinessCheck
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.requests.timing import RequestTiming


class Model:
    """Answers in turn; a text that begins with `!` is a failure."""

    def __init__(self, dialect: Dialect = Dialect.CHAT) -> None:
        self.dialect = dialect
        self.answers: list[str] = []
        self.asked: list[Mapping[str, Any]] = []

    async def ask(self, document: Mapping[str, Any], timeout: float) -> ModelReply:
        self.asked.append(document)
        text = self.answers.pop(0)
        timed = RequestTiming(0.0, 0.0, 1.0, failure=text[1:] if text.startswith("!") else "")
        return ModelReply(timed, Answer("", "", [Text(text)]), None, [])


def looked(*looks: list[str], model: Model | None = None) -> list[Finding]:
    """What each look finds; every answer is used up."""
    model = model or Model()
    steadiness = SteadinessCheck(["a", "b"])

    async def run() -> list[Finding]:
        found = []
        for answers in looks:
            model.answers = answers
            found.append(await steadiness.check(cast(ModelClient, model)))
            assert model.answers == []
        return found

    return asyncio.run(run())


def test_what_it_says_first_is_kept_and_later_compared() -> None:
    first, second = looked(["x", "y"], ["x", "y"])
    assert (first.outcome, second.outcome) == (Outcome.PASSED, Outcome.PASSED)
    assert second.observed == "2 answers as before"


def test_one_odd_answer_is_asked_again_and_decides_nothing_but_is_told() -> None:
    """Behaviour 55."""
    found = looked(["x", "y"], ["x", "odd", "y", "y", "odd"])[1]
    assert (found.outcome, found.numbers) == (Outcome.PASSED, {"differing": 2, "n": 1 + REPEATS})
    assert "question 2 was answered differently, also in 1 of 3 repeats" in found.observed


@pytest.mark.parametrize("repeats", [["odd", "odd", "y"], ["odd", "odd", "odd"], ["!broke_off", "y", "!broke_off"]])
def test_most_of_the_repeats_decide(repeats: list[str]) -> None:
    found = looked(["x", "y"], ["x", "odd", *repeats])[1]
    assert found.outcome is Outcome.FAILED
    assert ("broke_off" in found.observed) == ("!broke_off" in repeats)


def test_one_that_does_not_answer_its_first_look_has_failed() -> None:
    (found,) = looked(["x", "!http_500"])
    assert (found.outcome, found.observed) == (Outcome.FAILED, "no answer to the first questions: http_500")


@pytest.mark.parametrize(
    ("dialect", "field"),
    [(Dialect.CHAT, "messages"), (Dialect.MESSAGES, "messages"), (Dialect.RESPONSES, "input")],
)
def test_it_is_asked_greedily_in_its_own_dialect(dialect: Dialect, field: str) -> None:
    model = Model(dialect)
    looked(["x", "y"], model=model)
    assert [asked[field][0]["content"] for asked in model.asked] == ["a", "b"]
    assert {asked["temperature"] for asked in model.asked} == {0}
    assert len(QUESTIONS) > 1
