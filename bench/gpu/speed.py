"""Tokens per second and the first token, through Stoker and of the same engine asked directly, by turns."""

from __future__ import annotations

import http.client
import json
import threading
import time
from functools import partial
from statistics import median
from typing import NamedTuple

from bench.gpu.plan import stream_case
from bench.gpu.stage import Figures, Stage
from bench.swap.plane import Plane

PATIENCE = 120.0
"""Seconds for one stream."""
NAME = "model0"


class Stream(NamedTuple):
    """One answer. Seconds from the request's first byte."""

    first: float
    total: float
    tokens: int


def speed(stage: Stage) -> None:
    """With the smallest model, whose tokens come fastest: what Stoker adds shows most."""
    path, most = stage.models()[0][1], max(stage.plan.streams)
    serve = stage.llama(NAME, path, f"context = {stage.plan.tokens * 2}\nparallel = {most}\nmax_active = {most}")
    with stage.plane([serve]) as plane:
        plane.switch(NAME)
        for streams in stage.plan.streams:
            stage.attempt(stream_case(streams), partial(_compared, stage, plane, streams))


def _compared(stage: Stage, plane: Plane, streams: int) -> tuple[Figures, str]:
    command = plane.command(NAME)
    places = {"direct": (command.port, command.key), "through": (plane.port, plane.key)}
    seen: dict[str, list[tuple[float, list[Stream]]]] = {"direct": [], "through": []}
    at_once(command.port, command.key, streams, 4)  # not counted
    for _ in range(stage.plan.rounds):
        for place, (port, key) in places.items():
            seen[place].append(at_once(port, key, streams, stage.plan.tokens))
    rates = {place: median(sum(s.tokens for s in found) / took for took, found in seen[place]) for place in seen}
    firsts = {place: 1000 * median(s.first for _, found in seen[place] for s in found) for place in seen}
    figures = {
        "direct_tokens_s": rates["direct"], "through_tokens_s": rates["through"],
        "through_share": rates["through"] / rates["direct"],
        "direct_first_ms": firsts["direct"], "through_first_ms": firsts["through"],
        "added_first_ms": firsts["through"] - firsts["direct"],
    }  # fmt: skip
    return figures, stage.computes_on


def at_once(port: int, key: str | None, streams: int, tokens: int) -> tuple[float, list[Stream]]:
    """Seconds for all of them, and each. Raises RuntimeError if one fails."""
    found: list[Stream] = []
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            found.append(_stream(port, key, number, tokens))
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(streams)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(f"{len(failures)} of {streams} streams failed: {failures[0]}")
    return time.perf_counter() - began, found


def _stream(port: int, key: str | None, number: int, tokens: int) -> Stream:
    """`ignore_eos`: random weights would end where they like. Tokens are counted by the engine's own usage."""
    body = {
        "model": NAME, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": tokens,
        "ignore_eos": True, "temperature": 0, "messages": [{"role": "user", "content": f"Count from {number}."}],
    }  # fmt: skip
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.connect()
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        reply = connection.getresponse()
        if reply.status != 200:
            raise RuntimeError(f"status {reply.status}: {reply.read(300).decode(errors='replace')}")
        first, counted = None, 0
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if first is None and any(choice.get("delta", {}).get("content") for choice in event.get("choices", ())):
                first = time.perf_counter() - began
            counted = (event.get("usage") or {}).get("completion_tokens", counted)
        total = time.perf_counter() - began
    finally:
        connection.close()
    if not counted:
        raise RuntimeError("the stream ended without usage")
    return Stream(total if first is None else first, total, int(counted))
