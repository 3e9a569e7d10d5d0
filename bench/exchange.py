"""One request and its reply as both ends know it. Pure.

The request carries a marker in its first message (the only place that every gateway leaves alone), so the
upstream needs no state and the load generator knows each byte that must come back. Every exchange has its own
number: bytes of one stream that turn up in another are seen.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MODEL = "bench-engine"
"""What the upstream shows in /v1/models."""

CHAT = "/v1/chat/completions"
"""Where requests go, unless a gateway has another path for them."""

_MARKER = re.compile(rb"bench number=([0-9a-f]{8}) stream=([01]) events=(\d{1,6}) gap=(\d{1,9})")
_USAGE = re.compile(rb'"include_usage"\s*:\s*true')
_TOKEN = re.compile(rb"tok(\d{5})-([0-9a-f]{8})")
_HOLE = b"@@number"  # as long as a number is


class Ask(NamedTuple):
    """What the marker says. `gap` is microseconds between two events; `events` counts those with text."""

    number: int
    stream: bool
    events: int = 0
    gap: int = 0

    def key(self) -> bytes:
        return b"%08x" % self.number


def read(body: bytes) -> Ask | None:
    """The marker of a request body, None if there is none."""
    found = _MARKER.search(body)
    if found is None:
        return None
    number, stream, events, gap = found.groups()
    return Ask(int(number, 16), stream == b"1", int(events), int(gap))


def wants_usage(body: bytes) -> bool:
    return _USAGE.search(body) is not None


class Template:
    """Bytes with holes for the exchange's number; filling them costs one pass over the bytes."""

    __slots__ = ("_pieces",)

    def __init__(self, text: bytes) -> None:
        self._pieces = text.split(_HOLE)

    def fill(self, key: bytes) -> bytes:
        return key.join(self._pieces)


def request(model: str, ask: Ask, size: int) -> Template:
    """A chat request of exactly `size` bytes (at least about 250) whose number is still open."""
    marker = f"bench number={_HOLE.decode()} stream={int(ask.stream)} events={ask.events} gap={ask.gap}"
    text = (
        f'{{"model":"{model}","stream":{"true" if ask.stream else "false"},"max_tokens":4096,'
        f'"messages":[{{"role":"system","content":"{marker}"}},{{"role":"user","content":"'
    )
    end = '"}]}'
    words = "the quick brown fox jumps over the lazy dog "
    room = size - len(text) - len(end)
    return Template((text + (words * (max(room, 0) // len(words) + 1))[: max(room, 0)] + end).encode())


def plain_reply() -> bytes:
    """The 0.6 KB answer to a request that does not stream; a template's text."""
    text = " ".join(f"word{n}" for n in range(45))
    return (
        b'{"id":"chatcmpl-@@number","object":"chat.completion","created":1700000000,"model":"bench-engine",'
        b'"choices":[{"index":0,"message":{"role":"assistant","content":"tok00000-@@number '
        + text.encode()
        + b'"},"finish_reason":"stop"}],"usage":{"prompt_tokens":500,"completion_tokens":50,"total_tokens":550}}'
    )


def _chunk(delta: str, finish: str = "null") -> bytes:
    return (
        'data: {"id":"chatcmpl-@@number","object":"chat.completion.chunk","created":1700000000,'
        f'"model":"bench-engine","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}\n\n'
    ).encode()


def opening() -> bytes:
    """The event that only says who speaks; a template's text."""
    return _chunk('{"role":"assistant","content":""}')


def event(index: int) -> bytes:
    """Event number `index` with its counter in it; a template's text."""
    return _chunk(f'{{"content":"tok{index:05d}-@@number "}}')


def ending(events: int, usage: bool) -> bytes:
    """Finish, usage where it was asked for, and `[DONE]`; a template's text."""
    counted = (
        b'data: {"id":"chatcmpl-@@number","object":"chat.completion.chunk","created":1700000000,'
        b'"model":"bench-engine","choices":[],"usage":{"prompt_tokens":500,"completion_tokens":%d,'
        b'"total_tokens":%d}}\n\n' % (events, 500 + events)
        if usage
        else b""
    )
    return _chunk("{}", '"stop"') + counted + b"data: [DONE]\n\n"


def first_token_at(events: int) -> int:
    """Bytes of a streamed reply up to the end of its first event with text."""
    return len(opening()) + (len(event(0)) if events else 0)


def reply(ask: Ask, usage: bool = False) -> Template:
    """The whole body that must come back."""
    if not ask.stream:
        return Template(plain_reply())
    return Template(b"".join((opening(), *(event(n) for n in range(ask.events)), ending(ask.events, usage))))


def misordered(body: bytes, ask: Ask) -> str | None:
    """What is wrong with a reply that a gateway rewrote: the counters must be there once each, in order, ours."""
    tokens = _TOKEN.findall(body)
    wanted = list(range(ask.events)) if ask.stream else [0]
    seen = [int(count) for count, _ in tokens]
    if any(key != ask.key() for _, key in tokens):
        return "bytes of another exchange"
    if seen != wanted:
        return f"{len(seen)} events instead of {len(wanted)}" if len(seen) != len(wanted) else "events out of order"
    if ask.stream and not body.rstrip().endswith(b"data: [DONE]"):
        return "no [DONE]"
    return None
