"""The fields of a whole answer that say whether it is one. A decoder skips everything else, in one pass."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from stoker.request.codec.embeddings import Vector

_TOLD = ("error", "object", "status", "stop_reason", "type", "usage")


class Choice(msgspec.Struct):
    """Of a chat or text completion."""

    finish_reason: Any = None


class WholeAnswer(msgspec.Struct):
    """An answer in any dialect."""

    choices: list[Choice] | None = None
    content: msgspec.Raw = msgspec.Raw()
    data: list[Vector] | None = None
    output: msgspec.Raw = msgspec.Raw()
    error: Any = None
    object: Any = None
    status: Any = None
    stop_reason: Any = None
    type: Any = None
    usage: Any = None

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """An answer whose fields may be of any type; entries that are not objects are left out."""
        choices, data = _objects(fields.get("choices")), _objects(fields.get("data"))
        raws: dict[str, Any] = {name: _raw(fields.get(name)) for name in ("content", "output")}
        told: dict[str, Any] = {name: fields.get(name) for name in _TOLD}
        return cls(
            choices=None if choices is None else [Choice(one.get("finish_reason")) for one in choices],
            data=None if data is None else [Vector(_raw(one.get("embedding"))) for one in data],
            **raws,
            **told,
        )


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _objects(value: Any) -> list[dict[str, Any]] | None:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else None
