"""Undoes in an answer what `prepare` did to the request: restores shortened names and tools that became functions, and
unwraps arguments that came as a string within a string.
"""

from __future__ import annotations

from stoker.domain.answer import Answer, BlockKind, Closed, Event, Grew, Opened
from stoker.domain.prompt import ToolCall
from stoker.request.translate.neutral.json_text import loose


class AnswerRestorer:
    """`names`: the tools' original names by those that the serve got. `custom`: original names of tools that take free
    text, which the serve got as functions with one argument `input`. Expects one block at a time.
    """

    __slots__ = ("_custom", "_held", "_ids", "_is_string", "_names", "_start")

    def __init__(self, names: dict[str, str], custom: frozenset[str]) -> None:
        self._names = names
        self._custom = custom
        self._ids: set[str] = set()
        """Of the answer's calls so far."""
        self._held: list[str] | None = None
        """Arguments so far of the open call of a custom tool."""
        self._start: list[str] | None = None
        """Arguments so far of the open call of another tool; held back as long as they may be a string."""
        self._is_string = False

    def feed(self, event: Event) -> list[Event]:
        match event:
            case Opened(kind=BlockKind.CALL, name=name):
                event.name = self._names.get(name, name)
                event.id = self._own_id(event.id)
                if event.name in self._custom and not event.custom:
                    event.custom = True
                    self._held = []
                elif not event.custom:
                    self._start, self._is_string = [], False
            case Grew(text=text) if self._held is not None:
                self._held.append(text)
                return []
            case Closed(at=at) if self._held is not None:
                text = unwrapped("".join(self._held))
                self._held = None
                return [Grew(at, text), event] if text else [event]
            case Grew(text=text) if self._start is not None:
                self._start.append(text)
                return self._begin(event.at)
            case Closed(at=at) if self._start is not None:
                text = once("".join(self._start))
                self._start = None
                return [Grew(at, text), event] if text else [event]
        return [event]

    def _begin(self, at: int) -> list[Event]:
        """Passes arguments on as soon as they cannot be a string."""
        assert self._start is not None
        if self._is_string:
            return []
        first = self._start[-1].lstrip(" \t\r\n")[:1]  # only blanks come before it
        self._is_string = first == '"'
        if not first or self._is_string:
            return []
        text, self._start = "".join(self._start), None
        return [Grew(at, text)]

    def _own_id(self, id: str) -> str:
        """The id of a call; another one if an earlier call of the answer has it, because results name their call."""
        own, count = id, 1
        while id and own in self._ids:
            count += 1
            own = f"{id}_{count}"
        self._ids.add(own)
        return own

    def restore_whole(self, answer: Answer) -> None:
        """The same for a whole answer, which it changes in place."""
        for block in answer.blocks:
            if isinstance(block, ToolCall):
                block.name = self._names.get(block.name, block.name)
                block.id = self._own_id(block.id)
                if block.name in self._custom and not block.custom:
                    block.custom = True
                    block.arguments = unwrapped(block.arguments)
                elif not block.custom:
                    block.arguments = once(block.arguments)


def once(arguments: str) -> str:
    """The object inside a string, if the arguments are such a string; other arguments unchanged."""
    found = loose(arguments) if arguments.lstrip(" \t\r\n")[:1] == '"' else None
    return found if isinstance(found, str) and isinstance(loose(found), dict) else arguments


def unwrapped(arguments: str) -> str:
    """The text in `{"input": text}`; arguments of another form are the text themselves."""
    found = loose(once(arguments))
    text = found.get("input") if isinstance(found, dict) else None
    return text if isinstance(text, str) else arguments
