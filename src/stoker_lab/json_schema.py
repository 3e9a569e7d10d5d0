"""Does a value fit a JSON schema? The keywords that the checks use, checked strictly. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def schema_violation(value: Any, schema: Mapping[str, Any], at: str = "it") -> str:
    """Where and how it does not fit; empty: it fits."""
    if "anyOf" in schema:
        found = [schema_violation(value, one, at) for one in schema["anyOf"]]
        return "" if "" in found else f"{at} matches none of anyOf"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} is {json.dumps(value)[:40]}, which is not in the enum"
    kind = schema.get("type")
    if kind is not None:
        is_bool = isinstance(value, bool)
        if not isinstance(value, _TYPES[kind]) or (is_bool and kind != "boolean"):
            return f"{at} is not of type {kind}"
    if isinstance(value, dict):
        return _object(value, schema, at)
    if isinstance(value, list):
        return _array(value, schema, at)
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return f"{at} is longer than {schema['maxLength']}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{at} is {value}, which is out of bounds"
    return ""


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], at: str) -> str:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{at} has no {name}"
    for name, one in value.items():
        if name in known:
            if found := schema_violation(one, known[name], f"{at}.{name}"):
                return found
        elif schema.get("additionalProperties") is False:
            return f"{at} has {name}, which the schema forbids"
    return ""


def _array(value: list[Any], schema: Mapping[str, Any], at: str) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{at} has {len(value)} items"
    for index, one in enumerate(value):
        if found := schema_violation(one, schema.get("items", {}), f"{at}[{index}]"):
            return found
    return ""
