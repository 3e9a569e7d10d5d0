"""Ollama's /api/embed and /api/embeddings: the request as /v1/embeddings has it, and the answer the other way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError, StokerError, UpstreamError
from stoker.request.codec.frames import check_answer
from stoker.request.codec.own_replies import StreamPosition
from stoker.request.codec.upstream_errors import no_answer
from stoker.request.codec.usage import Usage
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode, loose, shaped

OLDER_PATH = "/api/embeddings"
"""It takes one `prompt`, and answers with one `embedding`."""


class _Request(msgspec.Struct):
    model: str
    input: str | list[str] | None = None
    prompt: str | None = None
    dimensions: int | None = None
    truncate: bool | None = None
    keep_alive: Any = None
    options: dict[str, Any] | None = None


class EmbedRequest(msgspec.Struct, frozen=True):
    """One request as the serve gets it."""

    model: str
    body: bytes
    inputs: int
    """How many texts there are."""
    is_empty: bool
    """There is nothing to embed: the client only wants the model loaded."""
    losses: Losses


_request = msgspec.json.Decoder(_Request)


def read_embed(body: bytes, path: str) -> EmbedRequest:
    """Raises ClientError 400."""
    request = shaped(_request, body, "")
    losses = Losses()
    if request.keep_alive is not None:
        losses.add("keep_alive")
    if request.options or request.truncate:
        losses.add("unknown_field")
    given = request.prompt if path == OLDER_PATH else request.input
    document: dict[str, Any] = {"model": request.model, "input": given}
    if request.dimensions is not None:
        if request.dimensions < 1:
            raise ClientError("'dimensions' must be at least 1", code="bad_field", param="dimensions")
        document["dimensions"] = request.dimensions
    inputs = len(given) if isinstance(given, list) else 1
    return EmbedRequest(request.model, encode(document), inputs, not given, losses)


def empty_answer(model: str, path: str) -> dict[str, Any]:
    """The answer to a request that only loads the model."""
    return {"embedding": []} if path == OLDER_PATH else {"model": model, "embeddings": []}


class EmbedReply:
    """Writes the serve's embeddings as Ollama does. Stands where an `AnswerTranslator` stands; nothing is streamed."""

    content_type = b"application/json"
    is_meaningful = False
    has_content = False
    includes_error = False
    error: StokerError | None = None
    failure: StokerError | None = None
    rejected: UpstreamError | None = None

    def __init__(
        self, model: str, path: str, wall: Callable[[], float], changes: tuple[str, ...] = (), inputs: int | None = None
    ) -> None:
        """`model`: as the client wrote it. `inputs`: how many texts are to be embedded; None: not known. `wall`: Unix
        seconds; the answer says how long it took since now.
        """
        self.usage = Usage()
        self._model = model
        self._path = path
        self._wall = wall
        self._started = wall()
        self._changes = changes
        self._inputs = inputs

    def translate_whole(self, body: bytes) -> bytes:
        """Raises StokerError if the reply lacks an embedding."""
        self.usage = check_answer(Dialect.EMBEDDINGS, body, inputs=self._inputs).usage
        vectors = _vectors(loose(body))
        if self._path == OLDER_PATH:
            return encode({"embedding": vectors[0]})
        nanoseconds = max(int((self._wall() - self._started) * 1e9), 1)
        return encode(
            {
                "model": self._model,
                "embeddings": vectors,
                "total_duration": nanoseconds,
                "load_duration": 0,
                "prompt_eval_count": self.usage.input or 0,
            }
        )

    def describe_changes(self) -> bytes:
        return ",".join(self._changes).encode()

    def refuse_empty(self) -> None:
        """An answer without embeddings is always refused."""

    def feed(self, data: bytes) -> bytes:
        return b""

    def has_ended(self) -> bool:
        return False

    def take_rest(self) -> bytes:
        return b""

    def tokens_so_far(self) -> int:
        return 0

    def position(self) -> StreamPosition:
        return StreamPosition()


def _vectors(payload: Any) -> list[list[float]]:
    """In the order of the texts. Raises UpstreamError if an embedding is no list of numbers."""
    found = payload["data"]
    if not all(isinstance(one, dict) and isinstance(one.get("embedding"), list) for one in found):
        raise no_answer("has no embeddings")
    places = [one.get("index") for one in found]
    if all(type(place) is int for place in places):
        found = sorted(found, key=lambda one: one["index"])
    return [one["embedding"] for one in found]
