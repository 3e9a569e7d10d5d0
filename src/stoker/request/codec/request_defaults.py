"""What a key sets for its requests: missing parameters, text before the system prompt, a ceiling for output.

The body stays in the client's dialect. Each change has a word, which the client sees in `x-stoker-translation`:

default:NAME    a parameter that the request leaves out
system_prompt   text was put before the request's own system prompt
max_output      the request asked for more output than its key may get, or set no ceiling
default_model   the request named no model, or one that does not exist

A request of a key without such settings never gets here.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec

from stoker.domain.dialect import OLLAMA, Dialect
from stoker.domain.key import RequestDefaults
from stoker.request.codec.tolerant_json import decode_fields

Raw = msgspec.Raw
_ABSENT = (None, Raw(b"null"))

_CEILINGS = {
    Dialect.CHAT: ("max_completion_tokens", "max_tokens"),
    Dialect.COMPLETIONS: ("max_tokens",),
    Dialect.MESSAGES: ("max_tokens",),
    Dialect.RESPONSES: ("max_output_tokens",),
}
"""The fields in which a dialect limits output. If the request has none of them, the last one is set."""
_SAMPLING: dict[Dialect, dict[str, str]] = {
    Dialect.CHAT: {name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")},
    Dialect.COMPLETIONS: {name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")},
    Dialect.MESSAGES: {name: name for name in ("temperature", "top_p", "top_k")},
    Dialect.RESPONSES: {name: name for name in ("temperature", "top_p")},
}
"""The parameters that a dialect has; others are left out."""
_OLLAMA_SAMPLING = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
}  # fmt: skip
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
    if dialect in _CEILINGS or dialect in OLLAMA:
        if max_output is not None:
            _limit_output(fields, dialect, max_output, changes)
        _add_sampling(fields, dialect, defaults, changes)
        if defaults.thinking is not None:
            _add_thinking(fields, dialect, defaults.thinking, changes)
        if defaults.system_prompt and _add_system_prompt(fields, dialect, defaults.system_prompt):
            changes.append("system_prompt")
    return (msgspec.json.encode(fields) if changes else body), tuple(changes)


def _limit_output(fields: dict[str, Raw], dialect: Dialect, ceiling: int, changes: list[str]) -> None:
    if dialect in OLLAMA:
        options = _options(fields)
        asked = options.get("num_predict")
        if not _is_count(asked) or asked > ceiling or asked < 0:  # below 0: no ceiling
            fields["options"] = _raw({**options, "num_predict": ceiling})
            changes.append("max_output")
        return
    is_set = has_changed = False
    for name in _CEILINGS[dialect]:
        asked = _loose(fields.get(name))
        is_set |= _is_count(asked)
        if _is_count(asked) and asked > ceiling:
            fields[name] = _raw(ceiling)
            has_changed = True
    if not is_set:
        fields[_CEILINGS[dialect][-1]] = _raw(ceiling)
        has_changed = True
    if has_changed:
        changes.append("max_output")


def _add_sampling(fields: dict[str, Raw], dialect: Dialect, defaults: RequestDefaults, changes: list[str]) -> None:
    if dialect in OLLAMA:
        options = _options(fields)
        added = {
            name: _number(key, value)
            for key, value in defaults.sampling.items()
            if options.get(name := _OLLAMA_SAMPLING[key]) is None
        }
        if added:
            fields["options"] = _raw({**options, **added})
            changes += [f"default:{name}" for name in added]
        return
    known = _SAMPLING[dialect]
    for key, value in defaults.sampling.items():
        if key in known and fields.get(key) in _ABSENT:
            fields[key] = _raw(_number(key, value))
            changes.append(f"default:{key}")


def _add_thinking(fields: dict[str, Raw], dialect: Dialect, thinks: bool, changes: list[str]) -> None:
    """Sets each dialect's switch, unless the request itself says anything about thinking."""
    added: dict[str, Any] = {}
    if dialect in OLLAMA:
        added = {"think": thinks}
    elif dialect is Dialect.MESSAGES:
        ceiling = _loose(fields.get("max_tokens"))
        if not thinks:
            added = {"thinking": {"type": "disabled"}}
        elif _is_count(ceiling) and ceiling > 2048:  # the budget has to be below `max_tokens`, and at least 1024
            added = {"thinking": {"type": "enabled", "budget_tokens": max(1024, ceiling // 2)}}
    elif dialect is Dialect.RESPONSES:
        added = {"reasoning": {"effort": "medium" if thinks else "none"}}
    elif dialect is Dialect.CHAT and fields.get("reasoning_effort") in _ABSENT:
        added = {"chat_template_kwargs": {"enable_thinking": thinks}}
    if added and all(fields.get(name) in _ABSENT for name in added):
        fields.update({name: _raw(value) for name, value in added.items()})
        changes.append("default:thinking")


def _add_system_prompt(fields: dict[str, Raw], dialect: Dialect, text: str) -> bool:
    """Puts `text` before the system prompt. False: the dialect has no system prompt, or it cannot be read."""
    if dialect is Dialect.COMPLETIONS:
        return False
    if dialect in (Dialect.CHAT, Dialect.OLLAMA_CHAT):
        return _add_system_turn(fields, text)
    name = "instructions" if dialect is Dialect.RESPONSES else "system"
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


def _add_system_turn(fields: dict[str, Raw], text: str) -> bool:
    try:
        turns = msgspec.json.decode(fields.get("messages", Raw(b"null")), type=list[Raw])
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
    fields["messages"] = _raw(turns)
    return True


def _is_system(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") in ("system", "developer")


def _options(fields: dict[str, Raw]) -> dict[str, Any]:
    options = _loose(fields.get("options"))
    return options if isinstance(options, dict) else {}


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
