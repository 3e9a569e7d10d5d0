"""Writes macros out: `${name}` in every value, the last declared first, so that a macro may use those before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.domain.errors import ConfigError

DEFAULT_PROXY = "http://localhost:${PORT}"
FIRST_PORT = 5800
PORT, PID = "${PORT}", "${PID}"
LONGEST_VALUE = 1 << 20
"""Characters of one value with its macros written out: macros of macros grow exponentially."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,63}$")
_USE = re.compile(r"\$\{([a-zA-Z0-9_-]+)\}")
_RESERVED = ("PID", "PORT", "MODEL_ID")
_COMMANDS = ("cmd", "cmdStop")
_PORT_FIELDS = (*_COMMANDS, "proxy", "checkEndpoint")
_KNOWN = frozenset((
    "healthCheckTimeout", "logRequests", "logLevel", "logTimeFormat", "logToStdout", "metricsMaxInMemory",
    "captureBuffer", "ui", "performance", "store", "globalTTL", "unloadTimeout", "models", "profiles", "selectors",
    "routing", "groups", "matrix", "startPort", "hooks", "sendLoadingState", "includeAliasesInList", "apiKeys", "peers",
    "upstream", "tailcat",
))  # fmt: skip
"""Keys of the file's top in which llama-swap looks for macros that it does not know; it ignores the others."""

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class ExpandedDocument:
    """A document without macros."""

    content: dict[str, Any]
    ports: Mapping[str, int]
    """By model: the port that llama-swap would give it. Only models that use `${PORT}` outside of their commands and
    addresses have one: all others may get a free port at each start. `${PORT}` stays in commands and addresses."""


def expand_macros(content: Mapping[str, Any]) -> ExpandedDocument:
    """Raises ConfigError if a macro's name or value is not accepted, or a name is used that no macro has."""
    declared = _declared(content.get("macros"), "macros")
    document = {key: value for key, value in content.items() if key not in ("macros", "models")}
    document = {key: _replace_all(value, declared) for key, value in document.items()}
    models = content.get("models") or {}
    if not isinstance(models, Mapping):
        raise ConfigError(["models: must be a mapping of model ids"])
    port = document.get("startPort", FIRST_PORT)
    ports: dict[str, int] = {}
    expanded: dict[str, Any] = {}
    for model in sorted(models):
        found = _expand_model(model, models[model], declared)
        if isinstance(found, dict) and PORT in str(found.get("cmd")):
            if _uses_port(found):
                ports[model] = port if isinstance(port, int) else FIRST_PORT
                found = _with_port(found, ports[model])
            port = port + 1 if isinstance(port, int) else FIRST_PORT
        expanded[model] = found
    document["models"] = {model: expanded[model] for model in models}
    _check_uses(document)
    return ExpandedDocument(document, ports)


def _declared(given: object, where: str) -> dict[str, Scalar]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError([f"{where}: must be a mapping of names and values"])
    for name, value in given.items():
        problem = _macro_problem(str(name), value)
        if problem:
            raise ConfigError([f"{where}.{name}: {problem}"])
    return {str(name): value for name, value in given.items()}


def _macro_problem(name: str, value: object) -> str:
    if not _NAME.match(name):
        return "is no name of a macro: use 1 to 63 letters, digits, '-' and '_'"
    if name in _RESERVED:
        return "this name is reserved by llama-swap"
    if not isinstance(value, str | int | float):
        return "must be text, a number, true or false"
    if isinstance(value, str) and f"${{{name}}}" in value:
        return "uses itself"
    return ""


def _expand_model(model: str, given: object, declared: Mapping[str, Scalar]) -> Any:
    if not isinstance(given, Mapping):
        return given
    own = _declared(given.get("macros"), f"models.{model}.macros")
    macros: dict[str, Scalar] = {"MODEL_ID": model, **declared}
    macros.update(own)  # in the place of a global one of the same name, else behind it
    values = {key: value for key, value in given.items() if key != "macros"}
    for key in _COMMANDS:
        if isinstance(values.get(key), str):
            values[key] = without_comments(values[key])
    values["proxy"] = DEFAULT_PROXY if values.get("proxy") is None else values["proxy"]
    found = {key: _replace_all(value, macros) for key, value in values.items()}
    filters = found.get("filters")
    if isinstance(filters, dict) and isinstance(filters.get("setParamsByID"), dict):
        filters["setParamsByID"] = _expand_keys(filters["setParamsByID"], macros, model)
    if PORT in str(found["proxy"]) and PORT not in str(found.get("cmd")):
        if values["proxy"] != DEFAULT_PROXY or "proxy" in given:
            raise ConfigError([f"models.{model}.proxy: uses ${{PORT}}, and cmd does not"])
        raise ConfigError([f"models.{model}: cmd does not use ${{PORT}}, so `proxy` must say where the server listens"])
    return found


def without_comments(command: str) -> str:
    """The command without lines that begin with `#`."""
    return "\n".join(line for line in command.split("\n") if not line.strip().startswith("#"))


def _expand_keys(given: Mapping[str, Any], macros: Mapping[str, Scalar], model: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key
        for macro in reversed(list(macros)):
            name = name.replace(f"${{{macro}}}", _text(macros[macro]))
        if name in found:
            raise ConfigError([f"models.{model}.filters.setParamsByID: two keys become '{name}'"])
        found[name] = value
    return found


def _replace_all(value: Any, macros: Mapping[str, Scalar]) -> Any:
    for name in reversed(list(macros)):
        value = _replace(value, f"${{{name}}}", macros[name])
    return value


def _replace(value: Any, use: str, by: Scalar) -> Any:
    """`value` with `use` replaced in every text; a text that is nothing else gets the macro's type."""
    if isinstance(value, str):
        if value == use:
            return by
        if use not in value:
            return value
        text = _text(by)
        if len(value) + value.count(use) * len(text) > LONGEST_VALUE:
            raise ConfigError([f"the macro {use} makes a value longer than {LONGEST_VALUE >> 20} MiB"])
        return value.replace(use, text)
    if isinstance(value, dict):
        return {key: _replace(one, use, by) for key, one in value.items()}
    if isinstance(value, list):
        return [_replace(one, use, by) for one in value]
    return value


def _text(value: Scalar) -> str:
    """As Go writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _uses_port(model: Mapping[str, Any]) -> bool:
    return any(PORT in text for key, value in model.items() if key not in _PORT_FIELDS for text in _texts(value))


def _with_port(model: dict[str, Any], port: int) -> dict[str, Any]:
    return {key: value if key in _PORT_FIELDS else _replace(value, PORT, port) for key, value in model.items()}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _check_uses(document: Mapping[str, Any]) -> None:
    for key, value in document.items():
        if key != "models" and key in _KNOWN:
            _check_value(value, key, ())
    for model, fields in document["models"].items():
        for field, value in fields.items() if isinstance(fields, dict) else ():
            if field == "filters" and isinstance(value, dict):
                _check_value(list(value.get("setParamsByID") or ()), f"models.{model}.filters.setParamsByID", ())
            allowed = ("PORT",) if field in _PORT_FIELDS else ()
            _check_value(value, f"models.{model}.{field}", (*allowed, "PID") if field == "cmdStop" else allowed)


def _check_value(value: Any, where: str, allowed: tuple[str, ...]) -> None:
    for text in _texts(value):
        for name in _USE.findall(text):
            if name not in allowed:
                raise ConfigError([f"{where}: ${{{name}}} is no macro; a macro must be declared before it is used"])
