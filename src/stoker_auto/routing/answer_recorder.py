"""Records the answer to a request that was drawn for grading, while it passes on its way to the client."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.answer import Answer, BlockKind, Event, Finished, Grew, Opened, StopReason
from stoker.domain.prompt import Prompt, Refusal, Text, ToolCall
from stoker.request.translate.neutral.protocols import Check

_RECORDED = (BlockKind.TEXT, BlockKind.REFUSAL, BlockKind.CALL)
"""What a judge reads. Thinking is left out."""
_COMPLETE = (StopReason.END, StopReason.CALLS, StopReason.SEQUENCE, StopReason.FILTERED)
"""Ends at which the model had said everything it wanted to say."""


class AnswerRecorder:
    """Stands in front of the check of an answer, if there is one, and keeps what the check lets through.

    It raises nothing. It keeps at most `limit` characters; of a longer answer it keeps nothing.
    """

    __slots__ = ("_blocks", "_check", "_limit", "_size", "_stop", "prompt")

    def __init__(self, limit: int) -> None:
        self.prompt: Prompt | None = None
        self._limit = limit
        self._check: Check | None = None
        self._clear()

    def wrap(self, check: Check | None, prompt: Prompt, continues: bool) -> AnswerRecorder:
        """Use this in the place of `check` for the next attempt. Unless the attempt `continues` an answer, what was
        recorded before is dropped.
        """
        self._check = check
        self.prompt = prompt
        if not continues:
            self._clear()
        return self

    @property
    def problem(self) -> str:
        """Why the answer cannot be graded, in one word; empty: it can."""
        if self._size > self._limit:
            return "too_long"
        if self._stop is None:
            return "unread"
        return "" if self._stop in _COMPLETE else "cut_short"

    @property
    def answer(self) -> list[tuple[str, str]]:
        """Each block: the name of the called tool (empty for text), and the text."""
        return [(name, "".join(pieces)) for name, pieces in self._blocks.values()]

    def _clear(self) -> None:
        self._blocks: dict[int, tuple[str, list[str]]] = {}
        self._size = 0
        self._stop: StopReason | None = None

    # -- a check ---------------------------------------------------------------------------------------------------

    @property
    def is_failed(self) -> bool:
        return self._check is not None and self._check.is_failed

    def failed_checks(self) -> tuple[str, ...]:
        return () if self._check is None else self._check.failed_checks()

    def feed(self, event: Event) -> Iterable[Event]:
        passed = (event,) if self._check is None else tuple(self._check.feed(event))
        for each in passed:
            match each:
                case Opened(at=at, kind=kind, name=name) if kind in _RECORDED:
                    self._blocks[at] = name, []
                case Grew(at=at, text=text) if at in self._blocks:
                    self._add(at, text)
                case Finished(stop=stop):
                    self._stop = stop
        return passed

    def judge(self, answer: Answer) -> None:
        if self._check is not None:
            self._check.judge(answer)
        for at, block in enumerate(answer.blocks):
            if isinstance(block, ToolCall):
                self._blocks[at] = block.name, []
                self._add(at, block.arguments)
            elif isinstance(block, Text | Refusal):
                self._blocks[at] = "", []
                self._add(at, block.text)
        self._stop = answer.stop

    def _add(self, at: int, text: str) -> None:
        self._size += len(text)
        if self._size <= self._limit:
            self._blocks[at][1].append(text)
        else:
            self._blocks.clear()  # `_size` stays above the limit, so `problem` reports it
