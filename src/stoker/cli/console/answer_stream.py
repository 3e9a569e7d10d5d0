"""One streamed chat answer, asked for over the control socket and read in a thread."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stoker.cli.console.control import UnixConnection, cut_off
from stoker.domain.errors import StokerError

PATH = "/v1/chat/completions"


class AnswerBegan(NamedTuple):
    """The reply's headers, with lower-case names."""

    headers: dict[str, str]


class AnswerText(NamedTuple):
    text: str


class AnswerEnded(NamedTuple):
    """Nothing follows. `error`: what Stoker reported; None: the answer is complete."""

    error: StokerError | None = None


AnswerEvent = AnswerBegan | AnswerText | AnswerEnded


class AnswerStream:
    """Begins with its construction. `close` ends the request, too."""

    def __init__(self, socket_path: Path, body: bytes, headers: Mapping[str, str]) -> None:
        self._connection = UnixConnection(socket_path, None)
        self._events: queue.SimpleQueue[AnswerEvent] = queue.SimpleQueue()
        given = {"content-type": "application/json", **headers}
        self._thread = threading.Thread(target=self._run, args=(body, given), name="answer", daemon=True)
        self._thread.start()

    def next(self, timeout: float) -> AnswerEvent | None:
        """The next event; None: nothing came within `timeout` seconds."""
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the request, if it has not ended."""
        cut_off(self._connection)
        self._thread.join(1.0)

    def _run(self, body: bytes, headers: Mapping[str, str]) -> None:
        try:
            self._connection.request("POST", PATH, body, dict(headers))
            end = self._read(self._connection.getresponse())
        except (OSError, ValueError, http.client.HTTPException) as error:
            text = f"Stoker broke off the connection ({error or type(error).__name__}); see the terminal of `stoker up`"
            end = StokerError(text, code="connection_lost", status=502)
        self._events.put(AnswerEnded(end))

    def _read(self, response: http.client.HTTPResponse) -> StokerError | None:
        self._events.put(AnswerBegan({name.lower(): value for name, value in response.getheaders()}))
        if response.status >= 400:
            return _error_of(json.loads(response.read() or b"{}"), response.status)
        while line := response.readline():
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return None
            document = json.loads(data)
            if isinstance(document, dict) and "error" in document:
                return _error_of(document, 502)
            for choice in document.get("choices") or ():
                if text := (choice.get("delta") or {}).get("content"):
                    self._events.put(AnswerText(text))
        return StokerError("the answer ended too early", code="connection_lost", status=502)


def _error_of(document: object, status: int) -> StokerError:
    given = document.get("error") if isinstance(document, dict) else None
    error = given if isinstance(given, dict) else {}
    message = str(error.get("message") or f"Stoker answered with status {status} and no reason")
    return StokerError(message, code=str(error.get("code") or "refused"), status=status)
