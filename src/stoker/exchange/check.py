"""A tier's answer under verification, as whoever carries it sees it: see `request.verify`."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.answer import Answer, Event
from stoker.domain.prompt import Prompt
from stoker.domain.tier import HOLDING, Verify
from stoker.request.verify.expect import Expectation
from stoker.request.verify.finding import Finding
from stoker.request.verify.verifier import Verifier, whole

OF_CALLS = frozenset(("unknown_tool", "arguments", "missing_key", "schema", "too_deep"))
"""What is wrong with a call alone: the text before it may stand."""


class Checked:
    """One answer. `findings` grows while it comes; `is_failed` only where the mode holds anything back."""

    __slots__ = ("_expected", "_mode", "_verifier", "_whole")

    def __init__(self, prompt: Prompt, mode: Verify) -> None:
        self._expected = Expectation(prompt)
        self._mode = mode
        self._verifier = Verifier(self._expected, mode)
        self._whole: list[Finding] = []

    @property
    def findings(self) -> list[Finding]:
        return self._whole or self._verifier.findings

    @property
    def is_failed(self) -> bool:
        return self._verifier.is_failed or (bool(self._whole) and self._mode in HOLDING and self.is_wrong)

    @property
    def is_wrong(self) -> bool:
        """Something was proved wrong, whatever the mode does about it."""
        return any(finding.certain for finding in self.findings)

    def feed(self, event: Event) -> Iterable[Event]:
        return self._verifier.feed(event)

    def judge(self, answer: Answer) -> None:
        self._whole = whole(self._expected, answer)

    def told(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(finding.check for finding in self.findings if finding.certain))
