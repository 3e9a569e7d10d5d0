"""Through the running program: the same upstream asked as it speaks, and in other dialects."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench import exchange
from bench.exchange import Ask
from bench.processes import Child, cpu_seconds, free_port, tree

CLIENTS = ("chat", "messages", "responses", "ollama")
PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}
MARKS = {
    "chat": b'"content":"tok', "messages": b'"text_delta"', "responses": b"event: response.output_text.delta",
    "ollama": b'"done":false',
}  # fmt: skip
"""What each event with text holds once."""
ENDS = {"chat": b"[DONE]", "messages": b"message_stop", "responses": b"response.completed", "ollama": b'"done":true'}
STREAMS = 64
_CONFIG = """\
[front_door]
port = {port}
[paths]
state = "{folder}/state"
[[serve]]
name = "bench"
engine = "openai"
base_url = "http://127.0.0.1:{upstream}/v1"
served_name = "{model}"
dialects = ["chat"]
max_active = 4096
queue = 4096
"""


class Row(NamedTuple):
    """One client's dialect. `whole`: median seconds; `event`: CPU seconds of Stoker per event."""

    client: str
    whole: float
    event: float
    events: int
    lost: int


def measure(folder: Path, rounds: int, requests: int, events: int) -> list[Row]:
    """A Stoker of its own in `folder`; a round measures every dialect in turn. Gives each one's median round."""
    upstream, port = free_port(), free_port()
    engine = Child.start("upstream", [sys.executable, "-m", "bench.upstream", str(upstream)], folder / "upstream.log")
    config = folder / "stoker.toml"
    config.write_text(_CONFIG.format(port=port, upstream=upstream, folder=folder, model=exchange.MODEL))
    program = str(Path(sys.executable).with_name("stoker"))
    stoker = Child.start("stoker", [program, "up", "--config", str(config)], folder / "stoker.log")
    try:
        return asyncio.run(_rounds(port, stoker.pid, rounds, requests, events))
    finally:
        stoker.end()
        engine.end()


async def _rounds(port: int, pid: int, rounds: int, requests: int, events: int) -> list[Row]:
    await _until_it_answers(port)
    seen: dict[str, list[Row]] = {client: [] for client in CLIENTS}
    for round_ in range(rounds + 1):
        for client in CLIENTS:
            row = await _one(port, pid, client, requests, events)
            if round_:  # the first is for warming up
                seen[client].append(row)
    rows = []
    for client, found in seen.items():
        middle = len(found) // 2
        whole = sorted(row.whole for row in found)[middle]
        event = sorted(row.event for row in found)[middle]
        rows.append(Row(client, whole, event, sum(r.events for r in found), sum(r.lost for r in found)))
    return rows


async def _one(port: int, pid: int, client: str, requests: int, events: int) -> Row:
    times = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(requests):
        began = time.perf_counter()
        writer.write(_request(client, Ask(number, stream=False)))
        await _read_whole(reader)
        times.append(time.perf_counter() - began)
    writer.close()
    short, long = max(1, events // 10), events
    costs, lost = [], 0
    for count in (short, long):
        before = cpu_seconds(tree(pid))
        got = await asyncio.gather(*(_stream(port, client, n, count) for n in range(STREAMS)))
        costs.append(cpu_seconds(tree(pid)) - before)
        lost += sum(count - seen for seen in got)
    event = (costs[1] - costs[0]) / (STREAMS * (long - short))
    return Row(client, sorted(times)[len(times) // 2], event, STREAMS * (long + short), lost)


async def _stream(port: int, client: str, number: int, events: int) -> int:
    """Events with text that came. The pace is 5 ms, so that each is a read of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    writer.write(_request(client, Ask(number, stream=True, events=events, gap=5000)))
    body = await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()
    if ENDS[client] not in body:
        raise AssertionError(f"{client}: the stream did not end properly: {body[-300:]!r}")
    return body.count(MARKS[client])


async def _read_whole(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise AssertionError(head)
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))


def _request(client: str, ask: Ask) -> bytes:
    """About 2 KB; the marker stands in the first message."""
    chat = json.loads(exchange.request("bench", ask, 2048).fill(ask.key()))
    turns = chat["messages"]
    fields: dict[str, Any] = {"messages": turns}
    if client == "messages":
        fields["max_tokens"] = 100
    elif client == "responses":
        fields = {"input": turns}
    body = json.dumps({"model": "bench", "stream": ask.stream, **fields}).encode()
    return b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        PATHS[client].encode(), len(body), body,
    )  # fmt: skip


async def _until_it_answers(port: int) -> None:
    for _ in range(200):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_request("chat", Ask(1, stream=False)))
            await _read_whole(reader)
            writer.close()
            return
        except (OSError, AssertionError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.05)
    raise AssertionError("Stoker did not answer within ten seconds")
