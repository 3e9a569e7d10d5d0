"""The fields of a whole answer that say whether it is one. A decoder skips everything else, in one pass."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from stoker.domain.errors import UpstreamError
from stoker.request.codec.tolerant_json import NOT_JSON
from stoker.request.codec.upstream_errors import no_answer

_NOTHING = (b"", b"null", b"[]", b'""')


class Vector(msgspec.Struct):
    """Of an answer: numbers, or their bytes in base64."""

    embedding: msgspec.Raw = msgspec.Raw()


class _Request(msgspec.Struct):
    input: str | list[msgspec.Raw] | None = None


_request = msgspec.json.Decoder(_Request)


def count_inputs(body: bytes) -> int | None:
    """How many texts a request of /v1/embeddings asks for; None: it does not say so in the usual way. A text may be a
    list of tokens.
    """
    try:
        given = _request.decode(body).input
    except NOT_JSON:
        return None
    if not isinstance(given, list):
        return None if given is None else 1
    return 1 if given and bytes(given[0]).lstrip()[:1].isdigit() else len(given)


def lacks_embeddings(vectors: list[Vector] | None, inputs: int | None) -> UpstreamError | None:
    """Why an answer has no embedding for one of `inputs` texts (None: nobody knows how many)."""
    if not vectors:
        return no_answer("has no embeddings")
    if inputs is not None and len(vectors) < inputs:
        return no_answer(f"has {len(vectors)} embeddings for {inputs} inputs")
    if any(bytes(vector.embedding).replace(b" ", b"") in _NOTHING for vector in vectors):
        return no_answer("has an empty embedding")
    return None


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
