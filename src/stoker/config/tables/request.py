"""`[serve.request]` and `[[serve.variant]]`: request parameters of a serve."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from stoker.domain.kinds import Form, ServedName, Text, kind, setting, text_of
from stoker.domain.request_parameters import NO_PARAMETERS, RequestParameters
from stoker.domain.serve import ServeVariant

FIXED = ("model", "messages", "input", "prompt", "stream")
"""Fields that say what the client asks for. Stoker reads or writes them itself."""
_LARGEST = 2**63
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


def _check_json(name: str, value: object) -> None:
    if isinstance(value, Mapping):
        for inner in value.values():
            _check_json(name, inner)
    elif isinstance(value, list):
        for inner in value:
            _check_json(name, inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"'{name}' has a number that JSON does not have: nan or inf")
    elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise ValueError(f"'{name}' has a number that is too large: use whole numbers below 2**63")
    elif not isinstance(value, str | int | float):
        raise ValueError(f"'{name}' has {kind(value)}, which JSON does not have: put it in quotes")


Fields = Annotated[dict[str, Any], Form(_values, {"type": "object"})]
ParameterName = Annotated[str, Form(_parameter)]


class RequestTable(msgspec.Struct, frozen=True):
    """Changes of the top-level fields of each request's body, as the engine gets it."""

    set: Annotated[Fields, setting("Fields that every request gets, whatever its client gave; any JSON.")] = {}
    default: Annotated[Fields, setting("Fields for requests that leave them out; any JSON.")] = {}
    drop: Annotated[
        tuple[ParameterName, ...], setting("Fields that are removed from requests, before `default` and `set` apply.")
    ] = ()


class VariantTable(RequestTable, frozen=True):
    """Another model name for the same process, with other request parameters."""

    name: Annotated[ServedName | None, setting("Required. The model name, such as `fast:high`; no wildcards.")] = None
    title: Annotated[Text | None, setting("Its name for people, in lists of models. Default: `name`.")] = None
    description: Annotated[
        Text | None, setting("What clients show of it in lists of models. Default: that of the serve.")
    ] = None
    listed: Annotated[bool | None, setting("Whether lists of models have it. Default: as the serve.")] = None


def build_variants(tables: Iterable[VariantTable]) -> tuple[ServeVariant, ...]:
    """The name is checked elsewhere."""
    return tuple(
        ServeVariant(str(table.name), build_request(table), table.title or "", table.description or "", table.listed)
        for table in tables
    )


def show_variant(variant: ServeVariant) -> dict[str, object]:
    """As the table would say it, without what is not given."""
    about = {"title": variant.title or None, "description": variant.description or None, "listed": variant.listed}
    given = {key: value for key, value in about.items() if value is not None}
    return {"name": variant.name, **given, **(show_request(variant.request) or {})}


def build_request(table: RequestTable) -> RequestParameters:
    found = RequestParameters(dict(table.set), dict(table.default), tuple(dict.fromkeys(table.drop)))
    return found if found else NO_PARAMETERS


def show_request(parameters: RequestParameters) -> dict[str, object] | None:
    """As the table would say it, without what is empty; None: there is nothing."""
    shown: dict[str, object] = {
        "set": dict(parameters.set),
        "default": dict(parameters.default),
        "drop": list(parameters.drop),
    }
    return {key: value for key, value in shown.items() if value} or None
