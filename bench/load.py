"""The load generator: `python -m bench.load`, a job as JSON on stdin, its result as JSON on stdout.

A job is a list of passes over the same keep-alive connections. A pass either runs closed-loop for some seconds or
gives each connection a number of exchanges; it reads the gateway's CPU clocks itself, at its first and its last byte.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from time import perf_counter

import msgspec
import uvloop

from bench.connection import Connection, open_with
from bench.exchange import CHAT, Ask
from bench.processes import cpu_seconds, resident_bytes, tree

UNFINISHED = "unfinished at the deadline"


class Pass(msgspec.Struct, frozen=True):
    """One stretch of load. Either `seconds` (closed loop) or `repeats` per connection."""

    name: str
    body: int
    """Request body, bytes."""
    stream: bool = False
    events: int = 0
    gap: int = 0
    """Microseconds between two events."""
    seconds: float = 0.0
    repeats: int = 0
    rate: float = 0.0
    """Requests per second over all connections together, evenly; 0 = as fast as replies come."""
    spread: float = 0.0
    """Seconds over which the connections begin, evenly: what arrives in one burst measures the burst."""
    deadline: float = 30.0


class Job(msgspec.Struct, frozen=True):
    """What to load, how hard. `pid` is the gateway's process, None for direct."""

    host: str
    port: int
    model: str
    connections: int
    passes: tuple[Pass, ...]
    key: str | None = None
    pid: int | None = None
    exact: bool = True
    path: str = CHAT
    headers: tuple[tuple[str, str], ...] = ()
    """What is sent besides the key and what HTTP needs."""


class Result(msgspec.Struct, frozen=True):
    """One pass. Times are seconds; `cpu` is the gateway's alone."""

    name: str
    exchanges: int
    wall: float
    cpu: float
    first: list[float]
    """To the first token (streamed) or byte (not streamed)."""
    total: list[float]
    failures: dict[str, int]
    resident: int
    """Bytes at the end of the pass."""


@dataclasses.dataclass(slots=True)
class Tally:
    """What a pass has seen so far."""

    first: list[float] = dataclasses.field(default_factory=list)
    total: list[float] = dataclasses.field(default_factory=list)
    failures: Counter[str] = dataclasses.field(default_factory=Counter)
    exchanges: int = 0


class Generator:
    """Runs a job's passes one after another, up to the first that its gateway does not finish in time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._numbers: Iterator[int] = count(1)
        self._connections: list[Connection] = []

    async def run(self) -> list[Result]:
        self._connections = [await self._connect() for _ in range(self._job.connections)]
        try:
            results: list[Result] = []
            for one in self._job.passes:
                results.append(await self._run_pass(one))
                if UNFINISHED in results[-1].failures:
                    break  # it cannot carry this load: more of it says nothing new
            return results
        finally:
            for connection in self._connections:
                connection.close()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, self._job.host, self._job.port)
        return connection

    async def _run_pass(self, one: Pass) -> Result:
        job, tally = self._job, Tally()
        pids = [] if job.pid is None else tree(job.pid)
        began, cpu = perf_counter(), cpu_seconds(pids)
        try:
            async with asyncio.timeout(one.deadline), asyncio.TaskGroup() as group:
                for index in range(job.connections):
                    group.create_task(self._work(one, index, began, tally))
        except TimeoutError:
            tally.failures[UNFINISHED] += max(1, job.connections * one.repeats - tally.exchanges)
        spent, wall = cpu_seconds(pids) - cpu, perf_counter() - began
        return Result(
            one.name, tally.exchanges, wall, spent, tally.first, tally.total, dict(tally.failures), resident_bytes(pids)
        )

    async def _work(self, one: Pass, index: int, began: float, tally: Tally) -> None:
        """What one connection does during a pass."""
        job = self._job
        ask = Ask(0, one.stream, one.events, one.gap)
        plan = open_with(job.host, job.port, job.key, job.model, ask, one.body, job.exact, job.path, job.headers)
        await asyncio.sleep(one.spread * index / job.connections)
        done = 0
        connections = job.connections
        while (done < one.repeats) if one.repeats else (perf_counter() - began < one.seconds):
            if one.rate:
                due = began + (done * connections + index) / one.rate
                await asyncio.sleep(max(0.0, due - perf_counter()))
            if not self._connections[index].is_open:
                self._connections[index] = await self._connect()
            outcome = await self._connections[index].exchange(plan, ask._replace(number=next(self._numbers)))
            done += 1
            tally.exchanges += 1
            if outcome.failure is not None:
                tally.failures[outcome.failure] += 1
            elif outcome.first is not None:
                tally.first.append(outcome.first)
                tally.total.append(outcome.total)


async def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    gc.disable()  # a collection in here would look like a slow gateway
    results = await Generator(job).run()
    sys.stdout.buffer.write(msgspec.json.encode(results))


if __name__ == "__main__":
    uvloop.run(main())
