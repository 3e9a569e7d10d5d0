"""What keys, limits, fair shares and usage cost: `python -m bench.sharing`.

    steps      microseconds of CPU of each step that a request takes because of them, in turns, in one process
    keys       seconds to start with 10,000 keys, and to find a key among 1 and among 10,000
    fairness   how long a key that asks one at a time waits beside one that floods a real Stoker with 200 requests, in
               multiples of the time in which a place becomes free
    shares     which part of the places a key gets that asks once a second beside one that floods, of short answers

Nothing is asserted. bench/sharing.md has the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from bench import machine
from stoker.access.access_store import AccessStore
from stoker.access.caller import Caller
from stoker.access.keyring import Keyring
from stoker.access.limits import Account, Amounts
from stoker.access.quota import Quota
from stoker.access.usage import UsageTotals
from stoker.domain.decision import Decision
from stoker.domain.key import App, Key, KeySettings, UsageLimits
from stoker.domain.lease import FairShare
from stoker.domain.runtime_key import RuntimeKey
from stoker.domain.serve import Secret
from stoker.domain.usage import ServeUsage
from stoker.request.lease.fair_queue import FairQueue, LearnedCosts
from stoker.request.lease.state import SlotTime
from stoker_lab.testing.client import RawClient
from stoker_lab.testing.scripted import Script, ScriptedServer

KEYS = 10_000
LOOPS = 20_000
ROUNDS = 7
FLOOD = 200
SERVICE = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer loops: noisy figures")
    quick = parser.parse_args().quick
    loops = LOOPS // 20 if quick else LOOPS
    print(machine.headline(machine.facts()))
    for name, figure in steps(loops).items():
        print(f"{name:58} {figure:8.2f} µs")
    for name, figure in keys(loops, KEYS // 20 if quick else KEYS).items():
        print(f"{name:58} {figure:8.3f}")
    for name, figure in asyncio.run(fairness(FLOOD // 10 if quick else FLOOD)).items():
        print(f"{name:58} {figure:8.3f}")
    for name, figure in asyncio.run(shares(10 if quick else 70)).items():
        print(f"{name:58} {figure:8.3f}")
    return 0


def timed(work: Callable[[], object], loops: int) -> float:
    """Microseconds of CPU per call, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(loops):
            work()
        best = min(best, time.process_time() - began)
    return best / loops * 1e6


def steps(loops: int) -> dict[str, float]:
    key = Key("a", Secret("k" * 16, "env:A"))
    limited = Quota(Account("key 'a'", UsageLimits(requests_per_minute=10**9, tokens_per_day=10**12)))
    plain, counted = Caller(key), Caller(key, (limited,))
    costs, share, slot, usage = LearnedCosts(), FairShare("a"), SlotTime(), UsageTotals(time.time)
    queue = FairQueue(costs)
    decision = Decision(
        "r", 0.0, "/v1/chat/completions", serve="s", outcome="served", stream=True, ttft=0.1, latency=1.0
    )
    used = [ServeUsage("s", 100, 20, 0, None, 0.1)]
    keyring = Keyring()
    keyring.configure((key,), ())
    presented = b"k" * 16

    def enter_plain() -> None:
        plain.leave(plain.enter())

    def enter_limited() -> None:
        charge = counted.enter()
        assert charge is not None
        charge.reserve_tokens(2000, 500)
        counted.rate_headers(is_messages=False)
        counted.leave(charge, Amounts(100, 20))

    def take_place() -> None:
        queue.charge(share, 2000)
        costs.learn(share.key, 2000, 120.0)
        slot.leave(2.0, slot.enter(1.0))

    def record() -> None:
        usage.record(key, decision, used)

    found = {
        "find the key": timed(lambda: keyring.find(presented), loops),
        "enter and leave, no limits": timed(enter_plain, loops),
        "fair share and slot time of one lease": timed(take_place, loops),
        "usage of one request": timed(record, loops),
    }
    found["together, for a key without limits"] = sum(found.values())
    found["enter, reserve, headers, settle, leave: two limits"] = timed(enter_limited, loops)
    return found


def keys(loops: int, count: int) -> dict[str, float]:
    app = App("team", KeySettings(tokens_per_day=10**9))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "access.db"
        store = AccessStore(path, 400, time.time, time.time)
        made = [
            RuntimeKey(f"key-{index}", store.keyring.digest(b"sk-stoker-%d" % index).hex(), "sk-stoker-", 0.0, "team")
            for index in range(count)
        ]
        store.close()
        fill(path, made)
        began = time.perf_counter()
        store = AccessStore(path, 400, time.time, time.time)
        store.keyring.configure((), (app,))
        start = time.perf_counter() - began
        one = Keyring()
        one.configure((Key("a", Secret("sk-stoker-0", "env:A")),), ())
        few = timed(lambda: one.find(b"sk-stoker-0"), loops)
        many = timed(lambda: store.keyring.find(b"sk-stoker-77"), loops)
        store.close()
    return {
        f"seconds to start with {count} keys": start,
        "microseconds to find a key: among 1": few,
        f"microseconds to find a key: among {count}": many,
        "ratio": many / few,
    }


def fill(path: Path, made: list[RuntimeKey]) -> None:
    """As 10,000 calls of `stoker keys create` would, in one transaction."""
    with sqlite3.connect(path) as db:
        rows = [(key.name, msgspec.json.encode(key).decode()) for key in made]
        db.executemany("INSERT INTO keys VALUES (?, ?)", rows)


@asynccontextmanager
async def program(script: Script, limits: str) -> AsyncIterator[int]:
    """The port of a Stoker with the keys `a` and `b`, and one external serve."""
    upstream = ScriptedServer(script)
    await upstream.start()
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "A": "key-a-with-16-letters", "B": "key-b-with-16-letters", "HOME": directory}
        port = 20000 + os.getpid() % 20000
        config = Path(directory) / "stoker.toml"
        config.write_text(
            f"[front_door]\nport = {port}\n"
            'keys = [{ name = "a", value = "env:A" }, { name = "b", value = "env:B" }]\n'
            f'[paths]\nstate = "s"\n[[serve]]\nname = "m"\nbase_url = "{upstream.url}/v1"\n{limits}'
        )
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("stoker"), "up", "--config", config, env=environment,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            while b"listening on" not in await process.stdout.readline():
                pass
            await asyncio.sleep(1.0)
            yield port
        finally:
            process.terminate()
            await process.wait()
            await upstream.close()


async def fairness(flood: int) -> dict[str, float]:
    """Through the whole program, on two places."""
    limits = f'max_active = 2\nqueue = {flood + 10}\nqueue_timeout = "120s"\n'
    async with program(Script(id="m", first_event_after=SERVICE, tokens=1), limits) as port:
        alone = [await ask_once(port, "B") for _ in range(5)]
        async with asyncio.TaskGroup() as group:
            for _ in range(flood):
                group.create_task(ask_once(port, "A"))
            await asyncio.sleep(0.5)
            beside = [await ask_once(port, "B") for _ in range(min(40, flood // 5))]
    wait = sorted(seconds - statistics.median(alone) for seconds in beside)
    p95 = wait[int(len(wait) * 0.95)]
    return {
        "seconds of one answer alone (median)": statistics.median(alone),
        f"seconds waited beside a flood of {flood} (p95)": p95,
        "in times of one answer on its place": p95 / SERVICE,
    }


async def shares(seconds: int) -> dict[str, float]:
    """One key asks once a second, another one floods four places; answers of eight tokens take three seconds."""
    async with program(Script(id="m", first_event_after=3.0, tokens=8), "max_active = 4\nqueue = 64\n") as port:
        served, end = Counter[str](), time.perf_counter() + seconds

        async def asked(key: str, again: bool) -> None:
            while True:
                with contextlib.suppress(AssertionError):
                    await ask_once(port, key)
                    served[key] += time.perf_counter() < end
                if not again or time.perf_counter() > end:
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(16):
                group.create_task(asked("A", again=True))
            for _ in range(seconds - 1):
                group.create_task(asked("B", again=False))
                await asyncio.sleep(1.0)
    return {f"share of a key that asks once a second for {seconds} s": served["B"] / served.total()}


async def ask_once(port: int, key: str) -> float:
    began = time.perf_counter()
    given = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    async with RawClient(port, timeout=120) as client:
        value = f"key-{key.lower()}-with-16-letters"
        reply = await client.ask("POST", "/v1/chat/completions", given, authorization=f"Bearer {value}")
    assert reply.status == 200, reply.body
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
