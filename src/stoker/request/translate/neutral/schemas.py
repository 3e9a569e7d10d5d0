"""JSON schemas of tools' arguments: kept byte for byte, unless the target wants what they do not say."""

from __future__ import annotations

from typing import Any

from stoker.domain.dialect import OLLAMA, Dialect
from stoker.domain.prompt import AnswerFormat
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, loose

OPEN = Raw(b'{"type":"object","properties":{}}')
"""Of a tool whose client gave none."""
INPUT = Raw(b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}')
"""Of a function that stands for a tool which takes any text."""
HOLDS_ALWAYS = frozenset((Dialect.MESSAGES, *OLLAMA))
"""Dialects whose answers always fit the schema that is asked for."""
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
    return _is_strict(loose(schema))


def _is_strict(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_strict, value))
    if not isinstance(value, dict):
        return True
    properties = value.get("properties")
    if value.get("type") == "object" or isinstance(properties, dict):
        required = value.get("required")
        names = set(properties) if isinstance(properties, dict) else set()
        if value.get("additionalProperties") is not False or names - set(
            required if isinstance(required, list) else ()
        ):
            return False
    return all(map(_is_strict, value.values()))


def strict_of(format: AnswerFormat, client: Dialect, traits: Capabilities, losses: Losses) -> bool | None:
    """`strict` as OpenAI has it. What the client's dialect always does is asked for, if the schema allows it."""
    if client not in HOLDS_ALWAYS or format.schema is None or traits.local or is_strict(format.schema):
        return format.strict
    losses.add("strict_schema")
    return None
