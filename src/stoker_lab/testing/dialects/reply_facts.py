"""The input and output of every dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import orjson

from stoker_lab.testing.script.ask import ScriptedRequest

BLOCK = 64 * 1024
"""Size of a token's text in an endless reply."""


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """The facts of one reply, the same in each dialect."""

    number: int
    """The number of the request, from 1; ids are made from it."""
    model: str
    created: int
    text: str | None
    """Prefix of each token's number; None: an endless reply, whose tokens are `BLOCK` bytes each."""
    tokens: int
    is_cut: bool
    """Whether the request's own limit ended the reply."""
    usage: bool
    prompt: int
    cached: int
    completion: int
    dimensions: int

    def words(self) -> Iterator[str]:
        """The reply's text, token by token: `tok0`, ` tok1`, ..."""
        if self.text is None:
            return iter(["a" * BLOCK] * self.tokens)
        return (f"{' ' if at else ''}{self.text}{at}" for at in range(self.tokens))

    def whole(self) -> str:
        return "".join(self.words())

    def pieces(self, encode: Callable[[int, str], bytes]) -> Sequence[bytes]:
        """Each token's event, without the parts that only this reply has. Cached between replies: see `_encoded`."""
        return _encoded(encode, self.text, self.tokens)


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed reply. A token's event is `head` plus its piece, so that pieces can be shared."""

    opening: list[bytes]
    head: bytes
    pieces: Sequence[bytes]
    closing: list[bytes]
    error: bytes
    """The event that reports a failure mid-stream."""


class EndpointWriter(Protocol):
    """How one endpoint answers."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        """The body of a reply that is not streamed."""

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error."""


class StreamingEndpointWriter(EndpointWriter, Protocol):
    """An endpoint that accepts `"stream": true`."""

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream: ...


@lru_cache(maxsize=64)
def _encoded(encode: Callable[[int, str], bytes], text: str | None, tokens: int) -> tuple[bytes, ...]:
    if text is None:  # one event, many times
        return (encode(0, "a" * BLOCK),) * tokens
    return tuple(encode(at, f"{' ' if at else ''}{text}{at}") for at in range(tokens))


def data(document: dict[str, Any]) -> bytes:
    """An event without a name."""
    return b"data: %b\n\n" % orjson.dumps(document)


def named(document: dict[str, Any]) -> bytes:
    """An event with its type as name."""
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), orjson.dumps(document))
