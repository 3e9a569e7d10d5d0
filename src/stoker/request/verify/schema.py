"""A JSON schema as a client wrote it: read when it is first needed, bounded, and never an error."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from stoker.request.verify.json_value import InvalidJson, read_json
from stoker.request.verify.schema_rules import Fit, SchemaCheck, StepsExhausted

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
