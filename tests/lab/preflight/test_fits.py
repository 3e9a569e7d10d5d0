"""Values against the keywords of JSON Schema that the checks use."""

from __future__ import annotations

from typing import Any

import pytest

from stoker_lab.json_schema import schema_violation

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
DIGITS = {"type": "array", "items": {"type": "integer", "maximum": 9}, "minItems": 1, "maxItems": 2}


@pytest.mark.parametrize(
    ("value", "schema", "found"),
    [
        ({"name": "Ada", "age": 3}, PERSON, ""),
        ({"age": 3}, PERSON, "it has no name"),
        ({"name": "Ada", "size": 3}, PERSON, "it has size, which the schema forbids"),
        ({"name": "Magdalena"}, PERSON, "it.name is longer than 5"),
        ({"name": "Ada", "age": -1}, PERSON, "it.age is -1, which is out of bounds"),
        ({"name": "Ada", "age": True}, PERSON, "it.age is not of type integer"),
        ("Ada", PERSON, "it is not of type object"),
        ([1, 9], DIGITS, ""),
        ([], DIGITS, "it has 0 items"),
        ([1, 2, 3], DIGITS, "it has 3 items"),
        ([1, 10], DIGITS, "it[1] is 10, which is out of bounds"),
        ("red", {"enum": ["blue"]}, 'it is "red", which is not in the enum'),
        ("blue", {"enum": ["blue"]}, ""),
        (3, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, ""),
        (None, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "it matches none of anyOf"),
        (1.5, {"type": "number"}, ""),
        (True, {"type": "boolean"}, ""),
        (None, {"type": "null"}, ""),
        ({"free": 1}, {"type": "object"}, ""),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(value: Any, schema: dict[str, Any], found: str) -> None:
    assert schema_violation(value, schema) == found
