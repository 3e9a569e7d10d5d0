"""`python -m bench.timer [--times N] [--json FILE]`: our timer against a server of known timing.

Two things are asked. What the timer adds: the scripted server runs in the same loop and notes, by the same clock, when
it wrote the first and the last token, so its own lateness is not the timer's. And what a user sees: the same server as
a process of its own, whose times are those that it was told; on a busy machine it is late by itself, so that only the
first decides about the exit code.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from bench import machine
from bench.figures import show_spread, spread, table
from bench.processes import end_on_sigterm
from stoker.domain.lease import Target
from stoker_lab.requests.client import ModelClient
from stoker_lab.testing.script.script import Script

MAX_TTFT = 2.0
"""Milliseconds between the timer's TTFT and the true one."""
MAX_TPOT = 0.01
"""Share of the true TPOT."""
_ASK = {"messages": [{"role": "user", "content": "go"}], "stream": True, "stream_options": {"include_usage": True}}


class Case(NamedTuple):
    first: float
    gap: float
    tokens: int


CASES = (Case(0.050, 0.005, 100), Case(0.200, 0.020, 64), Case(1.000, 0.050, 20))


class Seen(NamedTuple):
    """Of one case: seconds that TTFT is off, and the share that TPOT is off, request by request."""

    ttft: list[float]
    tpot: list[float]


def as_written(case: Case, times: int) -> Seen:
    """Against the times at which the server really wrote."""
    return asyncio.run(_own_writes(case, times))


async def _own_writes(case: Case, times: int) -> Seen:
    """A bare server in this loop that notes when it writes."""
    written: list[float] = []
    begun: list[float] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.append(time.perf_counter())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        writer.write(_frame({"delta": {"role": "assistant", "content": ""}}))
        for number in range(case.tokens):
            await asyncio.sleep(case.gap if number else case.first)
            written.append(time.perf_counter())
            writer.write(_frame({"delta": {"content": f"tok{number} "}}))
        usage = {"prompt_tokens": 1, "completion_tokens": case.tokens, "total_tokens": case.tokens + 1}
        writer.write(_frame({"delta": {}, "finish_reason": "stop"}))
        writer.write(b"data: " + msgspec.json.encode({"choices": [], "usage": usage}) + b"\n\ndata: [DONE]\n\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    talk = ModelClient(Target("127.0.0.1", server.sockets[0].getsockname()[1], "", "timer"))
    seen = Seen([], [])
    try:
        for _ in range(times):
            written.clear()
            begun.clear()
            timed = (await talk.ask(_ASK)).timing
            if timed.ttft is None or timed.tpot is None:
                raise RuntimeError(f"the timer saw no tokens: {timed.failure}")
            true = (written[-1] - written[0]) / (case.tokens - 1)
            seen.ttft.append(timed.ttft - (written[0] - begun[0]))
            seen.tpot.append(timed.tpot / true - 1)
    finally:
        talk.close()
        server.close()
        await server.wait_closed()
    return seen


def as_told(case: Case, times: int) -> Seen:
    """The scripted server as a process: it is told the times and keeps them as well as a process can."""
    script = Script(tokens=case.tokens, first_event_after=case.first, gap=case.gap, role_first=True)
    process = subprocess.Popen(script.command(0), stdout=subprocess.PIPE, text=True)
    try:
        port = int((process.stdout.readline() if process.stdout else "").split()[-1].rsplit(":", 1)[-1].strip("/"))
        return asyncio.run(_asked(case, times, Target("127.0.0.1", port, "", script.id)))
    finally:
        process.terminate()
        process.wait()


async def _asked(case: Case, times: int, target: Target) -> Seen:
    talk, seen = ModelClient(target), Seen([], [])
    try:
        for _ in range(times):
            timed = (await talk.ask(_ASK)).timing
            if timed.ttft is None or timed.tpot is None:
                raise RuntimeError(f"the timer saw no tokens: {timed.failure}")
            seen.ttft.append(timed.ttft - case.first)
            seen.tpot.append(timed.tpot / case.gap - 1)
    finally:
        talk.close()
    return seen


def _frame(choice: dict[str, object]) -> bytes:
    return b"data: " + msgspec.json.encode({"id": "x", "model": "timer", "choices": [{"index": 0, **choice}]}) + b"\n\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.timer", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=10, help="requests per case, default %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    end_on_sigterm()
    facts = machine.facts()
    rows, raw, is_reached = [], [], True
    for case in CASES:
        for what, measure in (("as written", as_written), ("as told", as_told)):
            seen = measure(case, found.times)
            off_first, off_each = spread([one * 1e3 for one in seen.ttft]), spread([one * 100 for one in seen.tpot])
            is_good = abs(median(seen.ttft)) * 1e3 <= MAX_TTFT and abs(median(seen.tpot)) <= MAX_TPOT
            is_reached = is_reached and (is_good or what == "as told")
            raw.append({"case": case._asdict(), "what": what, **seen._asdict()})
            told = f"{case.first * 1e3:.0f} ms, {case.gap * 1e3:.0f} ms x {case.tokens}"
            word = "reached" if is_good else "MISSED"
            rows.append((told, what, show_spread(off_first, 2), show_spread(off_each, 2), word))
    if found.json is not None:
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": facts, "seen": raw}), indent=1))
    print(machine.headline(facts))
    if (warning := machine.warning(facts)) is not None:
        sys.stderr.write(warning + "\n")
    print(table(("first, gap x tokens", "true times", "TTFT off ms (< 2)", "TPOT off % (< 1)", "result"), rows))
    return 0 if is_reached else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
