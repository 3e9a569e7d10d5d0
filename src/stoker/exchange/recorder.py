"""A request that was drawn to be graded: its answer is read on its way to the client, and kept until it is graded."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.answer import Answer, Event, Finished, Grew, Kind, Opened, Stop
from stoker.domain.prompt import Call, Prompt, Refusal, Text
from stoker.request.translate.neutral.dialogue import Check

_SAID = (Kind.TEXT, Kind.REFUSAL, Kind.CALL)
"""What a judge gets to read: not what a model only thought."""
_WHOLE = (Stop.END, Stop.CALLS, Stop.SEQUENCE, Stop.FILTERED)
"""Ends at which the answer is as its model wanted it."""


class Sample:
    """Stands before the check of an answer, if there is one, and keeps what that lets through. Raises nothing.

    At most `most` characters are kept; of a longer answer nothing is.
    """

    __slots__ = ("_blocks", "_check", "_most", "_size", "_stop", "prompt")

    def __init__(self, most: int) -> None:
        self.prompt: Prompt | None = None
        self._most = most
        self._check: Check | None = None
        self._forget()

    def before(self, check: Check | None, prompt: Prompt, goes_on: bool) -> Sample:
        """To be used in the place of `check`. What an earlier attempt said is forgotten, but where this one goes on."""
        self._check = check
        self.prompt = prompt
        if not goes_on:
            self._forget()
        return self

    @property
    def problem(self) -> str:
        """Why it cannot be graded, in one word; empty: it can."""
        if self._size > self._most:
            return "too_long"
        if self._stop is None:
            return "unread"
        return "" if self._stop in _WHOLE else "cut_short"

    @property
    def answer(self) -> list[tuple[str, str]]:
        """Each block: the name of the tool that is called, empty for text, and what was said."""
        return [(name, "".join(pieces)) for name, pieces in self._blocks.values()]

    def _forget(self) -> None:
        self._blocks: dict[int, tuple[str, list[str]]] = {}
        self._size = 0
        self._stop: Stop | None = None

    # -- a check ---------------------------------------------------------------------------------------------------

    @property
    def is_failed(self) -> bool:
        return self._check is not None and self._check.is_failed

    def told(self) -> tuple[str, ...]:
        return () if self._check is None else self._check.told()

    def feed(self, event: Event) -> Iterable[Event]:
        passed = (event,) if self._check is None else tuple(self._check.feed(event))
        for one in passed:
            match one:
                case Opened(at=at, kind=kind, name=name) if kind in _SAID:
                    self._blocks[at] = name, []
                case Grew(at=at, text=text) if at in self._blocks:
                    self._keep(at, text)
                case Finished(stop=stop):
                    self._stop = stop
        return passed

    def judge(self, answer: Answer) -> None:
        if self._check is not None:
            self._check.judge(answer)
        for at, block in enumerate(answer.blocks):
            if isinstance(block, Call):
                self._blocks[at] = block.name, []
                self._keep(at, block.arguments)
            elif isinstance(block, Text | Refusal):
                self._blocks[at] = "", []
                self._keep(at, block.text)
        self._stop = answer.stop

    def _keep(self, at: int, text: str) -> None:
        self._size += len(text)
        if self._size <= self._most:
            self._blocks[at][1].append(text)
        else:
            self._blocks.clear()  # `_size` stays, and says so
