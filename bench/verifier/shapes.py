"""Random JSON schemas as tools have them, and values that keep to them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from bench.verifier.phrases import SENTENCES, WORDS

TEXTS = tuple(text for texts in SENTENCES.values() for text in texts)


def schema(rng: Random, depth: int = 0) -> dict[str, Any]:
    """Of an object with one to five properties, at least one of them required."""
    names = rng.sample(WORDS, rng.randint(1, 5))
    required = rng.sample(names, rng.randint(1, len(names)))
    found: dict[str, Any] = {
        "type": "object",
        "properties": {name: _property(rng, depth) for name in names},
        "required": required,
    }
    if rng.random() < 0.6:
        found["additionalProperties"] = False
    if depth == 0 and rng.random() < 0.2:
        found["$defs"] = {"part": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
        found["properties"][names[0]] = {"$ref": "#/$defs/part"}
    if depth == 0 and rng.random() < 0.3:
        found["$schema"] = "http://json-schema.org/draft-07/schema#"
    return found


def value(rng: Random, of: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """A value that keeps to a schema that `schema` made."""
    root = root or of
    if "$ref" in of:
        return {"n": rng.randint(0, 99)}
    if "enum" in of:
        return rng.choice(of["enum"])
    if "anyOf" in of:
        return value(rng, rng.choice(of["anyOf"]), root)
    return _VALUES[of["type"]](rng, of, root)


def _property(rng: Random, depth: int) -> dict[str, Any]:
    kinds = list(_PROPERTIES) if depth < 2 else list(_PROPERTIES)[:-2]
    found = _PROPERTIES[rng.choice(kinds)](rng, depth)
    return found | {"description": rng.choice(TEXTS)} if rng.random() < 0.5 else found


_PROPERTIES: dict[str, Callable[[Random, int], dict[str, Any]]] = {
    "string": lambda rng, depth: {"type": "string"},
    "short": lambda rng, depth: {"type": "string", "minLength": 1, "maxLength": 400},
    "patterned": lambda rng, depth: {"type": "string", "pattern": "^(.+)+$"},
    "integer": lambda rng, depth: {"type": "integer", "minimum": 0},
    "number": lambda rng, depth: {"type": "number"},
    "boolean": lambda rng, depth: {"type": "boolean", "default": False},
    "enum": lambda rng, depth: {"type": "string", "enum": rng.sample(WORDS, 3)},
    "nullable": lambda rng, depth: {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "array": lambda rng, depth: {"type": "array", "items": _property(rng, depth + 1), "minItems": 0},
    "object": lambda rng, depth: schema(rng, depth + 1),
}


def _object(rng: Random, of: dict[str, Any], root: dict[str, Any]) -> Any:
    properties = of["properties"]
    kept = [name for name in properties if name in of["required"] or rng.random() < 0.5]
    return {name: value(rng, properties[name], root) for name in kept}


_VALUES: dict[str, Callable[[Random, dict[str, Any], dict[str, Any]], Any]] = {
    "object": _object,
    "array": lambda rng, of, root: [value(rng, of["items"], root) for _ in range(rng.randint(0, 4))],
    "string": lambda rng, of, root: rng.choice(TEXTS)[:400],
    "integer": lambda rng, of, root: rng.choice((0, 1, 7, 4096, rng.randint(0, 10**9))),
    "number": lambda rng, of, root: rng.choice((0, 1, -2.5, 3.0, 1e-9, rng.random())),
    "boolean": lambda rng, of, root: rng.random() < 0.5,
    "null": lambda rng, of, root: None,
}
