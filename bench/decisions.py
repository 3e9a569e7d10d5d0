"""What a decision of the scheduler costs in a large fleet: `python -m bench.decisions [--requests N]`; and whether its
memory grows: `python -m bench.decisions --memory`.

Serves with three places each, on 16 slots that hold four of them. Requests for some of the serves come much more often
than for others; twenty are served at a time, and each load takes 3 s of a virtual clock. Timed is each input of the
scheduler, with all that it decides; the memory is that of the process.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from random import Random

from bench.figures import nearest_rank, show, table
from stoker.domain.prompt_chain import PromptChain
from stoker.domain.serve import Serve, Slot, SwapPolicy
from stoker.request.lease.commands import Command, Cut, Grant, Reassign, Reject, StartSwap, WakeAt
from stoker.request.lease.places import choose_replica
from stoker.request.lease.prompt_routing import PrefixMemory
from stoker.request.lease.scheduler import Scheduler

SLOTS, PLACES, FIT = 16, 3, 4
AT_ONCE = 20
CONVERSATIONS = 400
LOAD_SECONDS = 3.0
BETWEEN = 0.05
"""Seconds between two requests."""


class Fleet:
    """Carries out at once what the scheduler asks for, and times each input."""

    def __init__(self, serves: int, prompts: PrefixMemory | None = None) -> None:
        """`prompts`: requests are turns of conversations that go where their beginning is known."""
        self.prompts = prompts
        self.turns: dict[int, int] = {}
        self.asked = 0
        self.random = Random(1)
        slots = [Slot(f"gpu{n}", memory=FIT, swap=SwapPolicy()) for n in range(SLOTS)]
        self.scheduler = Scheduler(slots, [replica for n in range(serves) for replica in self._replicas(f"m{n}")])
        self.count = serves
        self.now, self.wake = 0.0, float("inf")
        self.replica_of: dict[int, str] = {}
        self.served: list[int] = []
        self.loads: list[tuple[float, int]] = []
        self.seconds: dict[str, list[float]] = {"loaded": [], "not loaded": [], "end": [], "swap done": []}

    def _replicas(self, name: str) -> list[Serve]:
        slots = [f"gpu{n}" for n in self.random.sample(range(SLOTS), PLACES)]
        return [
            Serve(f"{name}@{slot}", slot=slot, replica_of=name, replicas=PLACES, memory=1, queue=50, queue_timeout=60.0)
            for slot in slots
        ]

    def run(self, requests: int) -> None:
        for id in range(self.asked, self.asked + requests):
            self.now += BETWEEN
            while self.loads and self.loads[0][0] <= self.now:
                _, swap_id = self.loads.pop(0)
                began = time.perf_counter()
                self.carry_out("swap done", began, self.scheduler.on_swap_done(swap_id, self.now))
            if self.wake <= self.now:
                self.wake = float("inf")
                self.carry_out("", 0.0, self.scheduler.on_tick(self.now))
            self.ask(id)
            if len(self.served) > AT_ONCE:
                ended = self.served.pop(self.random.randrange(len(self.served)))
                began = time.perf_counter()
                self.carry_out("end", began, self.scheduler.on_release(ended, self.replica_of.pop(ended), self.now))
        self.asked += requests

    def ask(self, id: int) -> None:
        name = f"m{min(int(self.random.expovariate(1 / 15)), self.count - 1)}"
        began = time.perf_counter()
        replicas = self.scheduler.replica_sets[name].replicas
        if self.prompts is None:
            replica = choose_replica(replicas, self.now)
        else:
            chain = self.next_turn()
            replica = choose_replica(replicas, self.now, self.prompts.missing(chain, [one.name for one in replicas]))
            self.prompts.remember(chain, replica.name)
        self.replica_of[id] = replica.name
        kind = "loaded" if replica.takes_requests() and replica.phase.value == "ready" else "not loaded"
        self.carry_out(kind, began, self.scheduler.on_request(id, replica.name, self.now))

    def forget(self, ids: Sequence[int]) -> None:
        for id in ids:
            self.replica_of.pop(id, None)

    def next_turn(self) -> PromptChain:
        """The prompt of one of CONVERSATIONS, two messages longer than the last time; one of 40 turns begins anew."""
        conversation = self.random.randrange(CONVERSATIONS)
        turn = self.turns.get(conversation, self.random.randrange(1 << 40) * 64)
        self.turns[conversation] = turn + 1 if turn % 64 < 40 else self.random.randrange(1 << 40) * 64
        blocks = 1 + 2 * (turn % 64)
        ends = tuple(range(500, 500 + 500 * blocks, 500))
        return PromptChain(tuple(hash((turn // 64, n)) for n in range(blocks)), ends)

    def carry_out(self, kind: str, began: float, commands: list[Command]) -> None:
        if kind:
            self.seconds[kind].append(time.perf_counter() - began)
        for command in commands:
            match command:
                case Grant(id):
                    self.served.append(id)
                case Reassign(id, serve):
                    self.replica_of[id] = serve
                case Cut(_, leases, _):
                    self.served = [id for id in self.served if id not in leases]
                    self.forget(leases)
                case Reject(id):
                    self.forget((id,))
                case StartSwap(swap_id, _, victims):
                    if self.prompts is not None:
                        for victim in victims:
                            self.prompts.forget(victim)
                    self.loads.append((self.now + LOAD_SECONDS, swap_id))
                case WakeAt(at):
                    self.wake = float("inf") if at is None else at


def resident_mib() -> float:
    """What this process holds in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def watch_memory(requests: int = 1_000_000) -> int:
    fleet = Fleet(100, PrefixMemory(bound=2_000))
    gc.collect()
    print(f"at the start: {resident_mib():.1f} MiB", flush=True)
    for tenth in range(1, 11):
        fleet.run(requests // 10)
        for values in fleet.seconds.values():
            values.clear()
        gc.collect()
        print(f"after {tenth * requests // 10} requests: {resident_mib():.1f} MiB", flush=True)
    return 0


def _microseconds(seconds: list[float]) -> str:
    """Median and 95th percentile."""
    values = [1e6 * one for one in seconds]
    return f"{show(nearest_rank(values, 0.5))}, {show(nearest_rank(values, 0.95))}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="for each size of the fleet (20,000)")
    parser.add_argument("--rounds", type=int, default=1, help="repeat the largest so often, and print the memory (1)")
    parser.add_argument("--memory", action="store_true", help="a million requests, and the memory after each tenth")
    options = parser.parse_args(arguments)
    if options.memory:
        return watch_memory()
    rows = []
    for serves in (20, 100, 500):
        fleet = Fleet(serves)
        fleet.run(options.requests)
        figures = [_microseconds(values) for values in fleet.seconds.values()]
        rows.append([str(serves), *figures])
    print(table(["serves", *(f"{kind}, p50 and p95 µs" for kind in fleet.seconds)], rows))
    for number in range(options.rounds - 1):
        for values in fleet.seconds.values():
            values.clear()
        print(f"after {(number + 1) * options.requests} requests: {resident_mib():.1f} MiB")
        fleet.now += 100.0
        fleet.run(options.requests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
