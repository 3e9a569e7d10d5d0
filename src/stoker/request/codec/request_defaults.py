"""What a key sets for its requests: missing parameters, text before the system prompt, a ceiling for output.

The body stays in the client's dialect. Each change has a word, which the client sees in `x-stoker-translation`:

default:NAME    a parameter that the request leaves out
system_prompt   text was put before the request's own system prompt
max_output      the request asked for more output than its key may get, or set no ceiling
default_model   the request named no model, or one that does not exist

A request of a key without such settings never gets here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from stoker.domain.dialect import Dialect, DialectSpec
from stoker.domain.key import RequestDefaults
from stoker.request.codec.tolerant_json import decode_fields

Raw = msgspec.Raw
_ABSENT = (None, Raw(b"null"))

_WHOLE = frozenset(("top_k",))


def apply_defaults(
    body: bytes, dialect: Dialect, defaults: RequestDefaults, max_output: int | None, model: str | None = None
) -> tuple[bytes, tuple[str, ...]]:
    """The new body, and what was changed. `body` is a JSON object that was read before. `model` replaces the model's
    name.
    """
    fields = decode_fields(body)
    changes: list[str] = []
    if model is not None:
        fields["model"] = _raw(model)
        changes.append("default_model")
    spec = dialect.spec
    if spec.limits:
        if max_output is not None:
            _limit_output(fields, spec, max_output, changes)
        _add_sampling(fields, spec, defaults, changes)
        if defaults.thinking is not None:
            _add_thinking(fields, spec, defaults.thinking, changes)
        if defaults.system_prompt and _add_system_prompt(fields, spec, defaults.system_prompt):
            changes.append("system_prompt")
    return (msgspec.json.encode(fields) if changes else body), tuple(changes)


def _limit_output(fields: dict[str, Raw], spec: DialectSpec, ceiling: int, changes: list[str]) -> None:
    given = _parameters(fields, spec)
    asked = {name: count for name in spec.limits if _is_count(count := _loose(given.get(name)))}
    if spec.options:  # below 0: no ceiling
        asked = {name: count for name, count in asked.items() if count >= 0}
    lowered = [name for name, count in asked.items() if count > ceiling] if asked else list(spec.limits[-1:])
    if lowered:
        _put(fields, spec, dict.fromkeys(lowered, ceiling))
        changes.append("max_output")


def _add_sampling(fields: dict[str, Raw], spec: DialectSpec, defaults: RequestDefaults, changes: list[str]) -> None:
    given = _parameters(fields, spec)
    added = {
        name: _number(key, value)
        for key, value in defaults.sampling.items()
        if (name := spec.sampling.get(key)) is not None and given.get(name) in _ABSENT
    }
    if added:
        _put(fields, spec, added)
        changes += [f"default:{name}" for name in added]


def _add_thinking(fields: dict[str, Raw], spec: DialectSpec, thinks: bool, changes: list[str]) -> None:
    """Sets the dialect's switch, unless the request itself says anything about thinking."""
    if spec.thinking is None:
        return
    limit = _loose(fields.get(spec.limits[-1]))
    added = spec.thinking(thinks, limit if _is_count(limit) else None)
    if added and all(fields.get(name) in _ABSENT for name in (*added, *spec.also_says_thinking)):
        fields.update({name: _raw(value) for name, value in added.items()})
        changes.append("default:thinking")


def _add_system_prompt(fields: dict[str, Raw], spec: DialectSpec, text: str) -> bool:
    """Puts `text` before the system prompt. False: the dialect has no system prompt, or it cannot be read."""
    name = spec.system
    if not name:
        return bool(spec.turns) and _add_system_turn(fields, spec.turns, text)
    own = _loose(fields.get(name))
    if own is None or own == "":
        fields[name] = _raw(text)
    elif isinstance(own, str):
        fields[name] = _raw(f"{text}\n\n{own}")
    elif isinstance(own, list):  # Messages: blocks, which may be marked for the cache
        fields[name] = _raw([{"type": "text", "text": text}, *own])
    else:
        return False
    return True


def _add_system_turn(fields: dict[str, Raw], name: str, text: str) -> bool:
    try:
        turns = msgspec.json.decode(fields.get(name, Raw(b"null")), type=list[Raw])
    except msgspec.DecodeError:
        return False
    first: Any = _loose(turns[0]) if turns else None
    own = first.get("content") if _is_system(first) else None
    if isinstance(own, str):
        turns[0] = _raw({**first, "content": f"{text}\n\n{own}"})
    elif isinstance(own, list):
        turns[0] = _raw({**first, "content": [{"type": "text", "text": text}, *own]})
    else:
        turns.insert(0, _raw({"role": "system", "content": text}))
    fields[name] = _raw(turns)
    return True


def _is_system(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") in ("system", "developer")


def _parameters(fields: dict[str, Raw], spec: DialectSpec) -> dict[str, Raw]:
    """Where the dialect has limit and sampling."""
    if not spec.options:
        return fields
    try:
        return decode_fields(fields.get(spec.options, Raw(b"{}")))
    except msgspec.DecodeError:
        return {}


def _put(fields: dict[str, Raw], spec: DialectSpec, parameters: Mapping[str, Any]) -> None:
    found = {name: _raw(value) for name, value in parameters.items()}
    if spec.options:
        fields[spec.options] = _raw({**_parameters(fields, spec), **found})
    else:
        fields.update(found)


def _number(name: str, value: float) -> float | int:
    return int(value) if name in _WHOLE else value


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _loose(raw: Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except msgspec.DecodeError:  # a number that is too large, for example
        return None


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
