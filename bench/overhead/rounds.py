"""Starts upstream and gateways, interleaves the scenarios, collects what the load generator saw."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import exchange
from bench.exchange import Ask
from bench.load import Job, Result
from bench.overhead.gateways import Launch, Missing, Site, launch
from bench.overhead.scenarios import Scenario
from bench.processes import Child, cpu_seconds, free_port, resident_bytes, split_cpus, tree

IDLE = 2.0
"""Seconds over which a gateway that does nothing is watched, before its first load."""


SETTLE = 0.2
"""Seconds a gateway gets after it was thawed, for timers that are overdue."""


class Record(msgspec.Struct, frozen=True):
    """One gateway under one scenario in one round."""

    round: int
    gateway: str
    scenario: str
    results: list[Result]
    error: str | None = None
    """The load generator itself failed."""


class Memory(msgspec.Struct, frozen=True):
    """Resident bytes of a gateway, all its processes, before and after; `idle` is CPU seconds per second before."""

    gateway: str
    before: int
    after: int
    idle: float


class Run(msgspec.Struct, frozen=True):
    """Everything that was seen, unaggregated."""

    records: list[Record]
    memory: list[Memory]
    missing: dict[str, str]
    """Gateway -> why it was not measured."""
    pinned: bool


class Up(NamedTuple):
    """A gateway that answers. `child` None: direct."""

    name: str
    port: int
    launch: Launch
    child: Child | None


@contextlib.contextmanager
def _awake(child: Child | None) -> Iterator[None]:
    """The others stay frozen: an idle gateway that is busy with itself would be charged to its neighbour."""
    if child is None:
        yield
        return
    child.thaw()
    time.sleep(SETTLE)
    try:
        yield
    finally:
        child.freeze()


class Bench:
    """One run. Use as a context manager: leaving it ends every child, by pid."""

    def __init__(self, folder: Path, peers: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._folder = folder
        self._peers = peers
        self._say = say
        self._key = "sk-" + secrets.token_hex(16)
        self._cpus = split_cpus()
        self._children = contextlib.ExitStack()
        self._missing: dict[str, str] = {}

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._children.close()

    def run(self, names: Sequence[str], scenarios: Sequence[Scenario], rounds: int) -> Run:
        """Round by round and scenario by scenario, each gateway in turn, beginning with another one each round."""
        upstream = self._start_upstream()
        up = [one for name in names if (one := self._start(name, upstream)) is not None]
        running = {one.name: one.child for one in up if one.child is not None}
        for child in running.values():
            child.freeze()
        idle = {name: self._watch(child) for name, child in running.items()}
        before = {name: resident_bytes(tree(child.pid)) for name, child in running.items()}
        records: list[Record] = []
        for number in range(rounds):
            turn = up[number % len(up) :] + up[: number % len(up)]
            for scenario in scenarios:
                for one in turn:
                    self._say(f"round {number + 1} of {rounds}: {scenario.title}: {one.name}")
                    with _awake(one.child):
                        records.append(self._measure(number, one, scenario))
        memory = [
            Memory(name, before[name], resident_bytes(tree(child.pid)), idle[name]) for name, child in running.items()
        ]
        return Run(records, memory, self._missing, self._cpus is not None)

    def _track(self, child: Child) -> Child:
        def end() -> None:
            for pid in child.end():
                self._say(f"{child.name} had left process {pid} behind; it was ended")

        self._children.callback(end)
        return child

    def _start_upstream(self) -> int:
        port = free_port()
        argv = (sys.executable, "-m", "bench.upstream", str(port))
        others = self._cpus[1] if self._cpus else None
        child = self._track(Child.start("upstream", argv, self._folder / "upstream.log", cpus=others))
        self._await_answer(port, Launch(argv, {}), child)
        return port

    def _start(self, name: str, upstream: int) -> Up | None:
        """None, with the reason kept, if it is not installed or does not come up."""
        if name == "direct":
            return Up(name, upstream, Launch((), {}), None)
        folder = self._folder / name
        folder.mkdir()
        port = free_port()
        how = launch(name, Site(folder, port, free_port(), upstream, self._key, self._peers))
        if isinstance(how, Missing):
            self._missing[name] = how.reason
            self._say(f"{name}: {how.reason}")
            return None
        self._say(f"starting {name}")
        cpus = self._cpus[0] if self._cpus else None
        child = self._track(Child.start(name, how.argv, folder / "output.log", how.env, cpus, folder))
        try:
            self._await_answer(port, how, child)
        except RuntimeError as error:
            self._missing[name] = str(error)
            self._say(f"{name}: {error}")
            return None
        return Up(name, port, how, child)

    def _await_answer(self, port: int, how: Launch, child: Child) -> None:
        """Until it answers a real request. Raises RuntimeError with its last words."""
        until = time.monotonic() + how.patience
        last = "no answer"
        while time.monotonic() < until and child.is_alive():
            try:
                last = self._ask(port, how)
            except (OSError, http.client.HTTPException) as error:
                last = repr(error)
            if not last:
                return
            time.sleep(0.05)
        state = "gave no answer" if child.is_alive() else f"ended with code {child.process.returncode}"
        raise RuntimeError(f"{state} ({last}); its last words:\n{child.last_words()}")

    def _ask(self, port: int, how: Launch) -> str:
        """What is wrong with the reply to one request; empty if nothing."""
        ask = Ask(7, stream=False)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection):
            headers = {"content-type": "application/json", "authorization": f"Bearer {self._key}", **dict(how.headers)}
            body = exchange.request(how.model, ask, 2048).fill(ask.key())
            connection.request("POST", how.path, body, headers)
            reply = connection.getresponse()
            text = reply.read()
        if reply.status != 200:
            return f"status {reply.status}: {text[:200].decode(errors='replace')}"
        return exchange.misordered(text, ask) or ""

    def _measure(self, number: int, one: Up, scenario: Scenario) -> Record:
        pid = None if one.child is None else one.child.pid
        job = Job(
            "127.0.0.1",
            one.port,
            one.launch.model,
            scenario.connections,
            scenario.passes,
            self._key,
            pid,
            one.launch.exact,
            one.launch.path,
            one.launch.headers,
        )
        cpus = self._cpus[1] if self._cpus else None
        try:
            done = subprocess.run(
                (sys.executable, "-m", "bench.load"),
                input=msgspec.json.encode(job),
                capture_output=True,
                timeout=30 + sum(a_pass.deadline for a_pass in scenario.passes),
                preexec_fn=None if cpus is None else lambda: os.sched_setaffinity(0, cpus),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return Record(number, one.name, scenario.name, [], f"the load generator hung for {error.timeout:.0f} s")
        if done.returncode != 0:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
            return Record(number, one.name, scenario.name, [], "; ".join(last) or f"exit code {done.returncode}")
        return Record(number, one.name, scenario.name, msgspec.json.decode(done.stdout, type=list[Result]))

    def _watch(self, child: Child) -> float:
        with _awake(child):
            pids = tree(child.pid)
            cpu, began = cpu_seconds(pids), time.perf_counter()
            time.sleep(IDLE)
            return (cpu_seconds(pids) - cpu) / (time.perf_counter() - began)
