"""Each pair of dialects by itself: no sockets, one process, CPU time of the calls alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from stoker.domain.answer import (
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Finished,
    Grew,
    Opened,
    StopReason,
    Tokens,
)
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt
from stoker.engines.registry import DEFAULT
from stoker.request.translate.neutral.capabilities import capabilities_of
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator, Written, answer_writer, read_prompt, write_prompt

SERVES = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)
CLIENTS = (*SERVES, Dialect.COMPLETIONS, Dialect.OLLAMA_CHAT)
SIGNER = ThinkingSigner((b"k" * 32,))
EVENTS = 2000
_FRAGMENT = 200


class Pair(NamedTuple):
    """Microseconds of CPU; the median of the rounds."""

    client: Dialect
    serve: Dialect
    small: float
    """A request of 2 KB, both ways of it."""
    large: float
    """One of 200 KB."""
    event: float
    """One text event of a stream."""
    growth: float
    """CPU for an argument of 2 MB in 10,000 pieces, times that of 1 MB in 5,000: 2 is linear."""


def pairs(rounds: int, pieces: int = 5000) -> list[Pair]:
    """Every client's dialect to every serve's, where they differ. `pieces`: of the smaller argument."""
    return [_pair(client, serve, rounds, pieces) for serve in SERVES for client in CLIENTS if client is not serve]


def _pair(client: Dialect, serve: Dialect, rounds: int, pieces: int) -> Pair:
    small, large = (_body(client, size) for size in (2 * 1024, 200 * 1024))
    text = _stream(serve, BlockKind.TEXT, [f"word{n} " for n in range(EVENTS)])
    one, two = (_stream(serve, BlockKind.CALL, _argument(count)) for count in (pieces, 2 * pieces))
    event = _median(rounds, lambda: _answer(client, serve, text)) / EVENTS
    if client is Dialect.COMPLETIONS:  # it has no calls
        growth = 2.0
    else:
        growth = _median(rounds, lambda: _answer(client, serve, two)) / _median(
            rounds, lambda: _answer(client, serve, one)
        )
    asked = [_median(rounds * 5, partial(_request, client, serve, body)) for body in (small, large)]
    return Pair(client, serve, asked[0], asked[1], event, growth)


def _median(rounds: int, work: Callable[[], object]) -> float:
    """Microseconds of CPU."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append((time.process_time() - began) * 1e6)
    return sorted(times)[len(times) // 2]


def _request(client: Dialect, serve: Dialect, body: bytes) -> None:
    prompt, losses = read_prompt(client, body)
    write_prompt(prompt, losses, capabilities_of(DEFAULT.traits, serve, False), SIGNER)


def _answer(client: Dialect, serve: Dialect, reads: list[bytes]) -> None:
    """Each event arrives in a read of its own, as from an engine."""
    answer = AnswerTranslator(serve, Written(_prompt(client), b"", {}, Losses()), _asked(client))
    for read in reads:
        answer.feed(read)
    if not answer.has_ended():
        raise AssertionError("the answer did not come to its end")


def _prompt(client: Dialect) -> Prompt:
    return Prompt(client, "m", [], stream=True)


def _asked(client: Dialect) -> AnswerContext:
    return AnswerContext(_prompt(client), "req_1", 1, SIGNER, "m")


def _stream(serve: Dialect, kind: BlockKind, pieces: list[str]) -> list[bytes]:
    """What a serve of that dialect would send, one read per event: our own writer speaks for it."""
    writer = answer_writer(_asked(serve), Losses())
    events: list[Event] = [Began("id", "m"), Opened(0, kind, "call_1", "write")]
    events += (Grew(0, piece) for piece in pieces)
    events += (Closed(0), Counted(Tokens(input=9, output=9)), Finished(StopReason.END), Ended())
    return [written for event in events if (written := writer.write(event))]


def _argument(count: int) -> list[str]:
    """A JSON object in that many pieces of 200 characters."""
    return ['{"text":"', *("x" * _FRAGMENT for _ in range(count - 2)), '"}']


def _body(client: Dialect, size: int) -> bytes:
    """A request with two tools and a conversation that fills it up."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    turns = [{"role": role, "content": "w" * 400} for role in ("user", "assistant", "user")]
    while (body := _document(client, turns, schema)) is not None and len(body) < size:
        turns += ({"role": "assistant", "content": "w " * 250}, {"role": "user", "content": "v " * 250})
    return body


def _document(client: Dialect, turns: list[dict[str, str]], schema: dict[str, Any]) -> bytes:
    function = {"name": "read", "description": "Reads a file.", "parameters": schema}
    fields: dict[str, Any] = {"messages": turns, "tools": [{"type": "function", "function": function}]}
    if client is Dialect.MESSAGES:
        fields |= {"max_tokens": 100, "tools": [{"name": "read", "input_schema": schema}]}
    elif client is Dialect.RESPONSES:
        fields = {"input": turns, "tools": [{"type": "function", **function}]}
    elif client is Dialect.COMPLETIONS:
        fields = {"prompt": "".join(turn["content"] for turn in turns)}
    return json.dumps({"model": "m", "stream": True, **fields}).encode()
