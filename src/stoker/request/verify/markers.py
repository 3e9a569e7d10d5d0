"""Markers of chat templates that have no place in an answer.

Sources: the templates of ChatML (Qwen), Llama 2 and 3, Mistral, Gemma, Phi, DeepSeek, GLM, gpt-oss (harmony). A marker
is proved to be leaked only where a template would put it: at the begin or the end of a line, outside of code, and if
the request does not speak of it. Elsewhere the answer may be about templates.
"""

from __future__ import annotations

import re

SPECIAL = (
    r"<\|(?:im_start|im_end|im_sep|endoftext|end_of_text|begin_of_text|start_header_id|end_header_id|eot_id|eom_id"
    r"|python_tag|user|assistant|system|observation|end|start|message|channel|return|call|constrain|fim_[a-z]+)\|>"
)
"""Tokens that no text has."""
TAGS = r"<(?:start_of_turn|end_of_turn)>|</?(?:think|tool_call|tool_response|tool_calls)>|<｜[^｜\n]{1,40}｜>"
SQUARE = r"\[/?(?:INST|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|SYSTEM_PROMPT)\]|<</?SYS>>"
MARKER = re.compile(f"{SPECIAL}|{TAGS}|{SQUARE}")
_FIRST = re.compile(r"<[|｜/<a-z]|\[/?[A-Z]")
_INLINE_CODE = re.compile(r"`[^`]*`")
MAX_INDENT = 3
"""Blanks; more make a block of code (CommonMark)."""


def markers_in(line: str) -> list[tuple[str, bool]]:
    """The markers in a line of prose, and whether each stands where a template would put it. Linear."""
    if _FIRST.search(line) is None:
        return []
    prose = _INLINE_CODE.sub("``", line)
    text = prose.strip()
    is_code = len(prose) - len(prose.lstrip()) > MAX_INDENT
    start, end = len(prose) - len(prose.lstrip()), len(prose.rstrip())
    return [
        (found[0], not is_code and bool(text) and (found.start() == start or found.end() == end))
        for found in MARKER.finditer(prose)
    ]
