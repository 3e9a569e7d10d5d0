"""A schema is checked after draft 2020-12, and what is not known is never a no."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from stoker_content.verify.schema import MAX_SCHEMA, RULES, STEPS, Fitting, Schema

N = {"type": "integer"}
S = {"type": "string"}
LIKE_A = {"pattern": "^a"}


def fit(schema: Any, value: Any) -> bool | None:
    return Schema(msgspec.json.encode(schema)).fits(value).fit


# keyword, schema, values that fit, values that do not, values of which it is not known
TABLE: list[tuple[str, Any, list[Any], list[Any], list[Any]]] = [
    ("type", {"type": "object"}, [{}], [[], None, ""], []),
    ("type", {"type": ["string", "null"]}, ["", None], [0, False], []),
    ("type", {"type": "integer"}, [1, 1.0, -0.0], [1.5, True, "1"], []),
    ("type", {"type": "number"}, [1, 1.5], [True, None], []),
    ("type", {"type": "boolean"}, [True], [1, 0], []),
    ("type", {"type": "array"}, [[]], [{}], []),
    ("type", {"type": "string", "nullable": True}, ["a"], [1], [None]),
    ("type", {"type": "any"}, [], [], [1]),
    ("type", {"type": 7}, [], [], [1]),
    ("enum", {"enum": [1, [True], {"k": 1}, None]}, [1.0, [True], {"k": 1.0}, None], [True, [1], {"k": "1"}], []),
    ("enum", {"enum": 7}, [], [], [7]),
    ("const", {"const": {"a": [1, 2]}}, [{"a": [1, 2]}], [{"a": [2, 1]}, 0], []),
    ("const", {"const": False}, [False], [0], []),
    ("required", {"required": ["a"]}, [{"a": None}, "text"], [{}], []),
    ("required", {"required": "a"}, [], [], [{}]),
    ("required", {"required": [1]}, [], [], [{}]),
    ("properties", {"properties": {"a": N}}, [{"a": 1}, {"b": ""}, 7], [{"a": ""}], []),
    ("properties", {"properties": 7}, [], [], [{}]),
    ("additionalProperties", {"properties": {"a": N}, "additionalProperties": False}, [{"a": 1}, 7], [{"b": 1}], []),
    ("additionalProperties", {"additionalProperties": N}, [{"b": 1}], [{"b": ""}], []),
    ("additionalProperties", {"additionalProperties": True}, [{"b": 1}], [], []),
    ("additionalProperties", {"additionalProperties": False, "patternProperties": {"^x": {}}}, [{}], [], [{"x": 1}]),
    ("additionalProperties", {"additionalProperties": False, "properties": []}, [], [], [{"x": 1}]),
    ("propertyNames", {"propertyNames": {"maxLength": 1}}, [{"a": 1}, 7], [{"ab": 1}], []),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, [{}, {"a": 1, "b": 1}, 7], [{"a": 1}], []),
    ("dependentRequired", {"dependentRequired": {"a": "b"}}, [], [], [{}]),
    ("dependentSchemas", {"dependentSchemas": {"a": {"required": ["b"]}}}, [{}, 7], [{"a": 1}], []),
    ("dependentSchemas", {"dependentSchemas": 7}, [], [], [{}]),
    ("minProperties", {"minProperties": 1}, [{"a": 1}, []], [{}], []),
    ("maxProperties", {"maxProperties": 1}, [{}], [{"a": 1, "b": 1}], []),
    ("items", {"items": N}, [[1], [], {}], [["a"]], []),
    ("items", {"items": [N]}, [], [], [["a"]]),
    ("items", {"prefixItems": [S], "items": N}, [["a", 1]], [["a", "b"]], []),
    ("prefixItems", {"prefixItems": [S]}, [["a", 1], [], 7], [[1]], []),
    ("prefixItems", {"prefixItems": 7}, [], [], [[1]]),
    ("items", {"prefixItems": 7, "items": N}, [], [], [[1]]),
    ("contains", {"contains": N}, [["a", 1], 7], [[], ["a"]], []),
    ("contains", {"contains": N, "minContains": 2, "maxContains": 3}, [[1, 2]], [[1], [1, 2, 3, 4]], []),
    ("contains", {"contains": N, "minContains": 0}, [[]], [], []),
    ("contains", {"contains": LIKE_A, "maxContains": 1}, [], [[1, 2]], [["a"]]),
    ("contains", {"contains": N, "minContains": "1"}, [], [], [[1]]),
    ("uniqueItems", {"uniqueItems": True}, [[1, True, "1"], [[1], [2]], 7], [[1, 1.0], [{"a": 1}, {"a": 1}]], []),
    ("uniqueItems", {"uniqueItems": False}, [[1, 1]], [], []),
    ("uniqueItems", {"uniqueItems": 7}, [], [], [[1]]),
    ("minItems", {"minItems": 1}, [[1], ""], [[]], []),
    ("maxItems", {"maxItems": 1}, [[]], [[1, 2]], []),
    ("minLength", {"minLength": 2}, ["ab", "日本", []], ["a"], []),
    ("maxLength", {"maxLength": 1}, ["a", "日"], ["ab"], []),
    ("maxLength", {"maxLength": "1"}, [], [], ["ab"]),
    ("minimum", {"minimum": 1}, [1, 2.5, "0"], [0, 0.5], []),
    ("maximum", {"maximum": 1}, [1], [2], []),
    ("exclusiveMinimum", {"exclusiveMinimum": 1}, [2, True], [1], []),
    ("exclusiveMaximum", {"exclusiveMaximum": 1}, [0], [1], []),
    ("exclusiveMinimum", {"minimum": 1, "exclusiveMinimum": True}, [], [0], [1]),
    ("multipleOf", {"multipleOf": 3}, [9, "x"], [10], [9.0]),
    ("multipleOf", {"multipleOf": 0.1}, [], [], [0.3, 1]),
    ("multipleOf", {"multipleOf": 0}, [], [], [1]),
    ("allOf", {"allOf": [N, {"minimum": 1}]}, [1], [0, "a"], []),
    ("allOf", {"allOf": 7}, [], [], [1]),
    ("anyOf", {"anyOf": [N, S]}, [1, "a"], [None], []),
    ("anyOf", {"anyOf": [N, LIKE_A]}, [1], [], ["a"]),
    ("anyOf", {"anyOf": []}, [], [], [1]),
    ("oneOf", {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}], [{}, {"a": 1, "b": 1}], []),
    ("oneOf", {"oneOf": [S, LIKE_A]}, [], [], ["b"]),
    ("oneOf", {"oneOf": 7}, [], [], [1]),
    ("not", {"not": N}, ["a"], [1], []),
    ("not", {"not": LIKE_A}, [], [1], ["b"]),
    ("if", {"if": N, "then": {"minimum": 1}, "else": {"minLength": 1}}, [1, "a"], [0, ""], []),
    ("if", {"if": N}, [1, "a"], [], []),
    ("if", {"if": LIKE_A, "then": S, "else": N}, [], [], ["a"]),
    ("if", {"if": LIKE_A, "then": False, "else": False}, [], ["a", 1], []),
    ("$ref", {"$ref": "#/$defs/a", "$defs": {"a": N}}, [1], ["a"], []),
    ("$ref", {"$ref": "#/$defs/a~1b~0/1", "$defs": {"a/b~": [S, N]}}, [1], ["a"], []),
    ("$ref", {"properties": {"a": {"$ref": "#"}}, "required": ["n"]}, [{"n": 1}], [{"n": 1, "a": {}}], []),
    ("$ref", {"$ref": "https://example.org/schema"}, [], [], [1]),
    ("$ref", {"$ref": "#anchor"}, [], [], [1]),
    ("$ref", {"$ref": "#/a%20b", "a b": N}, [], [], [1]),
    ("$ref", {"$ref": "#/nowhere"}, [], [], [1]),
    ("$ref", {"$ref": "#/maximum/x", "maximum": 3}, [], [], [1]),
    ("$ref", {"$ref": 7}, [], [], [1]),
    ("$ref", {"$ref": "#/$defs/a", "minimum": 5, "$defs": {"a": N}}, [5], ["a"], [1]),
    ("$ref", {"$id": "x", "$ref": "#/$defs/a", "$defs": {"a": {"$id": "y"}}}, [], [], [1]),
    ("$dynamicRef", {"$dynamicRef": "#a"}, [], [], [1]),
    ("$recursiveRef", {"$recursiveRef": "#"}, [], [], [1]),
    ("pattern", {"pattern": "(a+)+$"}, [1], [], ["a"]),
    ("format", {"format": "date"}, [1], [], ["x"]),
    ("patternProperties", {"patternProperties": {"^a": False}}, [1], [], [{"a": 1}]),
    ("unevaluatedProperties", {"unevaluatedProperties": False}, [1], [], [{"a": 1}]),
    ("unevaluatedItems", {"unevaluatedItems": False}, [1], [], [[1]]),
    ("dependencies", {"dependencies": {"a": ["b"]}}, [1], [], [{"a": 1}]),
    ("additionalItems", {"additionalItems": False}, [1], [], [[1]]),
    ("", True, [1], [], []),
    ("", False, [], [1], []),
    ("", 7, [], [], [1]),
    ("", {"title": "x", "x-unknown": 7}, [1], [], []),
]  # fmt: skip


@pytest.mark.parametrize(("keyword", "schema", "right", "wrong", "unknown"), TABLE)
def test_a_keyword_says_yes_no_or_not_known(
    keyword: str, schema: Any, right: list[Any], wrong: list[Any], unknown: list[Any]
) -> None:
    seen = [[fit(schema, value) for value in values] for values in (right, wrong, unknown)]
    assert seen == [[True] * len(right), [False] * len(wrong), [None] * len(unknown)]


def test_every_keyword_has_its_line() -> None:
    assert {line[0] for line in TABLE if line[0]} == set(RULES)


def test_what_was_not_checked_is_named_where_it_stands() -> None:
    schema = {"properties": {"a": {"pattern": "x"}, "b": {"format": "date"}}}
    assert Schema(msgspec.json.encode(schema)).fits({"a": "a", "b": "b"}) == Fitting(None, ("format", "pattern"))


def test_a_schema_is_read_once_and_up_to_a_bound() -> None:
    schema = Schema(b'{"required":["a", 7]}')
    assert (schema.required(), schema.required()) == (("a",), ("a",))
    assert Schema(b'{"required":7}').required() == ()
    assert Schema(b'{"title":"' + b"x" * MAX_SCHEMA + b'"}').fits(1) == Fitting(None, ("schema",))
    assert Schema(b'"\xff"').fits(1) == Fitting(None, ("schema",))


TWICE = {"anyOf": [{"items": {"$ref": "#"}, "type": "array"}, {"items": {"$ref": "#"}, "minItems": 1, "type": "array"}]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, 1),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
        ({"items": {"enum": [list(range(1000))]}}, [1] * STEPS),
        (TWICE, [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]),
        ({"items": {"$ref": "#/" + "a/" * 100}}, [1] * STEPS),
    ],
)
def test_a_schema_that_never_ends_is_left_in_time(schema: Any, value: Any) -> None:
    began = time.process_time()
    assert fit(schema, value) is None
    assert time.process_time() - began < 2
