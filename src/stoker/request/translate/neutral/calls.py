"""Tool calls: names, ids and arguments where one dialect's do not fit the other.

name        longer than the target takes, or with letters that it refuses: its beginning and a hash, and itself again in
            the answer
id          letters that Messages refuses: spelt in base64 behind `stk-`, and restored when the client sends it back
arguments   JSON text as it was written; what is no object is unwrapped once, else kept under `_raw`: one call that was
            cut off would otherwise make an engine refuse every later turn

JSON schemas of arguments are kept byte for byte, unless the target wants what they do not say.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.prompt import AnswerFormat
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, encode, is_json, loose

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_SPELT = "stk-"
_SHORT = 9
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BLANKS = " \t\r\n"
_OPENING = re.compile(rf"[{_BLANKS}]*")
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def short_name(name: str, length: int) -> str:
    """The name as the target takes it: itself where it fits, else 55 of its letters, `_`, and 8 digits of its hash."""
    if len(name) <= length and _PLAIN_NAME.match(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[: min(length, 64) - 9]
    return f"{plain}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def spelt_id(id: str) -> str:
    """A call's id in letters that every dialect takes."""
    if _PLAIN_ID.match(id):
        return id
    letters = id.encode("utf-8", "replace")
    if len(letters) > 90:
        return _SPELT + hashlib.sha256(letters).hexdigest()
    return _SPELT + base64.urlsafe_b64encode(letters).decode().rstrip("=")


def read_id(id: str) -> str:
    """The id that `spelt_id` was given; any other id is itself."""
    if not id.startswith(_SPELT):
        return id
    try:
        rest = id[len(_SPELT) :]
        found = base64.b64decode(rest + "=" * (-len(rest) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return id
    return found if spelt_id(found) == id else id


def short_id(id: str) -> str:
    """Nine letters and digits, the same for the same id (Mistral's templates want just that)."""
    if len(id) == _SHORT and id.isascii() and id.isalnum():
        return id
    number = int.from_bytes(hashlib.sha256(id.encode("utf-8", "replace")).digest()[:8], "big")
    digits = ""
    for _ in range(_SHORT):
        number, digit = divmod(number, len(_LETTERS))
        digits += _LETTERS[digit]
    return digits


def is_object(text: str) -> bool:
    """Whether it is the text of one JSON object, which every engine can read: also its numbers are not too large."""
    try:
        _decode_object(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def repaired(arguments: str, losses: Losses) -> str:
    """Arguments that every engine takes back in the history of a conversation: themselves if they are an object."""
    if is_object(arguments):
        return arguments
    losses.repair("arguments")
    text = bytes(as_object(arguments, losses)).decode()
    return text if is_object(text) else encode(loose(text)).decode()


def fitted_id(id: str, length: int, is_plain: bool = False) -> str:
    """The id as the target takes it: itself where it fits, else a hash of it. `is_plain`: in plain letters alone."""
    spelt = spelt_id(id) if is_plain else id
    if len(spelt) <= length:
        return spelt
    return f"call_{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:32]}"


def as_object(arguments: str, losses: Losses, whole: bool = True) -> Raw:
    """Arguments as the text of a JSON object, byte for byte if they are one.

    1. a string                         -> what it holds, once
    2. nothing, blanks, null            -> {}
    3. an object                        -> as it was written; if that is no JSON (`NaN`), written anew
    4. cut off (`whole` false)          -> what came of it
    5. anything else                    -> {"_raw": the text}
    """
    text = arguments.strip(_BLANKS)
    value = loose(text)
    if isinstance(value, str):
        text = value.strip(_BLANKS)  # 1
        value = loose(text)
    if text in ("", "null"):
        return Raw(b"{}")  # 2
    if isinstance(value, dict):
        return Raw(text.encode() if is_json(text) else encode(value))  # 3
    if value is None and not whole:
        losses.add("truncated_call")
        partial = _partial(text)
        if partial is not None:
            return Raw(encode(partial))  # 4
    losses.add("arguments")
    return Raw(encode({"_raw": arguments}))  # 5


def is_plain_start(arguments: str) -> bool | None:
    """Whether arguments of which this is the beginning are an object; None: nothing of them has come yet."""
    at = _OPENING.match(arguments).end()  # type: ignore[union-attr]
    return None if at == len(arguments) else arguments[at] == "{"


_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}


def _partial(text: str) -> dict[str, object] | None:
    """The object as far as it is whole, as the official SDKs read one that was cut off: without a value, or a key, that
    had only begun. None: there is nothing of it, or it is no JSON. Linear.
    """
    opened: list[str] = []
    end, before = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            opened.append(mark)
        elif mark in "}]" and opened:
            opened.pop()
        elif mark in ",:" or (opened[-1:] == ["{"] and before != ":"):  # a key is no value
            before = mark
            continue
        elif (mark[0] == '"' and not token[1]) or (mark[0] != '"' and token.end() == len(text) and not is_json(mark)):
            break
        end, before = token.end(), mark
    try:
        found = msgspec.json.decode(text[:end] + "".join(_CLOSING[mark] for mark in reversed(opened)))
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


class Balance:
    """Whether JSON text that comes in pieces is complete. Linear: each character is looked at once."""

    __slots__ = ("_depth", "_escaped", "_in_string", "_seen", "_unread")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._seen = False
        self._unread: list[str] = []

    def feed(self, text: str) -> None:
        """Only kept: most calls never have to be looked at."""
        self._unread.append(text)

    def is_complete(self) -> bool:
        """Whether an object or array was opened, and every bracket is closed again."""
        text, self._unread = "".join(self._unread), []
        at = 1 if self._escaped else 0
        if text:
            self._escaped = False
        while at < len(text):
            found = (INSIDE_STRING if self._in_string else OUTSIDE_STRING).search(text, at)
            if found is None:
                break
            at = found.end()
            match found[0]:
                case '"':
                    self._in_string = not self._in_string
                case "\\":
                    self._escaped = at == len(text)
                    at += 1
                case "{" | "[":
                    self._depth += 1
                    self._seen = True
                case _:
                    self._depth -= 1
        return self._seen and self._depth <= 0 and not self._in_string


INSIDE_STRING = re.compile(r'["\\]')
OUTSIDE_STRING = re.compile(r'["{}\[\]]')


OPEN = Raw(b'{"type":"object","properties":{}}')
"""Of a tool whose client gave none."""
INPUT = Raw(b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}')
"""Of a function that stands for a tool which takes any text."""
_ELSEWHERE = ("$ref", "anyOf", "oneOf", "allOf")
"""What may say the type instead."""


def typed(schema: Raw | None, insists: bool = False) -> Raw | dict[str, Any]:
    """The schema of an object. `insists`: the target takes no other words for that than `"type": "object"`."""
    if schema is None:
        return OPEN
    found = loose(schema)
    if not isinstance(found, dict):
        return {"type": "object"} if insists else schema
    if insists:
        return schema if found.get("type") == "object" else {**found, "type": "object"}
    return schema if "type" in found or any(name in found for name in _ELSEWHERE) else {"type": "object", **found}


def is_strict(schema: Raw) -> bool:
    """Whether OpenAI takes the schema as a strict one: each object names all its properties as required, and allows no
    others.
    """
    unread = [loose(schema)]
    while unread:
        value = unread.pop()
        if isinstance(value, list):
            unread += value
        elif isinstance(value, dict):
            if not _is_closed(value):
                return False
            unread += value.values()
    return True


def _is_closed(schema: dict[str, Any]) -> bool:
    properties, required = schema.get("properties"), schema.get("required")
    if schema.get("type") != "object" and not isinstance(properties, dict):
        return True
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    wanted = set(properties) if isinstance(properties, dict) else set()
    return schema.get("additionalProperties") is False and wanted <= set(names)


def strict_of(format: AnswerFormat, client: Dialect, traits: Capabilities, losses: Losses) -> bool | None:
    """`strict` as OpenAI has it. What the client's dialect always does is asked for, if the schema allows it."""
    if not client.spec.fits_schema or format.schema is None or traits.local or is_strict(format.schema):
        return format.strict
    losses.add("strict_schema")
    return None
