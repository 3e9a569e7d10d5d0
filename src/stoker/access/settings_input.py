"""Settings of keys and applications as operators give them at run time, checked as the configuration file is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from stoker.domain.errors import ClientError
from stoker.domain.key import SETTING_NAMES, KeySettings, Priority, Scope
from stoker.domain.nearest import did_you_mean
from stoker.domain.tier import Verify

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
MAX_COUNT = 2**31


def read_settings(given: Mapping[str, Any]) -> KeySettings:
    """Raises ClientError 400 that names the setting and what it takes."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in SETTING_NAMES:
            hint = did_you_mean(name, SETTING_NAMES) or f"; the settings are {', '.join(SETTING_NAMES)}"
            raise ClientError(f"there is no setting '{name[:64]}'{hint}", code="bad_field", param=name[:64])
        try:
            read: Callable[[Any], Any] = _READERS.get(name, _count)
            values[name] = read(value)
        except ValueError as error:
            raise ClientError(f"'{name}' {error}", code="bad_field", param=name) from None
    settings = KeySettings(**values)
    if settings.max_output is not None and settings.context is not None and settings.max_output > settings.context:
        raise ClientError("'max_output' is larger than 'context'", code="bad_field", param="max_output")
    return settings


def show_settings(settings: KeySettings) -> dict[str, Any]:
    """What is set, in the words of the configuration file."""
    shown = {name: value for name in SETTING_NAMES if (value := getattr(settings, name)) is not None}
    return {name: value.name.lower() if isinstance(value, IntEnum) else value for name, value in shown.items()}


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    if not 1 <= value <= MAX_COUNT:
        raise ValueError("is too small: at least 1" if value < 1 else f"is too large: at most {MAX_COUNT}")
    return value


def _amount(most: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("must be a number")
        if not 0 < value <= most:
            raise ValueError(f"must be above 0, and at most {most:g}")
        return float(value)

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("must be a list of names")
    return tuple(value)


def _word(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return read


def _scope(value: Any) -> Scope:
    return Scope[_word("inference", "observe", "admin")(value).upper()]


def _priority(value: Any) -> Priority:
    return Priority[_word("interactive", "normal", "background")(value).upper()]


def _sampling(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or not all(isinstance(one, int | float) for one in value.values()):
        raise ValueError("must be a table of numbers")
    unknown = [name for name in value if name not in SAMPLING]
    if unknown:
        raise ValueError(f"has no '{unknown[0][:64]}'; the parameters are {', '.join(SAMPLING)}")
    return {name: float(number) for name, number in value.items()}


_READERS: dict[str, Callable[[Any], Any]] = {
    "scope": _scope,
    "models": _texts,
    "classes": _texts,
    "cloud": _flag,
    "ollama_api": _word("answer", "refuse"),
    "priority": _priority,
    "weight": _amount(1000.0),
    "cost_per_day": _amount(1e9),
    "cost_per_month": _amount(1e9),
    "default_model": _text,
    "system_prompt": _text,
    "thinking": _flag,
    "sampling": _sampling,
    "verify": _word(*(mode.value for mode in Verify)),
}
"""How each setting is read; the others are counts."""
