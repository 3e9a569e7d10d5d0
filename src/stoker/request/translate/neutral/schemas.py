"""JSON schemas of tools' arguments: kept byte for byte, unless the target wants what they do not say."""

from __future__ import annotations

from typing import Any

from stoker.request.translate.neutral.json_text import Raw, loose

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
