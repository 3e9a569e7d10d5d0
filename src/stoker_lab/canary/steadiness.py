"""Does a model still answer as it did a while ago? A few questions at temperature 0, beside its own first answers.

A model that is asked beside others may round differently, so that one answer that differs proves nothing: it is asked
again, and only if most of the repeats differ too it has changed. A difference is reported either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.dialect import Dialect
from stoker.domain.figures import counted
from stoker.domain.run import Finding, Outcome
from stoker_lab.requests.client import ModelClient, ModelReply

QUESTIONS = ("Who are you?", "What is 2 + 3?", "Reply with exactly: blue river stone", "Name three colours.")
LENGTH = 48
"""The limit of tokens for each answer."""
REPEATS = 3
MIN_DIFFERING = 2
"""The check fails if at least this many repeats differ."""
TIMEOUT = 60.0


class SteadinessCheck:
    """The first answers, and every later look. `check` raises nothing but on cancel."""

    def __init__(self, questions: Sequence[str] = QUESTIONS) -> None:
        self._questions = tuple(questions)
        self._first: list[str] | None = None

    async def check(self, client: ModelClient) -> Finding:
        """1. the first time: kept  2. as the first time: passed  3. another answer, or none: repeated, then decided"""
        answers: list[ModelReply] = []
        failed: list[str] = []
        for question in self._questions:
            answers.append(await self._ask(client, question))
            if not answers[-1].timing.is_ok:  # an engine that hangs would take its time for each question
                failed.append(answers[-1].timing.failure)
                break
        texts = [_text_or_failure(answer) for answer in answers]
        if self._first is None:
            if failed:
                return Finding("canary", Outcome.FAILED, f"no answer to the first questions: {failed[0]}")
            self._first = texts  # 1
            return Finding("canary", Outcome.PASSED, f"{counted(len(texts), 'answer')} stored as the reference")
        odd = [at for at, (text, first) in enumerate(zip(texts, self._first, strict=False)) if text != first]
        if not odd:
            return Finding("canary", Outcome.PASSED, f"{counted(len(texts), 'answer')} as before")  # 2
        return await self._repeat(client, odd[0])  # 3

    async def _repeat(self, client: ModelClient, at: int) -> Finding:
        assert self._first is not None
        again = [await self._ask(client, self._questions[at]) for _ in range(REPEATS)]
        differing = sum(_text_or_failure(answer) != self._first[at] for answer in again)
        failures = [answer.timing.failure for answer in again if not answer.timing.is_ok]
        what = f"question {at + 1} was answered differently, also in {differing} of {REPEATS} repeats"
        what += f" ({failures[0]})" if failures else ""
        outcome = Outcome.FAILED if differing >= MIN_DIFFERING else Outcome.PASSED
        return Finding("canary", outcome, what, numbers={"differing": differing + 1, "n": REPEATS + 1})

    async def _ask(self, client: ModelClient, question: str) -> ModelReply:
        turns = [{"role": "user", "content": question}]
        limit = "max_output_tokens" if client.dialect is Dialect.RESPONSES else "max_tokens"
        content = {"input": turns} if client.dialect is Dialect.RESPONSES else {"messages": turns}
        return await client.ask({**content, limit: LENGTH, "temperature": 0, "seed": 1}, timeout=TIMEOUT)


def _text_or_failure(answer: ModelReply) -> str:
    """The answer's text; for a failed request, a marker that equals no text."""
    return answer.text + answer.thinking if answer.timing.is_ok else f"\0{answer.timing.failure}"
