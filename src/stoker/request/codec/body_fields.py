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
from typing import Any, Final

import msgspec

from stoker.domain.access import Bounds
from stoker.domain.dialect import OUTPUT_LIMITS
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
from stoker.request.codec.server_tools import SERVER_TOOL_FIELDS, names_server_tools

MAX_DEPTH: Final = 64
UNIQUE: Final = ("model", "stream", *OUTPUT_LIMITS, "stream_options")
ENGINE_PRIVATE: Final = (
    "custom_logit_processor", "chat_template", "kv_transfer_params", "vllm_xargs", "bootstrap_host",
    "bootstrap_port", "bootstrap_room", "lora_path", "id_slot",
)  # fmt: skip
"""Parameters that reach dangerous code in some engine (pickled code, templates, foreign hosts) or another client's
cache. They are dropped, and the drop is reported."""
_USUAL: Final = Bounds()


class BodyFields:
    """The top-level fields of a request body that Stoker reads. `read_body_fields` checked the types of `model` and
    `stream`; the others are as the client sent them, None if it did not.
    """

    __slots__ = (
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "may_have_options",
        "may_have_server_tools",
        "may_hold_calls",
        "may_name_images",
        "model",
        "model_at",
        "private",
        "service_tier",
        "session",
        "stream",
        "stream_options",
    )

    def __init__(
        self, model: str = "", stream: bool = False, max_tokens: Any = None, model_at: int | None = None
    ) -> None:
        self.model = model
        self.stream = stream
        self.max_tokens = max_tokens
        self.max_completion_tokens: Any = None
        self.max_output_tokens: Any = None
        self.stream_options: Any = None
        self.service_tier: Any = None
        self.session: tuple[str, str] | None = None
        """The field that names the session to which it belongs, and what it says; None: none does."""
        self.model_at = model_at
        """The offset of the model's key, if it is known without a scan of the structure."""
        self.private: tuple[str, ...] = ()
        """The engine-private parameters that are present."""
        self.may_name_images = True
        """False if no image is given by its URL."""
        self.may_hold_calls = True
        """False if the history has no call of a tool: in the dialects of OpenAI, and in Messages none that the server
        ran.
        """
        self.may_have_server_tools = True
        """False if each tool is one that the client runs."""
        self.may_have_options = True
        """False if the body has no `stream_options`; null counts."""

    def copy(self) -> BodyFields:
        """The same fields in an object of their own."""
        copied = BodyFields(self.model, self.stream, self.max_tokens, self.model_at)
        copied.max_completion_tokens = self.max_completion_tokens
        copied.max_output_tokens = self.max_output_tokens
        copied.stream_options = self.stream_options
        copied.service_tier = self.service_tier
        copied.session = self.session
        copied.private = self.private
        copied.may_name_images = self.may_name_images
        copied.may_hold_calls = self.may_hold_calls
        copied.may_have_server_tools = self.may_have_server_tools
        copied.may_have_options = self.may_have_options
        return copied

    def output_budget(self) -> int | None:
        """Tokens that the client allows for the answer; None if it sets no limit."""
        for value in (self.max_completion_tokens, self.max_tokens, self.max_output_tokens):
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None


_BOUNDED: Final = (*LISTS, *TOOLS)
_OPTIONS: Final = frozenset(("max_completion_tokens", "max_output_tokens", "stream_options", "service_tier"))
_MAY_NAME_SERVER_TOOLS: Final = frozenset(("tools", *SERVER_TOOL_FIELDS))
_MAY_BE_PRIVATE: Final = frozenset(ENGINE_PRIVATE)
_NAMES_SESSION: Final = frozenset(("metadata", "prompt_cache_key", "conversation"))
_RARE: Final = _OPTIONS | _NAMES_SESSION | _MAY_NAME_SERVER_TOOLS | _MAY_BE_PRIVATE
"""Fields that `_read_rare` reads."""
_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_value: Final = msgspec.json.Decoder().decode
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_ESCAPED_LETTER: Final = re.compile(rb"\\u00[4-7]")
IMAGE_KEYS: Final = ("url", "image_url", "source", "video_url", "audio_url", "file_url")
"""Keys whose value may be the URL of an image or of another file, anywhere in a body."""
_KEY: Final = re.compile(
    rb'"(?:m(?:odel|ax_(?:tokens|completion_tokens|output_tokens))|s(?:tream(?:_options)?|ource)'
    rb'|url|image_url|video_url|audio_url|file_url)"'
)
"""UNIQUE and IMAGE_KEYS, written so that few branches are tried at each quote: a body has thousands of those."""
_IMAGE_KEY: Final = re.compile(rb'"(?:url|source|image_url|video_url|audio_url|file_url)"')
"""Not one prefix that may be missing, before `url`: that would take twice as long."""
_FEW: Final = 64
"""Quotation marks that are looked for one by one."""
_LONGEST_KEY: Final = len(b'"max_completion_tokens"')
_IMAGE_KEYS: Final = {b'"%s"' % name.encode() for name in IMAGE_KEYS}
_IMAGE_KEY_ENDS: Final = (b'url"', b'"source"')
"""Each of IMAGE_KEYS ends with one of these."""
_CALL: Final = b"_call"
"""In `tool_calls`, `function_call`, `custom_tool_call`, `web_search_call`, and the outputs of calls."""
_SERVER_CALL: Final = b"_tool_use"
"""In `server_tool_use` and `mcp_tool_use`."""
_IMAGE_OR_CALL_KEY: Final = re.compile(
    rb'"(?:(?:url|source|image_url|video_url|audio_url|file_url|tool_calls)"'
    rb"|function_call|custom_tool_call|web_search_call|mcp_|server_tool_use)"
)
_COLON: Final = re.compile(rb"\s*:\s*")
_BACKSLASH: Final = 0x5C
_ROUNDS: Final = 12
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_STEPS: Final = {0x5B: 1, 0x5D: -1}


def read_body_fields(
    body: bytes, streams: bool = False, bounds: Bounds = _USUAL, needs_model: bool = True
) -> BodyFields:
    """Raises ClientError (400, or 413 for a body beyond `bounds`) naming what is wrong; costs linear time, and no more
    memory than the values that `bounds` allow. `streams`: whether a body without `stream` asks for a stream.
    `needs_model`: False if a missing model has a meaning; then `model` is empty.

    1. more values than `bounds` allow: found before anything is decoded
    2. not JSON in UTF-8, or not an object
    3. nested deeper than 64
    4. more messages or tools than `bounds` allow
    5. a field that decides something, or that Stoker drops, occurs twice
    6. `model` missing or not a non-empty string; `stream` not a boolean
    """
    size = len(body)
    counted = structure(body, bounds.max_values) if size > bounds.max_values else None  # 1
    fields = BodyFields()
    try:
        top: dict[str, msgspec.Raw] = _decode(body)
        model = _value(top, "model")
        stream = _value(top, "stream")
        fields.max_tokens = _value(top, "max_tokens")
        if _RARE.isdisjoint(top):
            fields.may_have_options = fields.may_have_server_tools = False
        else:
            _read_rare(top, fields)
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
    if size >= SMALLEST_ENTRY * shortest and (is_structured or has_more(body, 2 * shortest, b'"')):
        check_lists([(name, top[name]) for name in _BOUNDED if name in top], bounds)  # 4
    _refuse_repeated(body, top, fields)  # 5
    if model is None and not needs_model:
        model = ""
    elif not isinstance(model, str) or not model:
        if model is None:
            found = "is missing"
        else:
            found = "is empty" if model == "" else f"must be a non-empty string, not {_kind(model)}"
        raise ClientError(f"'model' {found}; see GET /v1/models for the names", code="bad_model", param="model")  # 6
    if stream is None:
        stream = streams
    if not isinstance(stream, bool):
        text = f"'stream' must be true or false, not {_kind(stream)}"
        raise ClientError(text, code="bad_field", param="stream")
    fields.model, fields.stream = model, stream
    return fields


def _read_rare(top: dict[str, msgspec.Raw], fields: BodyFields) -> None:
    """Raises msgspec.DecodeError, UnicodeDecodeError."""
    fields.may_have_options = "stream_options" in top
    fields.may_have_server_tools = not _MAY_NAME_SERVER_TOOLS.isdisjoint(top) and names_server_tools(top)
    if not _OPTIONS.isdisjoint(top):
        fields.max_completion_tokens = _value(top, "max_completion_tokens")
        fields.max_output_tokens = _value(top, "max_output_tokens")
        fields.stream_options = _value(top, "stream_options")
        fields.service_tier = _value(top, "service_tier")
    if not _NAMES_SESSION.isdisjoint(top):
        fields.session = _session_of(top)
    if not _MAY_BE_PRIVATE.isdisjoint(top):
        fields.private = tuple([name for name in ENGINE_PRIVATE if name in top])


class _Metadata(msgspec.Struct):
    user_id: Any = None


class _Conversation(msgspec.Struct):
    id: Any = None


_metadata: Final = msgspec.json.Decoder(_Metadata).decode
_conversation: Final = msgspec.json.Decoder(_Conversation).decode


def _session_of(top: dict[str, msgspec.Raw]) -> tuple[str, str] | None:
    """What names a request's session: the first of `metadata.user_id`, `prompt_cache_key` and `conversation`."""
    found: list[tuple[str, Any]] = []
    try:
        if bytes(top.get("metadata", b""))[:1] == b"{":
            found.append(("metadata.user_id", _metadata(top["metadata"]).user_id))
        if "prompt_cache_key" in top:
            found.append(("prompt_cache_key", _value(top, "prompt_cache_key")))
        if given := top.get("conversation"):
            is_object = bytes(given)[:1] == b"{"
            found.append(("conversation", _conversation(given).id if is_object else _value(top, "conversation")))
    except msgspec.ValidationError:  # whatever it means, it names none
        pass
    return next(((name, text) for name, text in found if isinstance(text, str) and text), None)


def _value(top: dict[str, msgspec.Raw], name: str) -> Any:
    """The value of a field; None if it is missing. Raises msgspec.DecodeError, UnicodeDecodeError."""
    raw = top.get(name)
    return None if raw is None else _decode_value(raw)


def _refuse_repeated(body: bytes, top: dict[str, msgspec.Raw], fields: BodyFields) -> None:
    """Raises ClientError if a field that may occur only once is repeated; sets `model_at`, `may_name_images` and
    `may_hold_calls`.
    """
    has_escapes = _BACKSLASH in body and b"\\u00" in body and _ESCAPED_LETTER.search(body) is not None
    if not has_escapes:
        place = _place_of_model(body, top)
        if place >= 0:
            fields.model_at = place or None
            _look_for_images_and_calls(body, fields)
            return
    fields.may_hold_calls = _holds_calls(body)
    keys: list[bytes] = _KEY.findall(body) if len(body) < SHORT else _keys(body)
    known = set(keys)
    names_images = not known.isdisjoint(_IMAGE_KEYS)
    if names_images:
        keys = [key for key in keys if key not in _IMAGE_KEYS]
        known -= _IMAGE_KEYS
    fields.may_name_images = names_images or has_escapes
    private = fields.private
    if has_escapes or len(keys) > len(known) or (private and _repeats(body, private)):
        for name, count in _count(body, (*UNIQUE, *private)).items():
            if count > 1:
                text = f"'{name}' appears {count} times in the request body: send it once"
                raise ClientError(text, code="duplicate_field", param=name)
    elif b'"model"' in known:
        fields.model_at = body.index(b'"model"')


def _place_of_model(body: bytes, top: dict[str, msgspec.Raw]) -> int:
    """The offset of the model's key, 0 if it is missing; -1: the body does not say it without a scan.

    In a body without blanks between its fields, each field is as long as its name, its value and the four bytes of
    `"":,`. A body that is exactly as long as its fields has none of them twice, and they stand where their lengths say.
    Blanks, escapes and letters beyond ASCII in a name, and a field that occurs twice, make it longer.
    """
    if 1 + sum(map(len, top)) + sum(map(len, top.values())) + 4 * len(top) != len(body):
        return -1
    at = 1
    for name, value in top.items():
        if name == "model":
            return at
        at += len(name) + len(value) + 4
    return 0


def _look_for_images_and_calls(body: bytes, fields: BodyFields) -> None:
    """Whether one of IMAGE_KEYS may occur, or a call. In a long text with few quotation marks, these are faster to
    find.
    """
    if len(body) < SHORT:
        fields.may_name_images = _IMAGE_KEY.search(body) is not None
        fields.may_hold_calls = _holds_calls(body)
        return
    at = body.find(b'"')
    for _ in range(_FEW):
        if at < 0:
            fields.may_name_images = fields.may_hold_calls = False
            return
        if _IMAGE_OR_CALL_KEY.match(body, at) is not None:
            break
        at = body.find(b'"', at + 1)
    fields.may_name_images = any(body.find(end, at) >= 0 for end in _IMAGE_KEY_ENDS)
    fields.may_hold_calls = _holds_calls(body, max(at, 0))


def _holds_calls(body: bytes, at: int = 0) -> bool:
    """Whether a call occurs from there on. The first byte is rare in a text, and found much faster than a word."""
    at = body.find(b"_", at)
    for _ in range(_FEW):
        if at < 0:
            return False
        if body.startswith(_CALL, at) or body.startswith(_SERVER_CALL, at):
            return True
        at = body.find(b"_", at + 1)
    return at >= 0 and (body.find(_CALL, at) >= 0 or body.find(_SERVER_CALL, at) >= 0)


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
    names = {bool: "a boolean", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), "a string")


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."
