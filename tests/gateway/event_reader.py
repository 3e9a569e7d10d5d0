"""A client of GET /events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stoker_lab.testing.client import RawClient, compose_request


@dataclass(frozen=True)
class Heard:
    """One event as it came."""

    kind: str
    data: Any
    id: str = ""


class Reader:
    """Reads one stream of events; `last_id` is what a browser would send to go on."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.last_id = ""
        self.retry = ""
        self.comments: list[str] = []
        self._rest = b""

    async def open(self, topics: str | None = None, last_id: str = "", **headers: str) -> int:
        """The status of the reply."""
        if last_id:
            headers["last-event-id"] = last_id
        path = "/events" if topics is None else f"/events?topics={topics}"
        await self.client.send(compose_request("GET", path, headers=headers.items()))
        self.head = await self.client.head()
        self._pieces = self.client.pieces(self.head)
        return self.head.status

    async def next(self) -> Heard:
        """The next event. Raises StopAsyncIteration at the end of the stream."""
        while True:
            while b"\n\n" not in self._rest:
                self._rest += await anext(self._pieces)
            frame, _, self._rest = self._rest.partition(b"\n\n")
            fields = dict(line.split(": ", 1) for line in frame.decode().split("\n"))
            self.comments += [frame.decode()] if frame.startswith(b":") else []
            self.retry = fields.get("retry", self.retry)
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields:
                return Heard(fields["event"], json.loads(fields["data"]), fields.get("id", ""))

    async def until(self, kind: str) -> Heard:
        """The next event of this kind."""
        return await self.until_one_of(kind)

    async def until_one_of(self, *kinds: str) -> Heard:
        """The next event of these kinds."""
        while True:
            found = await self.next()
            if found.kind in kinds:
                return found

    async def ends(self) -> bool:
        """Whether the stream ends in order."""
        try:
            while True:
                await self.next()
        except StopAsyncIteration:
            return True
