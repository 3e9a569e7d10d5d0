"""The only changes to a body that passes through; each is named in `x-stoker-translation` and in the decision.

model           the name that the client used is replaced by the serve's own; every other byte stays
include_usage   a streamed chat or completion is made to report usage; the extra chunk is removed from the reply
dropped:NAME    an engine-private parameter was taken out
default_model   the request named no model, and only one can be meant: its name was put in
id_slot         the engine's sequence that holds the conversation (only if conversations are kept)
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

import msgspec

from stoker.domain.dialect import Dialect
from stoker.request.codec.body_fields import BodyFields, find, locate, may_hold

_USAGE: Final = b'"stream_options":{"include_usage":true},'
LARGE: Final = 64 * 1024
"""Bytes from which a body is sent in pieces."""
_ASKABLE: Final = (Dialect.CHAT, Dialect.COMPLETIONS)


class Edited:
    """The body to send, its size in bytes, what was changed, and whether Stoker has to remove the usage chunk from the
    reply. A large body in which bytes were replaced is a list of its pieces, so that uvloop need not copy it.
    """

    __slots__ = ("body", "changes", "remove_usage", "size")

    def __init__(
        self, body: bytes | list[bytes | memoryview], size: int, changes: tuple[str, ...], remove_usage: bool
    ) -> None:
        self.body = body
        self.size = size
        self.changes = changes
        self.remove_usage = remove_usage

    def whole(self) -> bytes:
        """The body in one piece."""
        return self.body if isinstance(self.body, bytes) else b"".join(self.body)


def edit(
    body: bytes,
    fields: BodyFields,
    dialect: Dialect,
    served_name: str,
    sequence: int | None = None,
    may_ask_usage: bool = True,
) -> Edited:
    """Apply what applies. `fields` is what `read_body_fields` returned for `body`. `may_ask_usage`: False if parameters
    of the serve decide on `stream_options`.
    """
    changes: list[str] = []
    for name in fields.private:
        key, _, end = find(body, name)
        body = remove(body, key, end)
        changes.append(f"dropped:{name}")
    is_moved = bool(changes)
    splices: list[tuple[int, int, bytes]] = []
    if sequence is not None:  # the client's own `id_slot` was dropped
        at = body.index(b"{") + 1
        splices.append((at, at, b'"id_slot":%d,' % sequence))
    asks = may_ask_usage and bool(fields.stream) and dialect in _ASKABLE and not _asks_usage(fields.stream_options)
    if asks:
        splices.append(_ask_usage(body, fields))
    if fields.model != served_name:
        start, end = _model(body, fields, is_moved)
        splices.append((start, end, msgspec.json.encode(served_name)))
        changes.append("model")
    if asks:
        changes.append("include_usage")
    if sequence is not None:
        changes.append("id_slot")
    if not splices:
        return Edited(body, len(body), tuple(changes), asks)
    pieces = _spliced(body, splices)
    if len(body) < LARGE:
        whole = b"".join(pieces)
        return Edited(whole, len(whole), tuple(changes), asks)
    return Edited(pieces, sum(map(len, pieces)), tuple(changes), asks)


def _spliced(body: bytes, splices: list[tuple[int, int, bytes]]) -> list[bytes | memoryview]:
    """The pieces of the body with each text in place of body[start:end]. Texts for one place keep their order."""
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    at = 0
    for start, end, text in splices if len(splices) == 1 else sorted(splices, key=itemgetter(0)):
        if start > at:
            pieces.append(view[at:start])
        pieces.append(text)
        at = end
    pieces.append(view[at:])
    return pieces


def with_model_field(body: bytes, model: str) -> bytes:
    """`body`, a JSON object without a model, with `model` put in."""
    value = msgspec.json.encode(model)
    place = locate(body, "model") if may_hold(body, "model") else None
    if place is not None:  # null
        return put(body, *place[1:], value)
    at = body.index(b"{") + 1
    is_empty = body[at:].lstrip().startswith(b"}")
    return put(body, at, at, b'"model":' + value + (b"" if is_empty else b","))


def _model(body: bytes, fields: BodyFields, is_moved: bool) -> tuple[int, int]:
    if is_moved:  # `model_at` is its place in the body as it came
        return find(body, "model")[1:]
    if fields.model_at is not None:
        start = fields.model_at + 8  # behind "model":
        if body[start - 1] == 0x3A:
            start += body[start] == 0x20
            plain = b'"%b"' % fields.model.encode()
            if body.startswith(plain, start):
                return start, start + len(plain)
    return find(body, "model", fields.model_at)[1:]


def put(body: bytes, start: int, end: int, text: bytes) -> bytes:
    """The body with `text` in place of body[start:end]. Makes one copy."""
    view = memoryview(body)
    return b"".join((view[:start], text, view[end:]))


def _asks_usage(options: object) -> bool:
    return isinstance(options, dict) and options.get("include_usage") is True


def _ask_usage(body: bytes, fields: BodyFields) -> tuple[int, int, bytes]:
    """Start, end and the text that goes there."""
    options = fields.stream_options
    place = locate(body, "stream_options") if fields.may_have_options else None
    if place is None:
        at = body.index(b"{") + 1
        return at, at, _USAGE
    asked = {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
    return place[1], place[2], msgspec.json.encode(asked)


def remove(body: bytes, key: int, end: int) -> bytes:
    """The body without the field body[key:end], and without the comma that belonged to it."""
    after = end
    while body[after] in b" \t\r\n":
        after += 1
    if body[after] == 0x2C:  # remove the comma that follows, too
        return body[:key] + body[after + 1 :].lstrip()
    before = key - 1
    while body[before] in b" \t\r\n":
        before -= 1
    return (body[:before] if body[before] == 0x2C else body[:key]) + body[end:]
