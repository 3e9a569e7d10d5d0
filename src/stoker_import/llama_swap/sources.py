"""Files to one document: variables of the environment are replaced in the text, then it is parsed, then merged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.domain.errors import ConfigError
from stoker.domain.nearest import did_you_mean
from stoker_import.yaml_file import load_yaml

VARIABLE = re.compile(r"\$\{env\.([a-zA-Z_][a-zA-Z0-9_]*)\}")
_ENTITY_TABLES = frozenset((
    "models", "groups", "profiles", "selectors", "peers", "matrix",
    "routing.router.settings.groups", "routing.router.settings.matrix",
))  # fmt: skip
"""Their keys name things: the same key in two files is an error."""
_OTHERS: Mapping[str, str] = {
    "services": "a Docker Compose file",
    "model_list": "LiteLLM's configuration: stoker import litellm FILE",
    "apiVersion": "a Kubernetes manifest",
    "serve": "Stoker's own configuration",
}
"""Keys by which files of other programs are known."""
_WITHOUT_MODELS = ("macros", "groups", "matrix", "routing", "hooks", "apiKeys", "healthCheckTimeout", "globalTTL")
"""Keys by which llama-swap's own file is known whose models are in other files."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a configuration."""

    name: str
    """Its name in messages."""
    text: str


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """All files as one."""

    content: dict[str, Any]
    variables: Mapping[str, str]
    """The variables of the environment that the files use, with their values."""


def read_sources(files: Sequence[SourceFile], environment: Mapping[str, str]) -> SourceDocument:
    """Parse and merge the files, in their order.

    Raises ConfigError if a variable is unset or has a line break, a file is no YAML mapping or another program's, or
    two files contradict each other.
    """
    merged: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for file in files:
        text = _with_variables(file, environment, variables)
        content = load_yaml(text, file.name)
        if content is None:
            continue
        if not isinstance(content, dict):
            raise ConfigError([f"{file.name}: not llama-swap's configuration, which is a mapping with `models`"])
        _merge(merged, content, "", file.name)
    if not merged:
        raise ConfigError([f"{', '.join(file.name for file in files)}: empty; there is nothing to import"])
    _check_program(merged, files)
    return SourceDocument(merged, variables)


def _with_variables(file: SourceFile, environment: Mapping[str, str], used: dict[str, str]) -> str:
    """The text with `${env.NAME}` replaced. Names that occur only in comments may be unset."""
    text = file.text
    for name in dict.fromkeys(VARIABLE.findall(_without_comments(text))):
        value = environment.get(name)
        if value is None:
            raise ConfigError([
                f"{file.name}:{_line(text, name)}: the environment variable {name} is not set; "
                f"set it as llama-swap sees it: {name}=... stoker import llama-swap ..."
            ])  # fmt: skip
        if any(char in value for char in "\n\r\0"):
            raise ConfigError([
                f"{file.name}:{_line(text, name)}: the environment variable {name} has a line break, "
                "which llama-swap refuses"
            ])  # fmt: skip
        used[name] = value
        text = text.replace(f"${{env.{name}}}", value.replace("\\", "\\\\").replace('"', '\\"'))
    return text


def _without_comments(text: str) -> str:
    """The text without comments of whole lines and those behind a blank, except inside of quotes."""
    return "\n".join(_uncommented(line) for line in text.split("\n"))


def _uncommented(line: str) -> str:
    quote = ""
    for place, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (place == 0 or line[place - 1] in " \t"):
            return line[:place]
    return line


def _line(text: str, name: str) -> int:
    return text[: text.index(f"${{env.{name}}}")].count("\n") + 1


def _check_program(content: Mapping[str, Any], files: Sequence[SourceFile]) -> None:
    if "models" in content or "peers" in content:
        return
    name = files[0].name
    for key, program in _OTHERS.items():
        if key in content:
            raise ConfigError([f"{name}: this is {program}"])
    if any(key in content for key in _WITHOUT_MODELS):
        raise ConfigError([f"{name}: has no `models`; if they are in other files, name these too: --config-dir DIR"])
    hint = "".join(filter(None, (did_you_mean(key, ["models"]) for key in content)))
    raise ConfigError([f"{name}: has no `models`, so it is no configuration of llama-swap{hint}"])


def _merge(into: dict[str, Any], more: Mapping[str, Any], path: str, name: str) -> None:
    """Mappings are merged, lists joined; a value must not contradict an earlier one; null gives way."""
    for key, value in more.items():
        where = f"{path}.{key}" if path else key
        known = into.get(key)
        if key not in into or known is None:
            into[key] = value
        elif value is None:
            continue
        elif isinstance(known, dict) and isinstance(value, dict):
            if where in _ENTITY_TABLES and (twice := known.keys() & value.keys()):
                raise ConfigError([f"{name}: {where}.{min(twice)} is in another file already"])
            _merge(known, value, where, name)
        elif isinstance(known, list) and isinstance(value, list):
            known.extend(value)
        elif known != value:
            raise ConfigError([f"{name}: {where} has another value in a file before it"])
