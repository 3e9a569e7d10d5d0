"""One reply, ready to be sent: what the script and the dialect say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from stoker_lab.testing.dialects.reply_facts import BLOCK, EndpointWriter, ReplyFacts, Stream, StreamingEndpointWriter
from stoker_lab.testing.script.ask import ScriptedRequest
from stoker_lab.testing.script.framing import Wrapper, reply_head
from stoker_lab.testing.script.script import Script


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """Bytes to send, except for what `wrapper` puts around each unit of the body."""

    head: bytes
    opening: bytes
    """Sent with or before the first step; may be empty."""
    unit: Callable[[int], bytes]
    """The bytes of one step."""
    steps: int
    tokens: int
    """How many steps follow the pace; later ones are sent at once."""
    error: bytes
    wrapper: Wrapper
    is_chunked: bool
    close: bool
    """Whether the connection ends with the reply."""
    is_stream: bool

    def fault(self, after: int | None) -> int | None:
        """The step before which a fault happens; a reply in one piece has two steps, its halves."""
        return after if after is None or self.is_stream else min(after, 1)


def reply_facts(script: Script, ask: ScriptedRequest, number: int, created: int) -> ReplyFacts:
    limit = ask.max_tokens
    is_endless = script.endless_mb > 0
    is_cut = not is_endless and limit is not None and limit < script.tokens
    tokens = script.endless_mb * (2**20 // BLOCK) if is_endless else script.tokens
    tokens = limit if is_cut and limit is not None else tokens
    return ReplyFacts(
        number=number,
        model=script.id,
        created=created,
        text=None if is_endless else script.text,
        tokens=tokens,
        is_cut=is_cut,
        usage=script.usage,
        prompt=ask.words() if script.prompt_tokens is None else script.prompt_tokens,
        cached=script.cached_tokens,
        completion=tokens if script.completion_tokens is None else script.completion_tokens,
        dimensions=script.dimensions,
    )


def streamed_reply(
    script: Script,
    writer: StreamingEndpointWriter,
    ask: ScriptedRequest,
    facts: ReplyFacts,
    headers: list[tuple[str, str]],
) -> ReplyPlan:
    """A streamed reply."""
    stream = writer.stream(ask, facts)
    head, pieces, closing, count = stream.head, stream.pieces, stream.closing, len(stream.pieces)

    def unit(at: int) -> bytes:
        return head + pieces[at] if at < count else closing[at - count]

    headers = [("content-type", "text/event-stream"), ("cache-control", "no-cache"), *headers]
    framing = "chunked" if script.framing == "auto" else script.framing
    chunked = framing == "chunked"
    wrapper = _wrapper(script, chunked)
    steps, length = count + len(closing), None
    opening = b"".join(stream.opening)
    if framing == "length":
        length = _length(script, stream, [unit(at) for at in range(steps)])
    close = script.close_each or framing == "close"
    return ReplyPlan(
        head=_head(200, script, headers, length, chunked, close),
        opening=opening,
        unit=unit,
        steps=steps,
        tokens=count,
        error=stream.error,
        wrapper=wrapper,
        is_chunked=chunked,
        close=close,
        is_stream=True,
    )


def whole_reply(
    script: Script, status: int, body: bytes, content_type: str, headers: list[tuple[str, str]]
) -> ReplyPlan:
    """A reply in one piece: a whole answer, or an error."""
    framing = "length" if script.framing == "auto" else script.framing
    chunked = framing == "chunked"
    if script.endless_mb:
        parts = [body[at : at + BLOCK] for at in range(0, len(body), BLOCK)]
    elif script.die_after is not None or script.stall_after is not None:
        parts = [body[: len(body) // 2], body[len(body) // 2 :]]
    else:
        parts = [body]
    length = None
    if framing == "length":
        length = _wrapped(script, parts) if script.gzip else len(body)
    close = script.close_each or framing == "close"
    return ReplyPlan(
        head=_head(status, script, [("content-type", content_type), *headers], length, chunked, close),
        opening=b"",
        unit=parts.__getitem__,
        steps=len(parts),
        tokens=0,
        error=b"",
        wrapper=_wrapper(script, chunked),
        is_chunked=chunked,
        close=close,
        is_stream=False,
    )


def error_reply(script: Script, writer: EndpointWriter, headers: list[tuple[str, str]]) -> ReplyPlan:
    """The answer that `error_status` asks for."""
    status = script.error_status or 500
    body = script.error_body.encode() or orjson.dumps(writer.refuse(status, f"scripted error {status}"))
    if script.retry_after is not None:
        headers = [*headers, ("retry-after", script.retry_after)]
    return whole_reply(script, status, body, "application/json", headers)


def _head(
    status: int, script: Script, headers: list[tuple[str, str]], length: int | None, chunked: bool, close: bool
) -> bytes:
    if script.gzip:
        headers = [*headers, ("content-encoding", "gzip")]
    if script.header_bytes:
        headers = [*headers, ("x-filler", "f" * script.header_bytes)]
    return reply_head(status, headers, length, chunked=chunked, close=close)


def _wrapper(script: Script, chunked: bool) -> Wrapper:
    return Wrapper(chunked=chunked, gzip=script.gzip, chunk_bytes=script.chunk_bytes)


def _length(script: Script, stream: Stream, units: list[bytes]) -> int:
    """The size of the whole stream, with an error event in place of what it replaces."""
    at = script.error_event_after
    if at is not None and at < len(units):
        units = [*units[: max(at, 0)], stream.error]
    return _wrapped(script, [b"".join(stream.opening), *units])


def _wrapped(script: Script, units: list[bytes]) -> int:
    """The compressed size depends on the flushes, so the same units go through a wrapper of their own."""
    wrapper = _wrapper(script, chunked=False)
    return sum(len(wrapper.wrap(unit)) for unit in units if unit) + len(wrapper.end())
