"""JSON schemas as clients write them (draft 2020-12). Does a value keep to one? Yes, no, or not known; only a proved no
is a no.

Three values (Kleene's logic): what is not checked here counts as unknown, so that `not`, `oneOf` and `if` over it are
unknown too. A validator that just skipped those keywords would call right values wrong. Not checked, and noted:

patterns        `pattern`, `patternProperties`, `format`: a schema's regular expression may never end
references      to elsewhere, to anchors, or in a schema that renames its parts
late keywords   `unevaluated…`, `$dynamicRef`, and those of old drafts
nonsense        a keyword whose own value is not what the draft says
too much        after STEPS looks at keywords and values the rest is unknown

Source of the rules: JSON Schema Core and Validation, draft 2020-12.

A schema is read when it is first needed, bounded, and never an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, NoReturn

import msgspec

_decode = msgspec.json.decode
LONG_NUMBER = 400
"""Digits beyond which an integer is read as a float: Python refuses to read very long ones."""


class InvalidJson(Enum):
    """Why there is no value."""

    SYNTAX = "syntax"
    DEPTH = "depth"
    """Nested more deeply than a parser can follow: about a thousand levels."""


def read_json(text: str) -> Any:
    """The value, or an `InvalidJson`. Linear in the text; raises nothing."""
    try:
        return _decode(text)
    except RecursionError:
        return InvalidJson.DEPTH
    except (msgspec.MsgspecError, UnicodeError):
        pass
    try:  # half surrogates and very long numbers are JSON all the same
        return json.loads(text, parse_constant=_refuse, parse_int=_integer)
    except RecursionError:
        return InvalidJson.DEPTH
    except ValueError:
        return InvalidJson.SYNTAX


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are Python's, not JSON's


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < LONG_NUMBER else float(digits)


STEPS = 60_000
"""Looks per value: some tens of milliseconds at the most."""

Fit = bool | None
"""None: not known."""


class StepsExhausted(Exception):
    """The steps are used up."""


class SchemaCheck:
    __slots__ = ("_root", "has_renamed_parts", "steps", "unchecked")

    def __init__(self, root: Any, has_renamed_parts: bool) -> None:
        self._root = root
        self.has_renamed_parts = has_renamed_parts
        self.steps = STEPS
        self.unchecked: set[str] = set()

    def spend(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise StepsExhausted

    def at(self, schema: Any, value: Any) -> Fit:
        self.spend()
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            self.unchecked.add("schema")
            return None
        seen: Fit = True
        for keyword, want in schema.items():
            rule = RULES.get(keyword)
            if rule is None:
                continue  # an annotation
            self.spend()
            known = len(self.unchecked)
            fit = rule(self, want, value, schema)
            if fit is False and keyword != "$ref" and "$ref" in schema:
                fit = None  # until 2019 what stood beside a reference did not count
            if fit is False:
                return False
            if fit is None:
                seen = None
                if len(self.unchecked) == known:
                    self.unchecked.add(keyword)  # nothing within it was told instead
        return seen

    def target(self, reference: str) -> Any:
        """What a reference within the schema means (RFC 6901); raises LookupError."""
        if self.has_renamed_parts or (reference != "#" and not reference.startswith("#/")) or "%" in reference:
            raise LookupError
        found = self._root
        for part in reference.split("/")[1:]:
            self.spend()
            name = part.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) and name.isdecimal() else found[name]
        return found


def key(value: Any, look: SchemaCheck) -> Any:
    """A hashable key that is equal for equal JSON values: 1 and 1.0 are, 1 and true are not."""
    look.spend()
    if isinstance(value, bool):
        return ("true",) if value else ("false",)
    if isinstance(value, list):
        return ("list", *(key(item, look) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, key(item, look)) for name, item in value.items()))
    return value


def every(fits: list[Fit]) -> Fit:
    return False if False in fits else None if None in fits else True


def some(fits: list[Fit]) -> Fit:
    return True if True in fits else None if None in fits else False


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": is_number,
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
}


def _type(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    names = want if isinstance(want, list) else [want]
    if not all(isinstance(name, str) and name in TYPES for name in names):
        return None
    if any(TYPES[name](value) for name in names):
        return True
    return None if value is None and schema.get("nullable") is True else False  # OpenAPI 3.0's way to say null


def _enum(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, list):
        return None
    wanted = key(value, look)
    return any(key(item, look) == wanted for item in want)


def _const(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    return bool(key(want, look) == key(value, look))


def _required(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, list) or not all(isinstance(name, str) for name in want):
        return None
    look.spend(len(want))
    return not isinstance(value, dict) or all(name in value for name in want)


def _properties(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, dict):
        return None
    if not isinstance(value, dict):
        return True
    return every([look.at(want[name], item) for name, item in value.items() if name in want])


def _additional(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    known = schema.get("properties", {})
    if not isinstance(value, dict) or want is True:
        return True
    if not isinstance(known, dict):
        return None
    rest = [item for name, item in value.items() if name not in known]
    if rest and "patternProperties" in schema:
        return None
    return every([look.at(want, item) for item in rest])


def _names(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    return every([look.at(want, name) for name in value]) if isinstance(value, dict) else True


def _dependent(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, dict) or not all(isinstance(names, list) for names in want.values()):
        return None
    if not isinstance(value, dict):
        return True
    look.spend(sum(len(names) for names in want.values()))
    return all(other in value for name, names in want.items() if name in value for other in names)


def _dependent_schemas(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, dict):
        return None
    if not isinstance(value, dict):
        return True
    return every([look.at(part, value) for name, part in want.items() if name in value])


def _items(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    first = schema.get("prefixItems", [])
    if not isinstance(value, list):
        return True
    if isinstance(want, list) or not isinstance(first, list):
        return None  # before 2020 a list meant what `prefixItems` means now
    return every([look.at(want, item) for item in value[len(first) :]])


def _prefix_items(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, list):
        return None
    if not isinstance(value, list):
        return True
    return every([look.at(part, item) for part, item in zip(want, value, strict=False)])


def _contains(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if not isinstance(value, list):
        return True
    if not is_number(least) or not (most is None or is_number(most)):
        return None
    fits = [look.at(want, item) for item in value]
    sure, perhaps = fits.count(True), fits.count(None)
    if sure + perhaps < least or (most is not None and sure > most):
        return False
    return True if sure >= least and (most is None or sure + perhaps <= most) else None


def _unique(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, bool):
        return None
    return not want or not isinstance(value, list) or len({key(item, look) for item in value}) == len(value)


def _all_of(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    return every([look.at(part, value) for part in want]) if isinstance(want, list) else None


def _any_of(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    return some([look.at(part, value) for part in want]) if isinstance(want, list) and want else None


def _one_of(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not isinstance(want, list) or not want:
        return None
    fits = [look.at(part, value) for part in want]
    if fits.count(True) > 1 or (True not in fits and None not in fits):
        return False
    return True if None not in fits else None


def _not(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    fit = look.at(want, value)
    return None if fit is None else not fit


def _if(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    holds = look.at(want, value)
    if holds is not None:
        return look.at(schema.get("then" if holds else "else", True), value)
    both = {look.at(schema.get(name, True), value) for name in ("then", "else")}
    return both.pop() if len(both) == 1 else None


def _ref(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    try:
        return look.at(look.target(want), value) if isinstance(want, str) else None
    except (LookupError, TypeError):
        return None


def _size(of: type[Any], fits: Callable[[int, Any], bool]) -> Rule:
    def rule(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
        return None if not is_number(want) else not isinstance(value, of) or fits(len(value), want)

    return rule


def _bound(fits: Callable[[Any, Any], bool]) -> Rule:
    def rule(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
        return None if not is_number(want) else not is_number(value) or fits(value, want)

    return rule


def _multiple(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
    if not is_number(value):
        return True
    whole = isinstance(value, int) and isinstance(want, int) and not isinstance(want, bool) and want > 0
    return value % want == 0 if whole else None  # fractions do not divide exactly in binary


def _unchecked(of: type) -> Rule:
    """A keyword that is not checked, and says nothing of values of other types, nor of an empty object or list."""

    def rule(look: SchemaCheck, want: Any, value: Any, schema: dict[str, Any]) -> Fit:
        return None if isinstance(value, of) and (value or of not in (dict, list)) else True

    return rule


Rule = Callable[[SchemaCheck, Any, Any, dict[str, Any]], Fit]
RULES: Mapping[str, Rule] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "dependentRequired": _dependent,
    "dependentSchemas": _dependent_schemas,
    "minProperties": _size(dict, lambda size, want: size >= want),
    "maxProperties": _size(dict, lambda size, want: size <= want),
    "items": _items,
    "prefixItems": _prefix_items,
    "contains": _contains,
    "uniqueItems": _unique,
    "minItems": _size(list, lambda size, want: size >= want),
    "maxItems": _size(list, lambda size, want: size <= want),
    "minLength": _size(str, lambda size, want: size >= want),
    "maxLength": _size(str, lambda size, want: size <= want),
    "minimum": _bound(lambda value, want: value >= want),
    "maximum": _bound(lambda value, want: value <= want),
    "exclusiveMinimum": _bound(lambda value, want: value > want),
    "exclusiveMaximum": _bound(lambda value, want: value < want),
    "multipleOf": _multiple,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "$ref": _ref,
    "$dynamicRef": _unchecked(object),
    "$recursiveRef": _unchecked(object),
    "pattern": _unchecked(str),
    "format": _unchecked(str),
    "patternProperties": _unchecked(dict),
    "unevaluatedProperties": _unchecked(dict),
    "dependencies": _unchecked(dict),
    "unevaluatedItems": _unchecked(list),
    "additionalItems": _unchecked(list),
}
"""Every keyword that asserts something; all others are annotations, or belong to one of these."""


MAX_SCHEMA = 256 * 1024
"""Bytes of a schema's text; longer ones are not checked."""


class Fitting(NamedTuple):
    """`unchecked`: keywords that were met and could not be checked, in alphabetical order."""

    fit: Fit
    unchecked: tuple[str, ...] = ()


class Schema:
    """One schema, read when it is first needed."""

    __slots__ = ("_is_renamed", "_read", "_text", "_value")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._read = False
        self._value: Any = None
        self._is_renamed = False

    def value(self) -> Any:
        """The schema itself; a `InvalidJson` if it is too long or no JSON."""
        if not self._read:
            self._read = True
            self._is_renamed = self._text.count(b'"$id"') > 1
            try:
                self._value = read_json(self._text.decode()) if len(self._text) <= MAX_SCHEMA else InvalidJson.DEPTH
            except UnicodeDecodeError:
                self._value = InvalidJson.SYNTAX
            self._text = b""
        return self._value

    def required(self) -> tuple[str, ...]:
        """Keys that every object must have, as far as the schema says so at its top."""
        found = self.value()
        keys = found.get("required") if isinstance(found, dict) else None
        return tuple(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else ()

    def fits(self, value: Any) -> Fitting:
        """Raises nothing, and takes at most STEPS steps."""
        found = self.value()
        if isinstance(found, InvalidJson):
            return Fitting(None, ("schema",))
        look = SchemaCheck(found, self._is_renamed)
        try:
            fit = look.at(found, value)
        except (StepsExhausted, RecursionError):
            return Fitting(None, tuple(sorted({*look.unchecked, "size"})))
        return Fitting(fit, tuple(sorted(look.unchecked)))


def schema_of(raw: msgspec.Raw | None) -> Schema | None:
    return None if raw is None or bytes(raw) in (b"", b"null") else Schema(bytes(raw))
