"""Rules are checked in order; the first broken one is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stoker_lab.testing.script.record import RecordedRequest


@dataclass(frozen=True, slots=True)
class StrictTurn:
    """One message of Anthropic's; a plain text is one block."""

    at: int
    role: str
    blocks: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [block for block in self.blocks if block["type"] == kind]


@dataclass(frozen=True)
class StrictRequest:
    """A request, as rules see it."""

    document: dict[str, Any]
    request: RecordedRequest
    is_count: bool = False

    @cached_property
    def turns(self) -> list[StrictTurn]:
        """Use it only after a rule has checked the form of the messages."""
        return [
            StrictTurn(at, one["role"], blocks_of(one["content"]))
            for at, one in enumerate(self.document.get("messages", ()))
        ]


Rule = Callable[[StrictRequest], Iterator[str]]
"""Returns what is wrong. A rule may rely on the checks of those before it."""


def first(rules: Sequence[Rule], asked: StrictRequest) -> str | None:
    """The first complaint."""
    return next((why for rule in rules for why in rule(asked)), None)


def blocks_of(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
