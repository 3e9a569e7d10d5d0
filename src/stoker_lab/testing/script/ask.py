"""What a request asks for, and what its text overrides in the script."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

import orjson

from stoker.domain.dialect import Dialect

_MARK = re.compile(r"(?:^|\s)script:(?P<changes>[^\n]*)")


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One inference request, as far as the scripted server looks at it."""

    dialect: Dialect
    document: dict[str, Any]
    stream: bool
    include_usage: bool
    max_tokens: int | None

    def words(self) -> int:
        """The prompt's length in tokens: one per word of everything that a model would see."""
        seen = [text_of(self.document.get(name)) for name in ("system", "instructions", "prompt", "input", "query")]
        seen += [text_of(self.document.get(name)) for name in ("messages", "documents")]
        if tools := self.document.get("tools"):
            seen.append(orjson.dumps(tools).decode())
        return sum(len(text.split()) for text in seen)

    def overrides(self) -> dict[str, str]:
        """`script: key=value key="a b"` in the last user text. Raises ValueError if a part has no `=`."""
        marks = list(_MARK.finditer(last_user_text(self.document)))
        found: dict[str, str] = {}
        for part in shlex.split(marks[-1]["changes"]) if marks else ():
            name, equals, value = part.partition("=")
            if not equals:
                raise ValueError(f"{part!r} after script: - write key=value")
            found[name.replace("-", "_")] = value
        return found


def read_request(dialect: Dialect, body: bytes) -> ScriptedRequest:
    """Raises ValueError if the body is no JSON object."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("the body is not a JSON object")
    options = document.get("stream_options")
    limits = (document.get(name) for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"))
    return ScriptedRequest(
        dialect=dialect,
        document=document,
        stream=document.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        max_tokens=next((limit for limit in limits if type(limit) is int and limit >= 0), None),
    )


def text_of(content: object) -> str:
    """The text in a string, a content part, a message, or a list of these."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("content"))
    return ""


def last_user_text(document: dict[str, Any]) -> str:
    for name in ("messages", "input"):
        turns = document.get(name)
        if isinstance(turns, list):
            for turn in reversed(turns):
                if isinstance(turn, dict) and turn.get("role") == "user":
                    return text_of(turn.get("content"))
    return text_of(document.get("prompt") or document.get("input") or document.get("query"))
