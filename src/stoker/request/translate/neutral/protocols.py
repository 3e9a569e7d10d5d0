"""What readers and writers of a dialect are: the protocols, and what a writer of answers is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from stoker.domain.answer import Answer, Event, Tokens
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.prompt import Prompt
from stoker.request.codec.own_replies import StreamPosition
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.thinking import ThinkingSigner


class AnswerContext(msgspec.Struct):
    """The request, as far as its answer has to know it."""

    prompt: Prompt
    request_id: str
    created: int
    """Unix seconds."""
    signer: ThinkingSigner
    model: str
    """The model's name where the serve gives none."""
    input_tokens: int | None = None
    """What a tokenizer counted before the call; None: nobody counted."""
    upstream: Dialect | None = None
    """The dialect of the serve that answers; None: Stoker itself answers."""
    wall: Callable[[], float] | None = None
    """Unix seconds, for dialects whose answer says when it was complete. None: it says `created`."""


class Check(Protocol):
    """Looks at an answer before the client gets it. Raises nothing."""

    @property
    def is_failed(self) -> bool:
        """It was proved wrong: nothing more of it may be let out."""

    def feed(self, event: Event) -> Iterable[Event]:
        """What may go out now."""

    def judge(self, answer: Answer) -> None:
        """An answer that was not streamed."""

    def failed_checks(self) -> tuple[str, ...]:
        """What was found, in words that hold nothing of the answer."""


class ReadPrompt(Protocol):
    """A client's request. Raises ClientError 400 that names the place; linear in the body."""

    def __call__(self, body: bytes, losses: Losses) -> Prompt: ...


class WritePrompt(Protocol):
    """The request in the serve's dialect: a document to be encoded. Its names, ids and turns are prepared already."""

    def __call__(self, prompt: Prompt, traits: Capabilities, losses: Losses) -> dict[str, Any]: ...


class AnswerReader(Protocol):
    """A serve's answer, event by event. One per request; raises nothing, whatever comes."""

    losses: Losses

    def read(self, payload: dict[str, Any]) -> list[Event]:
        """One SSE payload."""

    def finish(self, is_said: bool = False) -> list[Event]:
        """The stream is over: what is left to say. Empty if nothing proper came.

        `is_said`: by `[DONE]`, which is an end also where no reason was given; else by the end of the connection.
        """

    def read_whole(self, payload: dict[str, Any]) -> Answer:
        """An answer that was not streamed."""


class ReadAnswer(Protocol):
    """A reader of one answer. `keeps_logprobs`: the client's dialect has a place for log probabilities of tokens."""

    def __call__(self, losses: Losses, keeps_logprobs: bool = False) -> AnswerReader: ...


class AnswerWriter(Protocol):
    """An answer in the client's dialect. Blocks come one at a time, numbered from 0."""

    losses: Losses
    content_type: bytes

    def write(self, event: Event) -> bytes: ...

    def fail(self, error: StokerError) -> bytes:
        """The one event that ends a stream which cannot go on."""

    def write_whole(self, answer: Answer) -> dict[str, Any]: ...


def position_of(writer: AnswerWriter) -> StreamPosition:
    """How far the writer's stream has come. Only the writer of the Responses dialect has to know."""
    position: Callable[[], StreamPosition] = getattr(writer, "position", StreamPosition)
    return position()


def prefixed(id: str, prefix: str, request_id: str) -> str:
    """The upstream's id as this dialect spells ids; one made of the request's where there is none."""
    id = id or request_id
    return id if id.startswith(prefix) else prefix + id


def number(value: Any) -> int | None:
    """A count of tokens, or unknown."""
    return value if type(value) is int and value >= 0 else None


def part(usage: dict[str, Any], details: str, name: str) -> int | None:
    """A count from a nested object of a usage."""
    inner = usage.get(details)
    return number(inner.get(name)) if isinstance(inner, dict) else None


def is_known(tokens: Tokens) -> bool:
    """Whether both totals are."""
    return tokens.input is not None and tokens.output is not None
