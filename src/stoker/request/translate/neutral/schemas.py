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
    if client not in HOLDS_ALWAYS or format.schema is None or traits.local or is_strict(format.schema):
        return format.strict
    losses.add("strict_schema")
    return None
