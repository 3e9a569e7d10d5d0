"""Settings of keys and applications as operators give them at run time, checked as the configuration file is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.domain import definition
from stoker.domain.definition import UNKNOWN, KeyPath
from stoker.domain.errors import ClientError
from stoker.domain.key import SETTING_NAMES, KeySettings
from stoker.domain.nearest import did_you_mean


def read_settings(given: Mapping[str, Any]) -> KeySettings:
    """Raises ClientError 400 that names the setting and what it takes."""
    settings = definition.read(KeySettings, given, (), _refuse)
    if settings.max_output is not None and settings.context is not None and settings.max_output > settings.context:
        raise ClientError("'max_output' is larger than 'context'", code="bad_field", param="max_output")
    return settings


def show_settings(settings: KeySettings) -> dict[str, Any]:
    """What is set, in the words of the configuration file."""
    return {name: value for name, value in definition.show(settings).items() if value is not None}


def _refuse(path: KeyPath, problem: str) -> None:
    name = ".".join(str(part)[:64] for part in path)
    if problem == UNKNOWN:
        hint = did_you_mean(name, SETTING_NAMES) or f"; the settings are {', '.join(SETTING_NAMES)}"
        raise ClientError(f"there is no setting '{name}'{hint}", code="bad_field", param=name)
    raise ClientError(f"'{name}' {problem}", code="bad_field", param=name)
