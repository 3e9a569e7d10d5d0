"""The serve's answer in the client's own words: names that were shortened, tools that were made functions."""

from __future__ import annotations

from stoker.domain.answer import Answer, Closed, Event, Grew, Kind, Opened
from stoker.domain.prompt import Call
from stoker.request.translate.json_text import loose


class Restore:
    """`names`: the tools' own names by the ones the serve was given; `custom`: tools that take any text (their own
    names), which the serve was given as functions with one argument `input`. Blocks come one at a time.
    """

    __slots__ = ("_custom", "_held", "_names")

    def __init__(self, names: dict[str, str], custom: frozenset[str]) -> None:
        self._names = names
        self._custom = custom
        self._held: list[str] | None = None
        """What the open call of a custom tool was given so far."""

    def feed(self, event: Event) -> list[Event]:
        match event:
            case Opened(kind=Kind.CALL, name=name):
                event.name = self._names.get(name, name)
                if event.name in self._custom and not event.custom:
                    event.custom = True
                    self._held = []
            case Grew(text=text) if self._held is not None:
                self._held.append(text)
                return []
            case Closed(at=at) if self._held is not None:
                text = unwrapped("".join(self._held))
                self._held = None
                return [Grew(at, text), event] if text else [event]
        return [event]

    def whole(self, answer: Answer) -> None:
        """The same for an answer that was not streamed; changes it."""
        for block in answer.blocks:
            if isinstance(block, Call):
                block.name = self._names.get(block.name, block.name)
                if block.name in self._custom and not block.custom:
                    block.custom = True
                    block.arguments = unwrapped(block.arguments)


def unwrapped(arguments: str) -> str:
    """The text in `{"input": text}`; arguments of another form are the text themselves."""
    found = loose(arguments)
    text = found.get("input") if isinstance(found, dict) else None
    return text if isinstance(text, str) else arguments
