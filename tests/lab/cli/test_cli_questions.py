"""Stoker's own questions to a running serve: which of them have a result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.cli.console.errors import RequestRefused
from stoker.domain.errors import ClientError, StokerError, UpstreamError
from stoker_lab.commands.questions import GIVE_UP, ask_each

KNOWN: Any = SimpleNamespace(serve=SimpleNamespace(name="wise"))


def asked(*answers: str | Exception) -> dict[int, str | None]:
    """What is kept of each question, by its place."""
    kept: dict[int, str | None] = {}

    async def ask(_: object, place: int) -> str:
        answer = answers[place]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def keep(place: int, answer: str | None, _: float) -> None:
        kept[place] = answer

    ask_each(KNOWN, range(len(answers)), ask, keep, "verdicts", 1.0)
    return kept


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        (("yes", ClientError("too long"), "no"), {0: "yes", 1: None, 2: "no"}),
        (("yes", ClientError("too long")), {0: "yes", 1: None}),
        (("yes", TimeoutError(), "no"), {0: "yes", 1: None, 2: "no"}),
        (("yes", UpstreamError("it answered HTTP 500"), "no"), {0: "yes", 2: "no"}),
    ],
    ids=["refused", "the last refused", "too slow", "failed"],
)
def test_a_question_that_is_refused_has_no_answer_and_one_that_failed_is_asked_again(
    answers: tuple[str | Exception, ...], kept: dict[int, str | None]
) -> None:
    assert asked(*answers) == kept


@pytest.mark.parametrize("error", [ClientError("no such model"), UpstreamError("HTTP 500")])
def test_a_serve_that_refuses_every_question_ends_it_and_nothing_is_kept(error: StokerError) -> None:
    with pytest.raises(RequestRefused, match="serve 'wise' does not answer"):
        asked(*[error] * GIVE_UP)
