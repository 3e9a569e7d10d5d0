"""Text that grows piece by piece: linear in time, and near the text's own size in memory."""

from __future__ import annotations

BATCH = 512
"""Pieces that are joined at once: a text of single characters would else weigh eight times its size."""


class TextBuffer:
    """`size` counts characters."""

    __slots__ = ("_batches", "_last", "size")

    def __init__(self) -> None:
        self._batches: list[str] = []
        self._last: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        self._last.append(text)
        self.size += len(text)
        if len(self._last) >= BATCH:
            self._batches.append("".join(self._last))
            self._last.clear()

    def text(self) -> str:
        return "".join((*self._batches, *self._last))

    def drop(self) -> None:
        self._batches.clear()
        self._last.clear()
        self.size = 0


class TailBuffer:
    """The last characters of a text that grows: at least `least`, if so many came, at most twice as many are kept."""

    __slots__ = ("_least", "_pieces", "_size")

    def __init__(self, least: int) -> None:
        self._least = least
        self._pieces: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._pieces.append(text[-self._least :])
        self._size += len(self._pieces[-1])
        if self._size >= 2 * self._least:
            self._pieces = [self.text()]
            self._size = self._least

    def text(self) -> str:
        """Exactly the last `least` characters, or all."""
        return "".join(self._pieces)[-self._least :]
