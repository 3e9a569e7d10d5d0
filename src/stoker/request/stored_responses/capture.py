"""The client's side of a reply whose response is stored: it stands between the reply and the connection.

1. the first events and the last one carry the response object: it gets Stoker's id, and the fields that say what is
   stored
2. the event that completes the response, and what follows it, is held back: `release` sends it once the response is
   on disk, so that a client never knows an id that is not stored
3. an error, or an end without that event, passes at once: nothing is stored then
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stoker.request.codec.tolerant_json import NOT_JSON, decode_fields
from stoker.request.relay.forwarding_exchange import ForwardingExchange
from stoker.request.relay.reply import ReplyExchange
from stoker.request.stored_responses.items import Raw, encode

_ENDS = (b'"response.completed"', b'"response.incomplete"')
_DONE = b'"response.output_item.done"'
_FAILED = b'"response.failed"'
_FINAL = (b'"completed"', b'"incomplete"')
_raws = msgspec.json.Decoder(list[Raw]).decode


class ResponseCapture(ForwardingExchange):
    """See the module's docstring. `fields`: what replaces the serve's values in the response object."""

    def __init__(self, inner: ReplyExchange, fields: Mapping[str, object], max_bytes: int) -> None:
        """`max_bytes`: of one event; a larger one passes, and the response is not stored."""
        super().__init__(inner)
        self.response: dict[str, Raw] | None = None
        """The complete response object; None: it has not come, or did not come to its end."""
        self._fields = {name: Raw(encode(value)) for name, value in fields.items()}
        self._max_bytes = max_bytes
        self._is_stream = True
        self._is_watched = True
        self._pending = bytearray()
        self._items: list[Raw] = []
        self._last: dict[str, Any] = {}
        """The event that carries `response`, of a stream."""
        self._whole: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._held: list[bytes] = []
        self._is_finished = False

    # -- the connection ----------------------------------------------------------------------------------------------

    def break_off(self) -> None:
        self.response = None
        super().break_off()

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        headers = list(headers)
        given = {name: value.strip().lower() for name, value in headers}
        encoding = given.get(b"content-encoding", b"identity")
        self._is_stream = given.get(b"content-type", b"").startswith(b"text/event-stream") and encoding == b"identity"
        self._is_watched = self._is_stream and status == 200
        self._inner.start(status, headers, length)

    def write(self, data: bytes) -> None:
        if self.response is not None:
            self._held.append(data)
        elif not self._is_watched:
            self._inner.write(data)
        else:
            self._read(data)

    def finish(self, last: bytes = b"") -> None:
        if last:
            self.write(last)
        if self.response is not None:
            self._is_finished = True
            return
        rest = bytes(self._pending)
        self._pending.clear()
        self._inner.finish(rest)

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        response = _object(body) if status == 200 else None
        if response is None or bytes(response.get("status", b"")) not in _FINAL:
            self._inner.reply(status, headers, body)
            return
        self._whole = status, list(headers)
        self.response = response | self._fields

    # -- the response --------------------------------------------------------------------------------------------------

    def release(self, changes: Mapping[str, object] | None = None) -> None:
        """Send what was held back. `changes`: further fields of the response object."""
        response, self.response = self.response, None
        if response is None:
            return
        response = response | {name: Raw(encode(value)) for name, value in (changes or {}).items()}
        if self._whole is not None:
            self._inner.reply(*self._whole, encode(response))
            return
        self._inner.write(_event(self._last | {"response": response}))
        for piece in self._held:
            self._inner.write(piece)
        if self._is_finished:
            self._inner.finish(bytes(self._pending))

    def replace(self, inner: ReplyExchange, item: Mapping[str, object]) -> None:
        """The response has this one item, and goes to `inner`. Of a stream, no other item may have been passed on."""
        assert self.response is not None
        self._inner = inner
        self.response["output"] = Raw(encode([item]))
        if self._whole is not None:
            return
        number = self._last.get("sequence_number")
        at = msgspec.json.decode(number) if isinstance(number, Raw) else 0
        for step, kind in enumerate(("response.output_item.added", "response.output_item.done")):
            event = {"type": Raw(encode(kind)), "output_index": 0, "item": item, "sequence_number": at + step}
            inner.write(_event(event))
        self._last["sequence_number"] = at + 2

    def discard(self) -> None:
        """Drop what was held back: nobody gets it."""
        self.response = None
        self._held.clear()
        self._pending.clear()

    # -- streams -------------------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        """Pass on every complete event; keep the beginning of one."""
        pending = self._pending
        since = max(0, len(pending) - 3)
        pending += data
        end = max(pending.rfind(b"\n\n", since) + 2, pending.rfind(b"\r\n\r\n", since) + 4)
        if end <= 3 and not pending.startswith(b"\n\n"):
            if len(pending) > self._max_bytes:
                self._give_up()
            return
        events, self._pending = bytes(pending[:end]), pending[end:]
        if b'"response"' not in events and _DONE not in events:
            self._inner.write(events)
            return
        out: list[bytes] = []
        for event in events.replace(b"\r\n", b"\n").split(b"\n\n"):
            if event:
                self._event(event + b"\n\n", out)
        if out:
            self._inner.write(b"".join(out))
        if self.response is not None and self._pending:  # before what comes next, which is held back unread
            self._held.append(bytes(self._pending))
            self._pending.clear()

    def _event(self, event: bytes, out: list[bytes]) -> None:
        if self.response is not None:
            self._held.append(event)
            return
        is_whole = b'"response"' in event
        payload = _object(_data(event)) if is_whole or _DONE in event else None
        if payload is None:
            out.append(event)
            return
        kind = bytes(payload.get("type", b""))
        if kind == _DONE and "item" in payload:
            self._items.append(payload["item"])
        response = _object(payload["response"]) if "response" in payload else None
        if response is None:
            out.append(event)
            return
        response |= self._fields
        if kind == _FAILED:
            response["store"] = Raw(b"false")
        if kind not in _ENDS:
            out.append(_event(payload | {"response": response}))
            return
        if not _is_list_with_items(response.get("output")):  # some engines tell the items only once
            response["output"] = Raw(encode(self._items))
        self._last, self.response = payload, response

    def _give_up(self) -> None:
        self._is_watched = False
        self._inner.write(bytes(self._pending))
        self._pending.clear()


def _event(payload: Mapping[str, Any]) -> bytes:
    kind = msgspec.json.decode(payload["type"])
    data = encode(payload).replace(b"\n", b" ").replace(b"\r", b" ")
    return b"event: %b\ndata: %b\n\n" % (str(kind).encode(), data)


def _data(event: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


def _object(text: bytes | Raw) -> dict[str, Raw] | None:
    try:
        return decode_fields(text)
    except NOT_JSON:
        return None


def _is_list_with_items(value: Raw | None) -> bool:
    try:
        return value is not None and bool(_raws(value))
    except NOT_JSON:
        return False
