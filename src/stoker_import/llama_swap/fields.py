"""Reads typed values from a mapping, and reports the keys that nobody read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.domain.errors import ConfigError
from stoker.domain.nearest import nearest
from stoker_import.imported import KeyOutcome, KeyReport

_YES = {"true", "yes", "on", "y"}
_NO = {"false", "no", "off", "n"}


class Fields:
    """The keys of one mapping. Each method takes the key's default, and raises ConfigError for another type."""

    def __init__(self, given: object, path: str, model: str = "") -> None:
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise ConfigError([f"{path or 'the file'}: must be a mapping"])
        self._given: Mapping[str, Any] = given
        self._path = path
        self._model = model
        self._known: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return self._given.get(key) is not None

    def __iter__(self) -> Any:
        return iter(self._given)

    def text(self, key: str, default: str = "") -> str:
        value = self._value(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        raise self._problem(key, "must be text")

    def integer(self, key: str, default: int = 0, least: int | None = None) -> int:
        value = self._value(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._problem(key, "must be a whole number")
        if least is not None and value < least:
            raise self._problem(key, f"must be {least} or more")
        return value

    def boolean(self, key: str, default: bool = False) -> bool:
        """Go's reader takes the words of YAML 1.1 where a boolean is wanted."""
        value = self._value(key)
        if value is None:
            return default
        word = str(value).lower()
        if isinstance(value, bool | str) and word in _YES | _NO:
            return word in _YES
        raise self._problem(key, "must be true or false")

    def texts(self, key: str) -> list[str]:
        value = self._value(key)
        if value is None:
            return []
        if not isinstance(value, list) or any(isinstance(one, list | dict) or one is None for one in value):
            raise self._problem(key, "must be a list of texts")
        return [str(one).lower() if isinstance(one, bool) else str(one) for one in value]

    def table(self, key: str) -> Fields:
        return Fields(self._value(key), self._at(key), self._model)

    def tables(self, key: str, models: bool = False) -> dict[str, Fields]:
        """A mapping of names to mappings. `models`: reports name the model that they belong to."""
        given = Fields(self._value(key), self._at(key))
        return {
            name: Fields(given.raw(name), given._at(name), name if models else self._model) for name in given._given
        }

    def raw(self, key: str) -> Any:
        """The value as it is."""
        return self._value(key)

    def mapping(self, key: str) -> dict[str, Any]:
        value = self._value(key)
        if value is not None and not isinstance(value, Mapping):
            raise self._problem(key, "must be a mapping")
        return dict(value or {})

    def unknown(self, lead: str = "") -> list[KeyReport]:
        """A row for each key that was not read. `lead`: stands before the key."""
        rows = []
        for key in self._given:
            if key in self._known:
                continue
            hint = nearest(key, self._known)
            meant = f"; did you mean {hint}?" if hint is not None else ""
            note = f"llama-swap ignored it, too{meant}"
            rows.append(KeyReport(self._model, f"{lead}{key}", KeyOutcome.IGNORED, "", note))
        return rows

    def _value(self, key: str) -> Any:
        self._known.add(key)
        return self._given.get(key)

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _problem(self, key: str, text: str) -> ConfigError:
        return ConfigError([f"{self._at(key)}: {text}"])
