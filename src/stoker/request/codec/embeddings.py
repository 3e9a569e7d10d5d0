"""Embeddings: one for each text that was asked for, and none of them empty."""

from __future__ import annotations

import msgspec

from stoker.domain.errors import UpstreamError
from stoker.request.codec.upstream_errors import no_answer

_NOTHING = (b"", b"null", b"[]", b'""')
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


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
    except _WRONG:
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
