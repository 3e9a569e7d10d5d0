"""Reads, shows and describes tables by their classes, so that a key of the file is said once: where its field stands.

A table is a msgspec Struct or a frozen dataclass, usually the very record that the program works with. Its fields with
a `domain.kinds.setting` are keys; the others are facts that the program adds. The type hints say the **kind** of each:

    value     one check with a form of its own: a size, a name, a word of several, a number between two others
    list      `[...]`, each item of one kind
    by name   a table whose keys are names
    table     another table; a list of them is `[[...]]`; a `Flat` one has its keys among those around it

and from the kinds everything that is said of the file elsewhere: `read` finds every problem in one pass, `show` gives
the values back as the file has them, `schema` is what editors check, `keys_at` is what may stand in a place.
msgspec's own decoder stops at the first problem, and knows no units; so its structs are used, and its decoder is not.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from stoker.domain.kinds import ByName, Flat, Form, OrText, Several, kind, one_of

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top: ("serve", 0, "aliases", 1)."""
Change = Callable[[Any, Form, KeyPath], Any]
"""What is to stand for a value with this form at this place; the value itself, if nothing changes."""
Report = Callable[[KeyPath, str], None]
"""Where a value is wrong, and what is wrong. The place is spoiled: it is read as if it were left out."""
Definitions = dict[str, dict[str, Any]]
"""The schemas of tables, by the names of their classes."""
Table = TypeVar("Table")
UNKNOWN = "unknown key"
NO_DEFAULT: Any = object()
WRONG: Any = object()
"""What is read where there was a problem."""


class Kind:
    """One kind of value: the base of all."""

    def read(self, value: object, path: KeyPath, report: Report) -> Any:
        """As the program has it; WRONG: the problems have been reported."""
        raise NotImplementedError

    def show(self, value: Any) -> Any:
        """As the file has it."""
        return value

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        raise NotImplementedError

    def changed(self, value: Any, path: KeyPath, change: Change) -> Any:
        """As `changed`, of one value."""
        return value

    def inside(self, part: str | int) -> Kind | None:
        """The kind of what is at this place within it; None: nothing is."""
        return None


@dataclass(frozen=True, slots=True)
class ValueKind(Kind):
    form: Form

    def read(self, value: object, path: KeyPath, report: Report) -> Any:
        try:
            return self.form.check(value)
        except ValueError as error:
            report(path, str(error))
            return WRONG

    def show(self, value: Any) -> Any:
        return self.form.show(value)

    def changed(self, value: Any, path: KeyPath, change: Change) -> Any:
        return change(value, self.form, path)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return dict(self.form.schema)


@dataclass(frozen=True, slots=True)
class OptionalKind(Kind):
    """None: the key is left out."""

    of: Kind

    def read(self, value: object, path: KeyPath, report: Report) -> Any:
        return self.of.read(value, path, report)

    def show(self, value: Any) -> Any:
        return None if value is None else self.of.show(value)

    def changed(self, value: Any, path: KeyPath, change: Change) -> Any:
        return None if value is None else self.of.changed(value, path, change)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return self.of.schema(definitions)

    def inside(self, part: str | int) -> Kind | None:
        return self.of.inside(part)


@dataclass(frozen=True, slots=True)
class ListKind(Kind):
    of: Kind
    make: Callable[[Iterable[Any]], Any]

    def read(self, value: object, path: KeyPath, report: Report) -> Any:
        if not isinstance(value, list):
            report(path, _no_list(path, kind(value)))
            return WRONG
        items = [self.of.read(item, (*path, index), report) for index, item in enumerate(value)]
        return WRONG if any(item is WRONG for item in items) else self.make(items)

    def show(self, value: Any) -> Any:
        items = [self.of.show(item) for item in value]
        return sorted(items) if self.make is frozenset else items

    def changed(self, value: Any, path: KeyPath, change: Change) -> Any:
        items = [self.of.changed(item, (*path, index), change) for index, item in enumerate(value)]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else self.make(items)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "array", "items": self.of.schema(definitions)}

    def inside(self, part: str | int) -> Kind | None:
        return self.of


def _no_list(path: KeyPath, given: str) -> str:
    if path in (("serve",), ("tier",)):
        return f"must be an array of tables, not {given}: write [[{path[0]}]] with double brackets"
    return f"must be a list in brackets, not {given}"


@dataclass(frozen=True, slots=True)
class ByNameKind(Kind):
    names: Kind
    of: Kind
    make: Callable[[dict[Any, Any]], Any] = dict

    @property
    def is_named(self) -> bool:
        """Whether the records themselves hold their names."""
        return (
            isinstance(self.of, TableKind)
            and "name" in _defaults(self.of.table)
            and "name" not in keys_of(self.of.table)
        )

    def read(self, value: object, path: KeyPath, report: Report) -> Any:
        if not isinstance(value, dict):
            report(path, f"must be a table, not {kind(value)}")
            return WRONG
        found = {}
        for name, item in list(value.items()):
            place = (*path, name)
            known = self.names.read(name, place, report)
            read = self.of.read(item, place, report, **({"name": name} if self.is_named else {}))
            if known is not WRONG and read is not WRONG:
                found[known] = read
        return self.make(found)

    def show(self, value: Any) -> Any:
        pairs = value.items() if isinstance(value, Mapping) else ((one.name, one) for one in value)
        return {name: self.of.show(item) for name, item in pairs}

    def changed(self, value: Any, path: KeyPath, change: Change) -> Any:
        if not isinstance(value, Mapping):
            return value
        items = {name: self.of.changed(item, (*path, name), change) for name, item in value.items()}
        return value if all(items[name] is item for name, item in value.items()) else items

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.of.schema(definitions)}

    def inside(self, part: str | int) -> Kind | None:
        return self.of


@dataclass(frozen=True, slots=True)
class TableKind(Kind):
    table: type
    or_text: str = ""
    """The key that text stands for; empty: text is no table."""

    def read(self, value: object, path: KeyPath, report: Report, **named: str) -> Any:
        if self.or_text and isinstance(value, str):
            value = {self.or_text: value}
        if not isinstance(value, dict):
            report(path, f"must be a table, not {kind(value)}")
            return WRONG
        keys = keys_of(self.table)
        found: dict[str, Any] = dict(_required(self.table))
        flat: dict[str, dict[str, Any]] = {field: {} for field in _flat_tables(self.table)}
        for name, item in list(value.items()):
            if name not in keys:
                report((*path, name), UNKNOWN)
                continue
            key = keys[name]
            read = key.kind.read(item, (*path, name), report)
            to = flat[key.group] if key.group else found
            if isinstance(read, Several):
                to |= {field: one for field, one in read.others.items() if field not in to}
                read = read.value
            if read is not WRONG:
                to[key.field] = read
        found |= {field: table(**flat[field]) for field, table in _flat_tables(self.table).items()}
        return self.table(**found | named)

    def show(self, value: Any) -> Any:
        return value if isinstance(value, Mapping) else show(value, self.table)

    def changed(self, value: Any, path: KeyPath, change: Change) -> Any:
        return changed(value, change, lambda name: (*path, name))

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        name = self.table.__name__
        if name not in definitions:
            definitions[name] = {}  # a table may hold itself
            definitions[name] = table_schema(self.table, definitions)
        reference = {"$ref": f"#/$defs/{name}"}
        return {"anyOf": [{"type": "string"}, reference]} if self.or_text else reference

    def inside(self, part: str | int) -> Kind | None:
        found = keys_of(self.table).get(str(part))
        return None if found is None else found.kind


class Key(NamedTuple):
    """One key of a table."""

    field: str
    """What the program calls it."""
    kind: Kind
    meaning: str
    default: Any
    is_derived: bool
    """Left out, it follows from other keys: the default is only a placeholder."""
    is_quiet: bool
    """Not shown as long as it is the default."""
    is_in_place: bool = False
    """A reload changes it without a restart of the serve."""
    unused_with: tuple[str, ...] = ()
    """The keys of a serve beside which it has no effect."""
    group: str = ""
    """The field with the flat table that has this field."""

    def of(self, record: Any) -> Any:
        """Its value."""
        return getattr(getattr(record, self.group) if self.group else record, self.field)


@cache
def keys_of(table: type) -> dict[str, Key]:
    """The keys of a table, by their names in the file, in the order of its class."""
    found: dict[str, Key] = {}
    for field, default, hint in _fields(table):
        metadata = _metadata(hint)
        flat = next((one for one in metadata if isinstance(one, Flat)), None)
        if flat is not None:
            inner = keys_of(get_args(hint)[0])
            found |= {flat.prefix + name: key._replace(group=field) for name, key in inner.items()}
        for meta in metadata:
            if isinstance(meta, msgspec.Meta) and meta.extra:
                extra, meaning = meta.extra, meta.description or ""
                name = extra["name"] or field
                found[name] = Key(
                    field, _kind(hint), meaning, default, extra["derived"], extra["quiet"], extra["in_place"],
                    extra["unused_with"],
                )  # fmt: skip
    return found


@cache
def _flat_tables(table: type) -> dict[str, type]:
    """By field."""
    return {field: get_args(hint)[0] for field, _, hint in _fields(table)
            if any(isinstance(one, Flat) for one in _metadata(hint))}  # fmt: skip


@cache
def _required(table: type) -> dict[str, Any]:
    """What stands for the keys that have to be given, where one is missing: its rule reports it."""
    return {field: "" if _base(hint) is str else () if get_origin(_base(hint)) is tuple else None
            for field, default, hint in _fields(table, of_all=True) if default is NO_DEFAULT}  # fmt: skip


def _fields(table: type, of_all: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """Name, default and type hint of what may be a key. `of_all`: of every field.

    Hints are evaluated in the modules of their classes. `typing.get_type_hints` also looks into the class, where a key
    may be called as a type is: `set`, `default`.
    """
    defaults = _defaults(table)
    for base in reversed(table.__mro__):
        for field, text in vars(base).get("__annotations__", {}).items():
            if field in defaults and (text.startswith("Annotated[") or of_all):
                yield field, defaults[field], eval(text, vars(sys.modules[base.__module__]))


def _defaults(table: type) -> dict[str, Any]:
    if dataclasses.is_dataclass(table):
        found: dict[str, Any] = {one.name: one.default_factory() if callable(one.default_factory) else one.default
                 for one in dataclasses.fields(table)}  # fmt: skip
        return {name: NO_DEFAULT if default is dataclasses.MISSING else default for name, default in found.items()}
    names, values = table.__struct_fields__, table.__struct_defaults__  # type: ignore[attr-defined]
    given = (NO_DEFAULT,) * (len(names) - len(values)) + values
    return {name: value.factory() if hasattr(value, "factory") else NO_DEFAULT if value is msgspec.NODEFAULT else value
            for name, value in zip(names, given, strict=True)}  # fmt: skip


def _base(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _metadata(hint: Any) -> tuple[Any, ...]:
    return hint.__metadata__ if get_origin(hint) is Annotated else ()


def _kind(hint: Any) -> Kind:
    """1 a form of its own  2 a table  3 words  4 one of several types, None among them or not  5 a list, or values by
    name  6 true or false, and numbers  7 text
    """
    metadata = _metadata(hint)
    base = get_args(hint)[0] if metadata else hint
    origin, arguments = get_origin(base), get_args(base)
    limits = {
        name: limit for one in metadata if isinstance(one, msgspec.Meta) for name in ("ge", "gt", "le")
        if (limit := getattr(one, name)) is not None
    }  # fmt: skip
    for one in metadata:
        if isinstance(one, Form):
            return ValueKind(one)  # 1
    if isinstance(base, type) and (issubclass(base, msgspec.Struct) or dataclasses.is_dataclass(base)):
        return TableKind(base, next((one.key for one in metadata if isinstance(one, OrText)), ""))  # 2
    if isinstance(base, type) and issubclass(base, Enum):
        return ValueKind(_words(base))  # 3
    if origin in (Union, types.UnionType):  # 4
        others = [one for one in arguments if one is not type(None)]
        if len(others) == 1:
            limiting = (one for one in metadata if isinstance(one, msgspec.Meta))
            return OptionalKind(_kind(Annotated[(others[0], *limiting)] if metadata else others[0]))
        return ValueKind(_PLAIN)
    if any(isinstance(one, ByName) for one in metadata):  # 5
        return ByNameKind(ValueKind(Form(_text)), _kind(arguments[0]), lambda found: tuple(found.values()))
    if origin in (list, tuple, frozenset):
        return ListKind(_kind(arguments[0]), origin)
    if origin is dict or origin is Mapping or base in (dict, Mapping):
        return ByNameKind(_kind(arguments[0]), _kind(arguments[1]))
    if base is bool:  # 6
        return ValueKind(Form(_switch, {"type": "boolean"}))
    if base is int:
        return ValueKind(Form(_number(int, limits), {"type": "integer", **_bounds(limits)}))
    if base is float:
        return ValueKind(Form(_number(float, limits), {"type": "number", **_bounds(limits)}))
    if base is str:
        return ValueKind(Form(_text))  # 7
    raise TypeError(f"no key of a file can be {hint}")


def _words(words: type[Enum]) -> Form:
    """The values of an enum of text, or the names of one of numbers."""
    by_word = {one.name.lower() if issubclass(words, IntEnum) else str(one.value): one for one in words}
    check = one_of(by_word)
    shown = {one: word for word, one in by_word.items()}
    return Form(lambda value: by_word[check(value)], {"type": "string", "enum": list(by_word)}, shown.__getitem__)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, not {kind(value)}")
    return value


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, without quotes, not {kind(value)}")
    return value


def _number(make: type[int] | type[float], limits: Mapping[str, Any]) -> Callable[[object], float]:
    """A whole number, or any: then a whole one, too. `limits`: `ge`, `gt`, `le`."""

    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int if make is int else (int, float)):
            raise ValueError(f"must be a {'whole ' if make is int else ''}number, not {kind(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"must be a number, not {kind(value)}")
        if "ge" in limits and value < limits["ge"]:
            raise ValueError(f"is too small: at least {limits['ge']}")
        if "gt" in limits and value <= limits["gt"]:
            raise ValueError(f"is too small: more than {limits['gt']}")
        if "le" in limits and value > limits["le"]:
            raise ValueError(f"is too large: at most {limits['le']}")
        return make(value)

    return check


def _bounds(limits: Mapping[str, Any]) -> dict[str, Any]:
    names = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}
    return {names[name]: limit for name, limit in limits.items()}


def _plain(value: object) -> object:
    if not isinstance(value, str | int | float):
        raise ValueError(f"must be text, a number, true or false, not {kind(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"must be a number, not {kind(value)}")
    return value


_PLAIN = Form(_plain, {"anyOf": [{"type": name} for name in ("string", "integer", "number", "boolean")]})


def read(table: type[Table], values: Mapping[str, Any], path: KeyPath, report: Report) -> Table:
    """The table with these values of the file; what is wrong is reported, and as if it were left out."""
    found: Table = TableKind(table).read(values, path, report)
    return found


def changed(record: Table, change: Change, place: Callable[[str], KeyPath]) -> Table:
    """The record with other values. `place`: where in the file each of its keys is."""
    new: dict[str, Any] = {}
    flat: dict[str, dict[str, Any]] = {}
    table: type = type(record)
    for name, key in keys_of(table).items():
        old = key.of(record)
        value = key.kind.changed(old, place(name), change)
        if value is not old:
            (flat.setdefault(key.group, {}) if key.group else new)[key.field] = value
    new |= {group: _replaced(getattr(record, group), values) for group, values in flat.items()}
    return _replaced(record, new) if new else record


def _replaced(record: Any, values: dict[str, Any]) -> Any:
    make = msgspec.structs.replace if isinstance(record, msgspec.Struct) else dataclasses.replace
    return make(record, **values)


def no_problem(path: KeyPath, text: str) -> None:
    """For `read` of values that were read before."""
    raise AssertionError(f"{path}: {text}")


def show(record: object, table: type | None = None, **own: Any) -> dict[str, Any]:
    """`record` in the form of the file, by its attributes. None: what is left out. `table`: its class, if the record is
    something else. `own`: the values of keys that are no attributes of the same name, by field.
    """
    found = {}
    for name, key in keys_of(table or type(record)).items():
        value = own[key.field] if key.field in own else key.of(record)
        is_out = (key.field in own and value is None) or (key.is_quiet and value == key.default)
        shown = None if is_out or _is_left_out(value, key) else key.kind.show(value)
        is_empty = isinstance(key.kind, TableKind) and all(one is None for one in (shown or {}).values())
        found[name] = None if is_empty else shown
    return found


def _is_left_out(value: Any, key: Key) -> bool:
    """Empty text that the key does not take, as the program has it where nothing is given."""
    if value != "" or not isinstance(key.kind, ValueKind):
        return False
    try:
        key.kind.form.check(value)
    except ValueError:
        return True
    return False


def table_schema(table: type, definitions: Definitions) -> dict[str, Any]:
    """The JSON schema of a table. Those of the tables in it go to `definitions`."""
    properties = {}
    for name, key in keys_of(table).items():
        node = {**key.kind.schema(definitions), "description": key.meaning}
        if not (key.is_derived or key.default is NO_DEFAULT or "$ref" in node or _is_left_out(key.default, key)):
            default = key.kind.show(key.default)
            node |= {} if default is None else {"default": default}
        properties[name] = node
    described = " ".join((table.__doc__ or "").split("\n\n")[0].split())
    return {"type": "object", "description": described, "properties": properties, "additionalProperties": False}


def keys_at(table: type, path: KeyPath) -> list[str]:
    """The keys that may stand at this place of a table; empty where any name goes."""
    found: Kind | None = TableKind(table)
    for part in path:
        found = None if found is None else found.inside(part)
    while isinstance(found, OptionalKind):
        found = found.of
    return list(keys_of(found.table)) if isinstance(found, TableKind) else []
