"""The few top-level fields of a request body that Stoker reads. It changes nothing else in a body.

One pass of msgspec proves that the whole body is JSON. Fields that decide something (model, stream, the output budget)
and fields that Stoker drops may occur only once: two readers of `{"model":"a","model":"b"}` could disagree about which
model is meant. Nesting deeper than 64 levels is refused. Both checks take linear time and run in C; the exact scan runs
only for bodies that could be ambiguous.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection
from itertools import accumulate
from operator import attrgetter
from typing import Any

import msgspec

from stoker.domain.access import Bounds
from stoker.domain.errors import ClientError
from stoker.request.codec.bounds import (
    LISTS,
    SHORT,
    SMALLEST_ENTRY,
    TOOLS,
    WINDOW,
    check_lists,
    has_more,
    structure,
)

MAX_DEPTH = 64
UNIQUE = ("model", "stream", "max_tokens", "max_completion_tokens", "max_output_tokens", "stream_options")
ENGINE_PRIVATE = (
    "custom_logit_processor", "chat_template", "kv_transfer_params", "vllm_xargs", "bootstrap_host",
    "bootstrap_port", "bootstrap_room", "lora_path", "id_slot",
)  # fmt: skip
"""Parameters that reach dangerous code in some engine (pickled code, templates, foreign hosts) or another client's
cache. They are dropped, and the drop is reported."""
_ABSENT = msgspec.Raw()
_USUAL = Bounds()


class BodyFields(msgspec.Struct):
    """The top-level fields of a request body. Everything else is skipped, after a check that it is JSON.

    `model_at`: the offset of the model's key, if it is known without a scan of the structure. `private`: the
    engine-private parameters that are present. `may_name_images`: False if no image is given by its URL.
    """

    model: Any = None
    stream: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    stream_options: Any = None
    service_tier: Any = None
    custom_logit_processor: msgspec.Raw = _ABSENT
    chat_template: msgspec.Raw = _ABSENT
    kv_transfer_params: msgspec.Raw = _ABSENT
    vllm_xargs: msgspec.Raw = _ABSENT
    bootstrap_host: msgspec.Raw = _ABSENT
    bootstrap_port: msgspec.Raw = _ABSENT
    bootstrap_room: msgspec.Raw = _ABSENT
    lora_path: msgspec.Raw = _ABSENT
    id_slot: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    documents: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    stop: msgspec.Raw = _ABSENT
    stop_sequences: msgspec.Raw = _ABSENT
    images: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT
    model_at: Any = msgspec.field(default=None, name="(model_at)")
    private: Any = msgspec.field(default=(), name="(private)")
    may_name_images: Any = msgspec.field(default=True, name="(may_name_images)")

    def output_budget(self) -> int | None:
        """Tokens that the client allows for the answer; None if it sets no limit."""
        for value in (self.max_completion_tokens, self.max_tokens, self.max_output_tokens):
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None


_private = attrgetter(*ENGINE_PRIVATE)
_BOUNDED = (*LISTS, *TOOLS)
_lists = attrgetter(*_BOUNDED)
_NOTHING_PRIVATE = (_ABSENT,) * len(ENGINE_PRIVATE)
_decode = msgspec.json.Decoder(BodyFields).decode
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
IMAGE_KEYS = ("url", "image_url", "source", "video_url", "audio_url", "file_url")
"""Keys whose value may be the URL of an image or of another file, anywhere in a body."""
_KEY = re.compile(
    rb'"(?:m(?:odel|ax_(?:tokens|completion_tokens|output_tokens))|s(?:tream(?:_options)?|ource)'
    rb'|url|image_url|video_url|audio_url|file_url)"'
)
"""UNIQUE and IMAGE_KEYS, written so that few branches are tried at each quote: a body has thousands of those."""
_FEW = 64
"""Quotation marks that are looked for one by one."""
_LONGEST_KEY = len(b'"max_completion_tokens"')
_IMAGE_KEYS = {b'"%s"' % name.encode() for name in IMAGE_KEYS}
_COLON = re.compile(rb"\s*:\s*")
_ROUNDS = 12
_SQUARE = bytes.maketrans(b"{}", b"[]")
_STEPS = {0x5B: 1, 0x5D: -1}


def read_body_fields(
    body: bytes, streams: bool = False, bounds: Bounds = _USUAL, needs_model: bool = True
) -> BodyFields:
    """Raises ClientError (400, or 413 for a body beyond `bounds`) naming what is wrong; costs linear time and no memory
    beyond the body's size. `streams`: whether a body without `stream` asks for a stream.
    `needs_model`: False if a missing model has a meaning; then `model` is empty.

    1. more values than `bounds` allow: found before anything is decoded
    2. not JSON in UTF-8, or not an object
    3. nested deeper than 64
    4. more messages or tools than `bounds` allow
    5. a field that decides something, or that Stoker drops, occurs twice
    6. `model` missing or not a non-empty string; `stream` not a boolean
    """
    counted = structure(body, bounds.max_values) if len(body) > bounds.max_values else None  # 1
    try:
        fields = _decode(body)
        if not body.isascii():
            _check_utf8(body)
    except RecursionError:  # the decoder gives up long before the C stack does
        raise _too_deep() from None  # 3
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"the request body is not a JSON object: {_shorten(str(error))}"
        raise ClientError(text, code="bad_json") from None  # 2
    shortest = min(bounds.max_messages, bounds.max_tools)
    is_structured = has_more(body, min(MAX_DEPTH, shortest), b"{", b"[")
    if is_structured and _depth((counted or structure(body, bounds.max_values)).brackets) > MAX_DEPTH:
        raise _too_deep()  # 3
    if len(body) >= SMALLEST_ENTRY * shortest and (is_structured or has_more(body, 2 * shortest, b'"')):
        check_lists(zip(_BOUNDED, _lists(fields), strict=True), bounds)  # 4
    fields.model_at = None  # these three are computed here: values from the body must not count
    fields.private = private = _private_of(fields)
    keys = _KEY.findall(body) if len(body) < SHORT else _keys(body)
    known = set(keys)
    names_images = not known.isdisjoint(_IMAGE_KEYS)
    if names_images:
        keys = [key for key in keys if key not in _IMAGE_KEYS]
        known -= _IMAGE_KEYS
    is_plain = b"\\" not in body or b"\\u00" not in body or _ESCAPED_LETTER.search(body) is None
    fields.may_name_images = names_images or not is_plain
    if not is_plain or len(keys) > len(known) or (private and _repeats(body, private)):
        for name, count in _count(body, (*UNIQUE, *private)).items():
            if count > 1:
                text = f"'{name}' appears {count} times in the request body: send it once"
                raise ClientError(text, code="duplicate_field", param=name)  # 5
    elif b'"model"' in known:
        fields.model_at = body.index(b'"model"')
    if fields.model is None and not needs_model:
        fields.model = ""
    elif not isinstance(fields.model, str) or not fields.model:
        found = "is missing" if fields.model is None else f"must be a non-empty string, not {_kind(fields.model)}"
        raise ClientError(f"'model' {found}; see GET /v1/models for the names", code="bad_model", param="model")  # 6
    if fields.stream is None:
        fields.stream = streams
    if not isinstance(fields.stream, bool):
        raise ClientError(
            f"'stream' must be true or false, not {_kind(fields.stream)}", code="bad_field", param="stream"
        )
    return fields


def find(body: bytes, name: str, at: int | None = None) -> tuple[int, int, int]:
    """Offsets (key start, value start, value end) of a top-level field that `read_body_fields` found. `at`: where its
    key starts, if that is known. Raises KeyError if the field is missing.
    """
    if at is not None:
        colon = _COLON.match(body, at + len(name) + 2)
        if colon is not None:
            return at, colon.end(), _value_end(body, colon.end())
    place = locate(body, name)
    if place is None:
        raise KeyError(name)
    return place


def locate(body: bytes, name: str) -> tuple[int, int, int] | None:
    """Like `find`, for any top-level field; None if the body has no such field."""
    for at, value in _top_level(body):
        if msgspec.json.decode(body[at : _string_end(body, at)]) == name:
            return at, value, _value_end(body, value)
    return None


def locate_all(body: bytes, names: Collection[str]) -> list[tuple[str, int, int, int]]:
    """(name, key start, value start, value end) of each top-level field with one of these names, in order. A name may
    occur more than once.
    """
    found = []
    for at, value in _top_level(body):
        name = msgspec.json.decode(body[at : _string_end(body, at)])
        if name in names:
            found.append((name, at, value, _value_end(body, value)))
    return found


def _private_of(fields: BodyFields) -> tuple[str, ...]:
    values = _private(fields)
    if values == _NOTHING_PRIVATE:
        return ()
    return tuple(name for name, value in zip(ENGINE_PRIVATE, values, strict=True) if value is not _ABSENT)


def _repeats(body: bytes, names: tuple[str, ...]) -> bool:
    return any(body.count(b'"%s"' % name.encode()) > 1 for name in names)


def may_hold(body: bytes, name: str) -> bool:
    """False: the body certainly does not have this field, in any JSON spelling of its name."""
    return b'"%s"' % name.encode() in body or _ESCAPED_LETTER.search(body) is not None


def _count(body: bytes, names: tuple[str, ...]) -> dict[str, int]:
    counts = dict.fromkeys(names, 0)
    for at, _ in _top_level(body):
        name = msgspec.json.decode(body[at : _string_end(body, at)])
        if name in counts:
            counts[name] += 1
    return counts


def _top_level(body: bytes) -> list[tuple[int, int]]:
    """(key start, value start) of each top-level field, in order. The body is valid JSON."""
    fields: list[tuple[int, int]] = []
    depth = 0
    for token in _TOKEN.finditer(body):
        first = body[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
        elif depth == 1:
            colon = _COLON.match(body, token.end())
            if colon is not None:
                fields.append((token.start(), colon.end()))
    return fields


def _string_end(body: bytes, start: int) -> int:
    match = _STRING.match(body, start)
    if match is None:
        raise KeyError(start)
    return match.end()


def _value_end(body: bytes, start: int) -> int:
    first = body[start]
    if first == 0x22:
        return _string_end(body, start)
    if first not in b"{[":
        end = start
        while body[end] not in b",}] \t\r\n":
            end += 1
        return end
    depth = 0
    for token in _TOKEN.finditer(body, start):
        sign = body[token.start()]
        if sign in b"{[":
            depth += 1
        elif sign in b"}]":
            depth -= 1
            if depth == 0:
                return token.end()
    raise KeyError(start)


def _keys(body: bytes) -> list[bytes]:
    """The keys that `_KEY` finds. In a long text with few quotation marks, it is faster to search for the marks first.
    Otherwise the body is searched window by window, because one search of a large body blocks all other threads.
    """
    keys: list[bytes] = []
    at = body.find(b'"')
    for _ in range(_FEW):
        if at < 0:
            return keys
        found = _KEY.match(body, at)
        if found is None:
            at = body.find(b'"', at + 1)
        else:
            keys.append(found[0])
            at = body.find(b'"', found.end())
    if at < 0:
        return keys
    for end in range(at + WINDOW, len(body) + WINDOW, WINDOW):
        for match in _KEY.finditer(body, at, end):
            keys.append(match[0])
            at = match.end()
        at = max(at, end - _LONGEST_KEY)
    return keys


def _depth(brackets: bytes) -> int:
    """How deep the brackets of valid JSON nest. Each round removes the innermost pairs, which is fast and usually
    enough; deeper nesting is counted bracket by bracket.
    """
    rest = brackets.translate(_SQUARE)
    for depth in range(_ROUNDS):
        if not rest:
            return depth
        rest = rest.replace(b"[]", b"")
    return _ROUNDS + max(accumulate(map(_STEPS.__getitem__, rest)), default=0)


def _check_utf8(body: bytes) -> None:
    """Raises UnicodeDecodeError. Decodes piece by piece, so that a large body is never in memory twice."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    step = 1 << 20
    for at in range(0, len(body), step):
        decode(body[at : at + step], at + step >= len(body))


def _too_deep() -> ClientError:
    return ClientError(f"the request body is nested more than {MAX_DEPTH} levels deep", code="too_deep")


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", list: "an array", dict: "an object", str: "empty"}
    return names.get(type(value), "null")


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."
