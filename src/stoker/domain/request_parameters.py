"""What a serve sets in the bodies of its requests."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from stoker.domain.kinds import Form, kind, setting, text_of

FIXED = ("model", "messages", "input", "prompt", "stream")
"""Fields that say what the client asks for. Stoker reads or writes them itself."""
_LARGEST = 2**63
_DEEPEST = 64
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def _parameter(value: object) -> str:
    name = text_of(value)
    if name in FIXED:
        raise ValueError(
            f"'{name}' is what the client asks for, and no parameter of a serve; `set`, `default` and `drop` take "
            f"every field of the body but {', '.join(FIXED[:-1])} and {FIXED[-1]}"
        )
    if not _NAME.fullmatch(name):
        raise ValueError("is not the name of a field: use letters, digits, '_', '-' and '.', at most 64")
    return name


def _values(value: object) -> object:
    """A table whose values are JSON."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a table, not {kind(value)}")
    for name, one in value.items():
        _parameter(name)
        _check_json(name, one)
    return value


def _check_json(name: str, value: object, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"'{name}' is nested too deep: use at most {_DEEPEST} levels")
    if isinstance(value, Mapping):
        for inner in value.values():
            _check_json(name, inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_json(name, inner, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"'{name}' has a number that JSON does not have: nan or inf")
    elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise ValueError(f"'{name}' has a number that is too large: use whole numbers below 2**63")
    elif not isinstance(value, str | int | float):
        raise ValueError(f"'{name}' has {kind(value)}, which JSON does not have: put it in quotes")


Fields = Annotated[dict[str, Any], Form(_values, {"type": "object"})]
ParameterName = Annotated[str, Form(_parameter)]


@dataclass(frozen=True, slots=True)
class RequestParameters:
    """Changes of top-level fields of the body, as the engine gets it. False: there is none.

    1. `drop` removes what the client gave  2. `default` adds what is missing or null  3. `set` overwrites
    """

    set: Annotated[
        Fields, setting("Fields that every request gets, whatever its client gave; any JSON.", quiet=True)
    ] = field(default_factory=dict)
    default: Annotated[Fields, setting("Fields for requests that leave them out; any JSON.", quiet=True)] = field(
        default_factory=dict
    )
    drop: Annotated[
        tuple[ParameterName, ...],
        setting("Fields that are removed from requests, before `default` and `set` apply.", quiet=True),
    ] = ()

    def __bool__(self) -> bool:
        return bool(self.set or self.default or self.drop)

    def then(self, other: RequestParameters) -> RequestParameters:
        """Both, `other` after this one. A default of `other` replaces one of the same name."""
        kept = {name: value for name, value in self.set.items() if name not in other.drop}
        defaults = {name: value for name, value in self.default.items() if name not in other.drop}
        return RequestParameters(
            {**kept, **other.set}, {**defaults, **other.default}, tuple(dict.fromkeys((*self.drop, *other.drop)))
        )

    def names(self) -> dict[str, None]:
        """Every field that may change."""
        return dict.fromkeys((*self.drop, *self.default, *self.set))

    def without(self, names: Container[str]) -> RequestParameters:
        """The same, but for these fields."""
        return RequestParameters(
            {name: value for name, value in self.set.items() if name not in names},
            {name: value for name, value in self.default.items() if name not in names},
            tuple(name for name in self.drop if name not in names),
        )


NO_PARAMETERS = RequestParameters()
