"""The content of one turn: its texts, and how much else is in it. Pure, and never raises."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from stoker.domain.task import MAX_TEXT

_ABSENT = msgspec.Raw(b"")
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_text = msgspec.json.Decoder(str)
_RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")
_IMAGES = ("image", "image_url", "input_image")
_FILES = ("document", "file", "input_file", "container_upload")
_TEXTS = ("text", "input_text", "output_text")
_CLOSE = (MAX_TEXT, 3 * MAX_TEXT)
"""Bytes of JSON that usually hold MAX_TEXT / 2 characters; and bytes that always do, six for each character."""
_MOST_CUT = 1_024
"""Bytes among which a place to cut is searched."""
_SAFE = re.compile(rb"[ \xc0-\xff]")
"""A JSON string may be cut before such a byte: it is not inside an escape or a character."""


class _Part(msgspec.Struct, gc=False):
    """One part of a turn's content. Images and results may be long, and are only counted."""

    type: Any = ""
    text: msgspec.Raw = _ABSENT


class _Result(msgspec.Struct, gc=False):
    type: Any = ""
    content: msgspec.Raw = _ABSENT


_results = msgspec.json.Decoder(list[_Result])
_parts = msgspec.json.Decoder(list[_Part])
_part = msgspec.json.Decoder(_Part)
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class TurnContent(msgspec.Struct):
    """One turn's content: its texts, as JSON, and what else is in it."""

    texts: list[msgspec.Raw] = []
    images: int = 0
    files: int = 0
    results: int = 0


def turn_content(raw: msgspec.Raw) -> TurnContent:
    """Reads a text or a list of parts; anything else is empty content."""
    found = TurnContent(texts=[])
    head = first(raw)
    if head == b'"':
        found.texts.append(raw)
    elif head == b"[":
        try:
            parts = _parts.decode(raw)
        except _WRONG:
            return _mixed(raw)
        for part in parts:
            _look(part, found)
    return found


def results_of(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The contents of the tool results in a list of parts."""
    try:
        return [part.content for part in _results.decode(raw) if part.type in _RESULTS]
    except _WRONG:
        return []


def beginning(raw: msgspec.Raw, most: int) -> tuple[str, bool]:
    """The text of a JSON string, or its beginning of about `most` bytes; and whether it is whole."""
    if len(raw) <= most:
        return decoded(raw), True
    at = _SAFE.search(raw, most, most + _MOST_CUT)
    return (decoded(bytes(memoryview(raw)[: at.start()]) + b'"') if at is not None else ""), False


def ending(raw: msgspec.Raw, most: int) -> str:
    """The text of a JSON string, or its end of about `most` bytes."""
    if len(raw) <= most:
        return decoded(raw)
    size = len(raw)
    at = _SAFE.search(raw, size - most, size)
    return decoded(b'"' + bytes(memoryview(raw)[at.start() :])) if at is not None else ""


def first(raw: msgspec.Raw) -> bytes:
    """The first byte, which tells the kind of JSON value; empty if the field is missing."""
    return bytes(memoryview(raw)[:1])


def shortened_text(raw: msgspec.Raw) -> str:
    """The text. Of a very long one at least MAX_TEXT / 2 characters from either end, if that is cheaper to read: the
    text between them would be cut anyway.
    """
    size = len(raw)
    for close in _CLOSE:
        if size <= 4 * close:
            break
        head, tail = _SAFE.search(raw, close), _SAFE.search(raw, size - close)
        if head is None or tail is None or head.start() > tail.start():
            break
        view = memoryview(raw)
        begin = decoded(bytes(view[: head.start()]) + b'"')
        end = decoded(b'"' + bytes(view[tail.start() :]))
        if min(len(begin), len(end)) >= MAX_TEXT // 2 and begin.strip():
            return f"{begin}\n{end}"
    return decoded(raw)


def decoded(raw: msgspec.Raw | bytes) -> str:
    """The text of a JSON string; empty if it is not a valid string."""
    try:
        return _text.decode(raw)
    except _WRONG:
        return ""


def _mixed(raw: msgspec.Raw) -> TurnContent:
    """A list with entries that are not parts: a bare string counts as a text part."""
    found = TurnContent(texts=[])
    for each in _raws.decode(raw):
        head = first(each)
        if head == b'"':
            found.texts.append(each)
        elif head == b"{":
            with suppress(*_WRONG):
                _look(_part.decode(each), found)
    return found


def _look(part: _Part, found: TurnContent) -> None:
    if part.type in _TEXTS and first(part.text) == b'"':
        found.texts.append(part.text)
    found.images += part.type in _IMAGES
    found.files += part.type in _FILES
    found.results += part.type in _RESULTS
