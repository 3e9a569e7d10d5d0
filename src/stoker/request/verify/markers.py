"""Markers of chat templates that have no place in an answer.

Sources: the templates of ChatML (Qwen), Llama 2 and 3, Mistral, Gemma, Phi, DeepSeek, GLM, gpt-oss (harmony). A marker
is proved to be leaked only outside of code, if the request does not hold it, and where a template would put it: at the
beginning or end of a line, or glued to the text before it. Inside a line, a marker that never occurs in ordinary text
is proof too, unless the request or the answer is about templates.
"""

from __future__ import annotations

import re
from enum import Enum

SPECIAL = (
    r"<\|(?:im_start|im_end|im_sep|endoftext|end_of_text|begin_of_text|start_header_id|end_header_id|eot_id|eom_id"
    r"|python_tag|user|assistant|system|observation|end|start|message|channel|return|call|constrain|fim_[a-z]+)\|>"
)
"""Tokens that never occur in ordinary text."""
TAGS = r"<(?:start_of_turn|end_of_turn)>|</?(?:think|tool_call|tool_response|tool_calls)>|<｜[^｜\n]{1,40}｜>"
SQUARE = r"\[/?(?:INST|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|SYSTEM_PROMPT)\]|<</?SYS>>"
_TAG = re.compile(TAGS)
MARKER = re.compile(f"{SPECIAL}|{TAGS}|{SQUARE}")
_FIRST = re.compile(r"<[|｜/<a-z]|\[/?[A-Z]")
_INLINE_CODE = re.compile(r"`[^`]*`")
MAX_INDENT = 3
"""Blanks; more make a block of code (CommonMark)."""
TOPICS = ("template", "special token", "ChatML", "chat format", "prompt format", "Llama", "Mistral", "Qwen", "Gemma")
"""A text that mentions one of these may contain markers."""


class MarkerPlace(Enum):
    TEMPLATE = "template"
    """Where a template would put it."""
    LINE = "line"
    """Within a line, and nobody writes it by chance."""
    OTHER = "other"


def markers_in(line: str) -> list[tuple[str, MarkerPlace]]:
    """The markers in a line of prose. Linear."""
    if _FIRST.search(line) is None:
        return []
    prose = _INLINE_CODE.sub("``", line).rstrip()
    start = len(prose) - len(prose.lstrip())
    if start > MAX_INDENT:
        return [(found[0], MarkerPlace.OTHER) for found in MARKER.finditer(prose)]
    return [(found[0], _place(prose, start, found)) for found in MARKER.finditer(prose)]


def _place(prose: str, start: int, found: re.Match[str]) -> MarkerPlace:
    is_glued = prose[found.start() - 1 : found.start()] not in ("", " ", "\t", "(", '"', "'", "*", "“", "«", "/", "`")
    if found.start() == start or found.end() == len(prose) or is_glued:
        return MarkerPlace.TEMPLATE
    return MarkerPlace.OTHER if _TAG.match(found[0]) else MarkerPlace.LINE
