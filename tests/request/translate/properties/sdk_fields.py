"""The fields that a dialect's SDK can write in a request, found in its TypedDicts, and where each is said to go.

A table gives each class either one word for all of it, or a word for each of its fields:

    same         comes back as it was
    lost:CODE    is dropped or changed, and the loss is named
    refused:CODE is answered with a 400 of this code
    aside: why   nothing is lost that anybody could miss

Classes that only stand below what is not `same` are not looked at: nothing of them arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, NotRequired, Required, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

Word = str
Table = dict[str, Word | dict[str, Word]]


class Field(NamedTuple):
    owner: str
    name: str


class Schema:
    """The classes below `root`, by their names; those of one name in several modules by module and name."""

    def __init__(self, root: Any, table: Table) -> None:
        self.root = root
        self.table = table
        self.classes: dict[str, Any] = {}
        self.parents: dict[str, list[Field]] = {}
        """Every field that may hold a class, in the order in which they are found."""
        self._names: dict[int, str] = {}
        self._walk()

    def key(self, found: Any) -> str:
        return self._names[id(found)]

    def hints(self, owner: str) -> dict[str, Any]:
        return hints_of(self.classes[owner])

    def word(self, field: Field) -> Word | None:
        words = self.table.get(field.owner)
        return words if isinstance(words, str) or words is None else words.get(field.name)

    def fields(self) -> list[Field]:
        """All that are looked at: of a class with one word only the class."""
        out: list[Field] = []
        for owner in self.classes:
            whole = isinstance(self.table.get(owner), str)
            out += [Field(owner, "")] if whole else [Field(owner, name) for name in self.hints(owner)]
        return out

    def _walk(self) -> None:
        waiting: list[Any] = [self.root]
        self._name(self.root)
        while waiting:
            found = waiting.pop(0)
            owner = self.key(found)
            if isinstance(self.table.get(owner), str):
                continue
            for name, kind in hints_of(found).items():
                word = self.word(Field(owner, name))
                if word is not None and word != "same":
                    continue
                for inner in dicts_in(kind):
                    if id(inner) not in self._names:
                        self._name(inner)
                        waiting.append(inner)
                    self.parents.setdefault(self.key(inner), []).append(Field(owner, name))

    def _name(self, found: Any) -> None:
        name = found.__name__
        if name in self.classes:
            name = f"{found.__module__.rpartition('.')[2]}:{name}"
        if name in self.classes:
            name = f"{name}{len(self.classes)}"
        self.classes[name] = found
        self._names[id(found)] = name

    # -- samples -----------------------------------------------------------------------------------------------------

    def sample(self, field: Field, given: dict[Field, Any]) -> Any:
        """A small request that has this field, or (of a class with one word) this class. `given`: values that are not
        just any value of their type, and (under a class with no name of a field) what it must have besides.
        """
        value = self._object(field.owner, given)
        if field.name:
            kind = self.hints(field.owner)[field.name]
            value.setdefault(field.name, given.get(field, self._value(kind, given)))
        owner = field.owner
        while self.classes[owner] is not self.root:
            parent = next(p for p in self.parents[owner] if self._leads(p, owner, given))
            outer = self._object(parent.owner, given)
            outer[parent.name] = [value] if _is_listed(self.hints(parent.owner)[parent.name]) else value
            value, owner = outer, parent.owner
        return value

    def _leads(self, parent: Field, owner: str, given: dict[Field, Any]) -> bool:
        wanted = given.get(Field(owner, "in"))
        return wanted is None or parent.owner == wanted

    def _object(self, owner: str, given: dict[Field, Any]) -> dict[str, Any]:
        out: dict[str, Any] = dict(given.get(Field(owner, ""), {}))
        for name in self.hints(owner):
            if name in required(self.classes[owner]) and name not in out:
                kind = self.hints(owner)[name]
                out[name] = given[found] if (found := Field(owner, name)) in given else self._value(kind, given)
        return out

    def _value(self, kind: Any, given: dict[Field, Any]) -> Any:
        kind = _bare(kind)
        if is_typeddict(kind):
            return self._object(self.key(kind), given) if id(kind) in self._names else _blind(kind)
        origin, args = get_origin(kind), get_args(kind)
        if origin is Literal:
            return args[0]
        if origin is None:
            return {str: "x", int: 1, bool: True, float: 0.5}.get(kind, {})
        if origin is dict or getattr(origin, "__name__", "") == "Mapping":
            return {}
        if _is_list(origin):
            return [self._value(args[0], given)]
        return next(self._value(arg, given) for arg in args if arg is not type(None))

    # -- use ---------------------------------------------------------------------------------------------------------

    def used(self, value: Any) -> set[Field]:
        """The fields that a request has."""
        out: set[Field] = set()
        self._use(self.root, value, out)
        return out

    def _use(self, found: Any, value: dict[str, Any], out: set[Field]) -> None:
        owner = self.key(found)
        if isinstance(self.table[owner], str):
            out.add(Field(owner, ""))
            return
        hints = self.hints(owner)
        for name, inner in value.items():
            out.add(Field(owner, name))
            for item in inner if isinstance(inner, list) else (inner,):
                if isinstance(item, dict):
                    fits = [kind for kind in dicts_in(hints[name]) if id(kind) in self._names and _fits(kind, item)]
                    for kind in fits:  # one object may be of several classes
                        self._use(kind, item, out)


@cache
def hints_of(found: Any) -> dict[str, Any]:
    return get_type_hints(found)


@cache
def required(found: Any) -> set[str]:
    """Fields that a class insists on; its own `__required_keys__` misses those whose types are written as text."""
    hints = get_type_hints(found, include_extras=True)
    return set(found.__required_keys__) | {name for name, kind in hints.items() if get_origin(kind) is Required}


def dicts_in(kind: Any) -> Iterator[Any]:
    """The TypedDicts that a field's type names, not what is in them."""
    if is_typeddict(kind):
        yield kind
    elif get_origin(kind) is not Literal:
        for inner in get_args(kind):
            yield from dicts_in(inner)


def _fits(kind: Any, value: dict[str, Any]) -> bool:
    hints = hints_of(kind)
    if not set(value) <= set(hints):
        return False
    for name, hint in hints.items():
        hint = _bare(hint)
        literals = get_args(hint) if get_origin(hint) is Literal else None
        if name in ("type", "role") and literals is not None and value.get(name) not in (*literals, None):
            return False
    return required(kind) <= set(value)


def _bare(kind: Any) -> Any:
    while get_origin(kind) in (Required, NotRequired) or str(get_origin(kind)).endswith("Annotated"):
        kind = get_args(kind)[0]
    return kind


def _is_list(origin: Any) -> bool:
    return getattr(origin, "__name__", "") in ("list", "Iterable", "Sequence", "SequenceNotStr", "tuple")


def _is_listed(kind: Any) -> bool:
    """Whether the field holds its objects in a list."""
    kind = _bare(kind)
    if is_typeddict(kind):
        return False
    origin = get_origin(kind)
    if origin is not None and _is_list(origin):
        return True
    return any(_is_listed(arg) for arg in get_args(kind) if any(True for _ in dicts_in(arg)))


def _blind(kind: Any) -> dict[str, Any]:
    """An object of a class that is not looked at."""
    out: dict[str, Any] = {}
    for name, hint in hints_of(kind).items():
        if name in required(kind):
            bare = _bare(hint)
            out[name] = get_args(bare)[0] if get_origin(bare) is Literal else "x"
    return out
