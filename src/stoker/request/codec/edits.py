"""The only changes to a body that passes through; each is named in `x-stoker-translation` and in the decision.

model           the name that the client used is replaced by the serve's own; every other byte stays
include_usage   a streamed chat or completion is made to report usage; the extra chunk is removed from the reply
default_model   the request named no model, and only one can be meant: its name was put in
id_slot         the engine's sequence that holds the conversation (only if conversations are kept)
set:NAME        the field has the serve's value: its request parameters say so
default:NAME    the request left the field out, or gave null: the same
dropped:NAME    the field was removed: the same; or it is private to engines
max_tokens      (and other names of the limit) lowered to the room that the prompt leaves in the context: llama.cpp
                answers until that is full, but vLLM, SGLang and clouds refuse a limit above the room, and agents take
                such a refusal for a prompt that is too long

Fields that are not named keep their bytes.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

import msgspec

from stoker.domain.dialect import OUTPUT_LIMITS, Dialect
from stoker.domain.request_parameters import RequestParameters
from stoker.request.codec.body_fields import BodyFields, find, locate, locate_all, may_hold

_USAGE: Final = b'"stream_options":{"include_usage":true},'
LARGE: Final = 64 * 1024
"""Bytes from which a body is sent in pieces."""
_LOWERED: Final = frozenset((*OUTPUT_LIMITS, "min_tokens"))
"""vLLM and SGLang want `min_tokens` at most at the limit."""
LEAST_THINKING: Final = 1024
"""The smallest `budget_tokens` of Anthropic's API, which has to be below `max_tokens`."""
_READ: Final = (*OUTPUT_LIMITS, "stream_options")
"""Fields of `BodyFields` that later steps read, and that parameters may change."""


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
    asks = may_ask_usage and bool(fields.stream) and dialect.spec.asks_usage and not _asks_usage(fields.stream_options)
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
    if len(body) < LARGE:
        whole = put(body, *splices[0]) if len(splices) == 1 else b"".join(_spliced(body, splices))
        return Edited(whole, len(whole), tuple(changes), asks)
    pieces = _spliced(body, splices)
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


def apply_parameters(
    body: bytes, fields: BodyFields, parameters: RequestParameters
) -> tuple[bytes, BodyFields, tuple[str, ...]]:
    """The body, its fields (a copy if anything changed), and what was changed. `fields` is what `read_body_fields`
    returned for `body`. A field that the client gave twice is changed in every place.

    The names are ASCII without quotes and backslashes, as the configuration file has them. The client's
    engine-private fields count as missing: they never reach an engine.
    """
    names = parameters.names()
    has_escapes = b"\\u00" in body
    present = [name for name in names if has_escapes or b'"%s"' % name.encode() in body]
    places = locate_all(body, present) if present else []
    changes = dict.fromkeys(names, "")
    done: set[str] = set()
    for name, key, start, end in reversed(places):  # back to front, so that earlier offsets stay valid
        value = _value(name, body[start:end], fields, parameters)
        if value is None or name in done:
            body = remove(body, key, end)
            changes[name] = changes[name] or f"dropped:{name}"
        elif value != body[start:end]:
            body = put(body, start, end, value)
            changes[name] = f"set:{name}" if name in parameters.set else f"default:{name}"
        if value is not None:
            done.add(name)
    added = {**parameters.default, **parameters.set}
    missing = {name: value for name, value in added.items() if name not in done}
    if missing:
        at = body.index(b"{") + 1
        body = put(body, at, at, msgspec.json.encode(missing)[1:-1] + b",")
        changes |= {name: f"set:{name}" if name in parameters.set else f"default:{name}" for name in missing}
    notes = tuple(change for change in changes.values() if change)
    return (body, _copied(fields, parameters), notes) if notes else (body, fields, ())


def _value(name: str, given: bytes, fields: BodyFields, parameters: RequestParameters) -> bytes | None:
    """The field's new value; None: the field is removed."""
    if name in parameters.set:
        return msgspec.json.encode(parameters.set[name])
    is_removed = name in parameters.drop or name in fields.private or given == b"null"
    if name in parameters.default and is_removed:
        return msgspec.json.encode(parameters.default[name])
    return None if name in parameters.drop else given


def _copied(fields: BodyFields, parameters: RequestParameters) -> BodyFields:
    """The fields of the changed body."""
    copied = fields.copy()
    copied.model_at = None
    copied.may_have_options = True
    copied.private = tuple(name for name in fields.private if name not in parameters.names())
    for name in _READ:
        setattr(copied, name, _final(getattr(fields, name), name, parameters))
    return copied


def _final(given: Any, name: str, parameters: RequestParameters) -> Any:
    if name in parameters.set:
        return parameters.set[name]
    left = None if name in parameters.drop else given
    return parameters.default.get(name) if left is None else left


def lower_output_limit(
    body: bytes, fields: BodyFields, dialect: Dialect, room: int
) -> tuple[bytes, BodyFields, tuple[str, ...]]:
    """The body with no limit above `room` (at least 1), its fields (a copy if anything changed), and the names of what
    was lowered. `fields` is what `read_body_fields` returned for `body`. A thinking budget of Messages goes below the
    limit, or thinking is switched off if that leaves too little for it.
    """
    names = {*_LOWERED, "thinking"} if dialect is Dialect.MESSAGES else _LOWERED
    lowered: list[str] = []
    for name, _, start, end in reversed(locate_all(body, names)):  # back to front: earlier offsets stay valid
        given = msgspec.json.decode(body[start:end])
        value = _less_thinking(given, room) if name == "thinking" else _at_most(given, room)
        if value is not None:
            body = put(body, start, end, msgspec.json.encode(value))
            lowered.append(name)
    if not lowered:
        return body, fields, ()
    fields = fields.copy()
    fields.model_at = None
    for name in OUTPUT_LIMITS:  # a translated request has its limit under the client's name here
        if _at_most(getattr(fields, name), room) is not None:
            setattr(fields, name, room)
    return body, fields, tuple(reversed(lowered))


def _at_most(given: Any, room: int) -> int | None:
    """The new value; None: it stays."""
    is_count = isinstance(given, int | float) and not isinstance(given, bool)
    return room if is_count and given > room else None


def _less_thinking(given: Any, room: int) -> dict[str, Any] | None:
    if not isinstance(given, dict) or given.get("type") != "enabled":
        return None
    budget = _at_most(given.get("budget_tokens"), room - 1)
    if budget is None:
        return None
    return {**given, "budget_tokens": budget} if budget >= LEAST_THINKING else {"type": "disabled"}
