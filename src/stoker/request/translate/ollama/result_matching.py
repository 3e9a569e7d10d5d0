"""Which call a tool's result belongs to: Ollama's messages need not say.

    1. the result names a call's id that waits   -> that call
    2. it names a tool that was called           -> that tool's first call that waits
    3. anything else                             -> the first call that waits
    4. no call waits                             -> none: the result is an orphan

Each step is constant on average: calls are queued once and taken out once.
"""

from __future__ import annotations

from collections import deque

from stoker.domain.prompt import ToolCall


class UnansweredCalls:
    """Calls of the last assistant turn that have no result yet."""

    __slots__ = ("_by_name", "_ids", "_in_order")

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._in_order: deque[str] = deque()
        self._by_name: dict[str, deque[str]] = {}

    def add(self, call: ToolCall) -> None:
        self._ids.add(call.id)
        self._in_order.append(call.id)
        self._by_name.setdefault(call.name, deque()).append(call.id)

    def take(self, id: str, name: str) -> str | None:
        """The id of the call that this result is for, which waits no longer; None: no call waits."""
        if id in self._ids:
            self._ids.discard(id)
            return id  # 1
        found = self._first(self._by_name.get(name))  # 2
        return found if found is not None else self._first(self._in_order)  # 3, 4

    def _first(self, queue: deque[str] | None) -> str | None:
        while queue:
            id = queue.popleft()
            if id in self._ids:
                self._ids.discard(id)
                return id
        return None
