"""The lines of one serve's log, as its engine writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stoker.gateway.compat.log_tail import READ_AT_ONCE, LogTail
from stoker.gateway.events.topics import TopicEvent

SNAPSHOT_LINES = 200
"""Lines of a snapshot."""
MAX_LINE = 2000
"""Characters of a line; the rest of it is left out."""
MAX_NEW_LINES = 500
"""Lines between two polls. Of more, readers get the last ones as a new snapshot."""
_UNFINISHED = 64 * 1024
"""Bytes of a line that has not ended yet."""


class LogTopic:
    """Follows the log files of a serve; see `Topic`."""

    every = 0.25

    def __init__(self, name: str, serve: str, files: Callable[[], Iterable[Path]]) -> None:
        self.name = name
        self._serve = serve
        self._tail = LogTail(files)
        self._rest = b""
        self._lines: list[str] | None = None
        """The last ones up to the last poll; None: not read yet."""

    async def poll(self) -> list[TopicEvent] | None:
        text = await asyncio.to_thread(self._tail.read)
        lines = self._whole_lines(text)
        if len(text) >= READ_AT_ONCE or len(lines) > MAX_NEW_LINES:
            await self._start_over()
            return None
        self._lines = [*(self._lines or ()), *lines][-SNAPSHOT_LINES:]
        return [TopicEvent("log", {"serve": self._serve, "line": line}) for line in lines]

    async def snapshot(self) -> dict[str, Any]:
        """The oldest first."""
        if self._lines is None:
            await self._start_over()
        return {"serve": self._serve, "lines": self._lines}

    async def _start_over(self) -> None:
        self._rest = b""
        self._lines = self._whole_lines(await asyncio.to_thread(self._tail.history))[-SNAPSHOT_LINES:]

    def _whole_lines(self, text: bytes) -> list[str]:
        *whole, self._rest = (self._rest + text).split(b"\n")
        if len(self._rest) > _UNFINISHED:
            whole.append(self._rest)
            self._rest = b""
        return [line.decode("utf-8", "replace").rstrip("\r")[:MAX_LINE] for line in whole]
