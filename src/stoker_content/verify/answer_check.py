"""Verification of one tier's answer, as the relay and the translators use it: see `request.verify`."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.answer import Answer, Event
from stoker.domain.prompt import Prompt
from stoker.domain.tier import HOLDING, Verify
from stoker_content.verify.expectation import Expectation
from stoker_content.verify.finding import AnswerFinding
from stoker_content.verify.verifier import Verifier, check_whole_answer

CALL_FINDINGS = frozenset(("unknown_tool", "arguments", "missing_key", "schema", "too_deep"))
"""Findings about a tool call alone: the text before the call may stand."""


class AnswerCheck:
    """Checks one answer. `findings` grows while it arrives; `is_failed` only in a mode that holds something back."""

    __slots__ = ("_expected", "_mode", "_verifier", "_whole")

    def __init__(self, prompt: Prompt, mode: Verify) -> None:
        self._expected = Expectation(prompt)
        self._mode = mode
        self._verifier = Verifier(self._expected, mode)
        self._whole: list[AnswerFinding] = []

    @property
    def findings(self) -> list[AnswerFinding]:
        return self._whole or self._verifier.findings

    @property
    def is_failed(self) -> bool:
        return self._verifier.is_failed or (bool(self._whole) and self._mode in HOLDING and self.is_wrong)

    @property
    def is_wrong(self) -> bool:
        """Whether something was proved wrong, in any mode."""
        return any(finding.is_proved for finding in self.findings)

    def feed(self, event: Event) -> Iterable[Event]:
        return self._verifier.feed(event)

    def judge(self, answer: Answer) -> None:
        self._whole = check_whole_answer(self._expected, answer)

    def failed_checks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(finding.check for finding in self.findings if finding.is_proved))
