"""What routing looks at of a request: the last user text and the outward signs, in any dialect. Pure.

The body was proved to be JSON by `peek`, so nothing here fails: what is not where a dialect has it is not seen. Costs
two passes over the body that skip; of the turns that matter only texts are read, and of a long one its two ends.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.task import MAX_SYSTEM_WORDS, MAX_TEXT, Outline

_ABSENT = msgspec.Raw(b"")
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_text = msgspec.json.Decoder(str)
_REMINDER = "<system-reminder>"
"""Text with which an agent's harness talks to the model in the user's name."""
_FORCED = ("required", "any", "tool", "function", "custom")
_SYSTEMS = ("system", "developer")
_MOST_SYSTEM = 12 * 20 * MAX_SYSTEM_WORDS + 2
"""Bytes of JSON of a system prompt that may be short: a character takes twelve at most."""
_MOST_SYSTEMS = 4
_RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")
_IMAGES = ("image", "image_url", "input_image")
_TEXTS = ("text", "input_text", "output_text")


class _Turn(msgspec.Struct, gc=False):
    role: Any = ""
    type: Any = ""
    content: msgspec.Raw = _ABSENT


class _Part(msgspec.Struct, gc=False):
    """Of a turn's content. Images and results may be long, and are only counted."""

    type: Any = ""
    text: msgspec.Raw = _ABSENT


class _Body(msgspec.Struct):
    """The fields of all dialects that tell something."""

    messages: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    instructions: Any = None
    tools: msgspec.Raw = _ABSENT
    tool_choice: Any = None
    response_format: Any = None
    text: Any = None
    format: Any = None
    output_config: Any = None
    thinking: Any = None
    think: Any = None
    reasoning: Any = None
    reasoning_effort: Any = None
    metadata: Any = None


_body = msgspec.json.Decoder(_Body)
_turns = msgspec.json.Decoder(list[_Turn])
_parts = msgspec.json.Decoder(list[_Part])
_part = msgspec.json.Decoder(_Part)
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_CLOSE = (MAX_TEXT, 3 * MAX_TEXT)
"""Bytes of JSON that should hold MAX_TEXT / 2 characters, and if they do not: even where each is written in six."""
_SAFE = re.compile(rb"[ \xc0-\xff]")
"""Before such a byte a JSON string may be cut: neither an escape nor a character goes across."""


class Said(msgspec.Struct):
    """One turn's content: its texts, as JSON, and what else is in it."""

    texts: list[msgspec.Raw] = []
    images: int = 0
    results: int = 0


def outline(dialect: Dialect, body: bytes) -> tuple[Outline, str | None]:
    """What is to be seen, and the class that the body declares (`metadata.stoker_class`). Never raises."""
    try:
        top = _body.decode(body)
    except _WRONG:
        return Outline(size=len(body)), None
    turns = _turns_of(top)
    said = _last_said(turns) or _said(_plain(top))
    told = [*(turn.content for turn in turns if turn.role in _SYSTEMS), top.system]
    systems = [_decoded(text) for content in told for text in _said(content).texts if len(text) <= _MOST_SYSTEM]
    if isinstance(top.instructions, str):
        systems.append(top.instructions)
    declared = top.metadata.get("stoker_class") if isinstance(top.metadata, dict) else None
    seen = Outline(
        text=_cut("\n".join([text for text in map(_ends, said.texts) if not text.lstrip().startswith(_REMINDER)])),
        systems=tuple([text for text in systems if _is_short(text)][:_MOST_SYSTEMS]),
        size=len(body),
        turns=sum([turn.role == "user" for turn in turns]) or 1,
        tools=_count(top.tools),
        forces_tool=_forces(top.tool_choice),
        has_results=bool(turns) and _brings_results(turns[-1]),
        wants_json=_wants_json(top),
        images=said.images,
        wants_thinking=_wants_thinking(top),
    )
    return seen, declared if isinstance(declared, str) else None


def _turns_of(top: _Body) -> list[_Turn]:
    """Of chat and Messages, or of Responses where its input is a list."""
    for raw in (top.messages, top.input):
        if _first(raw) == b"[":
            try:
                return _turns.decode(raw)
            except _WRONG:
                return []
    return []


def _plain(top: _Body) -> msgspec.Raw:
    """A prompt that is only text."""
    return top.input if top.input else top.prompt


def _last_said(turns: list[_Turn]) -> Said | None:
    """Of the last turn in which the user says something, and does not only bring results."""
    for turn in reversed(turns):
        if turn.role == "user" and ((said := _said(turn.content)).texts or said.images):
            return said
    return None


def _brings_results(turn: _Turn) -> bool:
    return turn.role == "tool" or turn.type in _RESULTS or (turn.role == "user" and _said(turn.content).results > 0)


def _first(raw: msgspec.Raw) -> bytes:
    return bytes(memoryview(raw)[:1])


def _said(raw: msgspec.Raw) -> Said:
    """Text, or a list of parts; anything else says nothing."""
    said = Said(texts=[])
    head = _first(raw)
    if head == b'"':
        said.texts.append(raw)
    elif head == b"[":
        try:
            parts = _parts.decode(raw)
        except _WRONG:
            return _mixed(raw)
        for part in parts:
            _look(part, said)
    return said


def _mixed(raw: msgspec.Raw) -> Said:
    """A list of which not all are parts: a bare text counts as one."""
    said = Said(texts=[])
    for each in _raws.decode(raw):
        head = _first(each)
        if head == b'"':
            said.texts.append(each)
        elif head == b"{":
            with suppress(*_WRONG):
                _look(_part.decode(each), said)
    return said


def _look(part: _Part, said: Said) -> None:
    if part.type in _TEXTS and _first(part.text) == b'"':
        said.texts.append(part.text)
    said.images += part.type in _IMAGES
    said.results += part.type in _RESULTS


def _ends(raw: msgspec.Raw) -> str:
    """The text. Of a long one at least MAX_TEXT / 2 characters from either end, if that saves reading it: what is
    between them would be cut away.
    """
    size = len(raw)
    for close in _CLOSE:
        if size <= 4 * close:
            break
        head, tail = _SAFE.search(raw, close), _SAFE.search(raw, size - close)
        if head is None or tail is None or head.start() > tail.start():
            break
        view = memoryview(raw)
        begin = _decoded(bytes(view[: head.start()]) + b'"')
        end = _decoded(b'"' + bytes(view[tail.start() :]))
        if min(len(begin), len(end)) >= MAX_TEXT // 2 and len(begin.lstrip()) >= len(_REMINDER):
            return f"{begin}\n{end}"
    return _decoded(raw)


def _decoded(raw: msgspec.Raw | bytes) -> str:
    """Of a JSON string; empty where it is none after all."""
    try:
        return _text.decode(raw)
    except _WRONG:
        return ""


def _cut(text: str) -> str:
    """The beginning and the end: a task stands at either, pasted files between them."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"


def _is_short(text: str) -> bool:
    return len(text) <= 20 * MAX_SYSTEM_WORDS and len(text.split()) <= MAX_SYSTEM_WORDS


def _count(raw: msgspec.Raw) -> int:
    try:
        return len(_raws.decode(raw)) if raw else 0
    except _WRONG:
        return 0


def _forces(choice: object) -> bool:
    return (choice.get("type") if isinstance(choice, dict) else choice) in _FORCED


def _wants_json(top: _Body) -> bool:
    """1. chat  2. Responses  3. Messages  4. Ollama: `json` or a schema"""
    inner = top.text.get("format") if isinstance(top.text, dict) else None
    output = top.output_config.get("format") if isinstance(top.output_config, dict) else None
    kinds = (one.get("type") for one in (top.response_format, inner, output) if isinstance(one, dict))
    return any(kind in ("json_object", "json_schema") for kind in kinds) or bool(top.format)


def _wants_thinking(top: _Body) -> bool:
    effort = top.reasoning.get("effort") if isinstance(top.reasoning, dict) else top.reasoning_effort
    enabled = isinstance(top.thinking, dict) and top.thinking.get("type") in ("enabled", "adaptive")
    return enabled or top.think is True or effort in ("medium", "high", "xhigh", "max")
