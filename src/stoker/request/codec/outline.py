"""What routing looks at of a request: the last user text and the outward signs, in any dialect. Pure.

The body was proved to be JSON by `peek`, so nothing here fails: what is not where a dialect has it is not seen. Costs
one pass over the body; only the turns that matter are read in full.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.task import MAX_SYSTEM_WORDS, MAX_TEXT, Outline

_ABSENT = msgspec.Raw(b"")
_any = msgspec.json.Decoder(strict=False)
_REMINDER = "<system-reminder>"
"""Text with which an agent's harness talks to the model in the user's name."""
_FORCED = ("required", "any", "tool", "function", "custom")
_SYSTEMS = ("system", "developer")
_RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")
_IMAGES = ("image", "image_url", "input_image")
_TEXTS = ("text", "input_text", "output_text")


class _Turn(msgspec.Struct):
    role: Any = ""
    type: Any = ""
    content: msgspec.Raw = _ABSENT


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
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class Said(msgspec.Struct):
    """One turn's content: its texts, and what else is in it."""

    texts: list[str] = []
    images: int = 0
    results: int = 0


def outline(dialect: Dialect, body: bytes) -> tuple[Outline, str | None]:
    """What is to be seen, and the class that the body declares (`metadata.stoker_class`). Never raises."""
    try:
        top = _body.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Outline(size=len(body)), None
    turns = _turns_of(top)
    last = next((turn for turn in reversed(turns) if turn.role == "user" and _is_spoken(turn)), None)
    said = _said(last.content) if last is not None else _said(_plain(top))
    systems = [text for turn in turns if turn.role in _SYSTEMS for text in _said(turn.content).texts]
    systems += _said(top.system).texts
    if isinstance(top.instructions, str):
        systems.append(top.instructions)
    declared = top.metadata.get("stoker_class") if isinstance(top.metadata, dict) else None
    seen = Outline(
        text=_cut("\n".join(text for text in said.texts if not text.lstrip().startswith(_REMINDER))),
        systems=tuple(text for text in systems if _is_short(text)),
        size=len(body),
        turns=sum(turn.role == "user" for turn in turns) or 1,
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
        if bytes(raw)[:1] == b"[":
            try:
                return _turns.decode(raw)
            except msgspec.DecodeError:
                return []
    return []


def _plain(top: _Body) -> msgspec.Raw:
    """A prompt that is only text."""
    return top.input if top.input else top.prompt


def _is_spoken(turn: _Turn) -> bool:
    """Whether the user says something in it, and does not only bring results."""
    return not _is_only_results(_said(turn.content))


def _is_only_results(said: Said) -> bool:
    return not said.texts and not said.images


def _brings_results(turn: _Turn) -> bool:
    return turn.role == "tool" or turn.type in _RESULTS or (turn.role == "user" and _said(turn.content).results > 0)


def _said(raw: msgspec.Raw) -> Said:
    """Text, or a list of parts; anything else says nothing."""
    said = Said(texts=[])
    head = bytes(raw)[:1]
    if head == b'"':
        said.texts.append(_decoded(raw))
    elif head == b"[":
        for part in _raws.decode(raw):
            value = _decoded(part) if _may_tell(bytes(part)) else None
            if isinstance(value, str):
                said.texts.append(value)
            elif isinstance(value, dict):
                _look(value, said)
    return said


def _may_tell(part: bytes) -> bool:
    """Images and results may be long, and are only counted: their own key shows in their first bytes or their last."""
    return len(part) <= 4 * MAX_TEXT or b'"text"' in part[:200] or b'"text"' in part[-200:] or b'"image' in part[:200]


def _look(part: dict[str, Any], said: Said) -> None:
    kind = part.get("type")
    if kind in _TEXTS and isinstance(part.get("text"), str):
        said.texts.append(part["text"])
    said.images += kind in _IMAGES
    said.results += kind in _RESULTS


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return _any.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _cut(text: str) -> str:
    """The beginning and the end: a task stands at either, pasted files between them."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"


def _is_short(text: str) -> bool:
    return len(text) <= 20 * MAX_SYSTEM_WORDS and len(text.split()) <= MAX_SYSTEM_WORDS


def _count(raw: msgspec.Raw) -> int:
    try:
        return len(_raws.decode(raw)) if raw else 0
    except msgspec.DecodeError:
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
