"""Traces and small instances made from a seed. Pure: the same seed, the same trace."""

from __future__ import annotations

from random import Random

from bench.schedule.optimum import ScheduleInstance
from bench.schedule.traces import BLOCK, Trace, TraceRequest

SYSTEM_PROMPT = tuple(range(20))
"""Blocks that all agents share: 10k tokens."""


def all_traces(quick: bool) -> list[Trace]:
    length = 300.0 if quick else 1800.0
    return [
        blips(1, length), bursts(1, length), alternating(1, 10 if quick else 40), thinking(1, 10 if quick else 40),
        even(1, length),
        conversations(1, 4 if quick else 12),
    ]  # fmt: skip


def blips(seed: int, length: float) -> Trace:
    """One slot: a model in steady use, and now and then a single request for another one."""
    random = Random(seed)
    steady = _arrivals(random, length, 4.0, "steady", "worker", 2.0, 6.0)
    blip = _arrivals(random, length, 90.0, "blip", "visitor", 1.0, 4.0)
    return _trace("blips", 1, {"steady": 20.0, "blip": 8.0}, steady + blip, places=4,
                  text="one slot, one model in steady use, single requests for another one")  # fmt: skip


def bursts(seed: int, length: float) -> Trace:
    """Two slots, four models: each is asked in bursts of eight, now and then."""
    random = Random(seed)
    requests = []
    for name in ("a", "b", "c", "d"):
        at = random.expovariate(1 / 60)
        while at < length:
            for _ in range(8):
                requests.append(_request(random, at + random.uniform(0, 5), name, name, 2.0, 10.0))
            at += random.expovariate(1 / 120)
    times = {"a": 5.0, "b": 10.0, "c": 20.0, "d": 40.0}
    return _trace("bursts", 2, times, requests, text="two slots, four models, bursts of eight requests")


def even(seed: int, length: float) -> Trace:
    """Two slots, three models, each asked at random all the time: no order of loads is good."""
    random = Random(seed)
    requests = [r for name in ("a", "b", "c") for r in _arrivals(random, length, 12.0, name, name, 2.0, 8.0)]
    return _trace("even", 2, {"a": 6.0, "b": 6.0, "c": 6.0}, requests, text="two slots, three models, evenly at random")


def alternating(seed: int, turns: int) -> Trace:
    """One slot, two agents with a model each: every turn follows the answer to the one before by a second."""
    random = Random(seed)
    requests: list[TraceRequest] = []
    for name, block in (("coder", 1000), ("writer", 100_000)):
        _add_conversation(random, requests, name, name, 0.0 if name == "coder" else 0.5, turns, block, 1.0)
    return Trace("alternating", 1, {"coder": 10.0, "writer": 10.0}, requests, 4,
                 description="one slot, two agents in turns, each with its own model")  # fmt: skip


def thinking(seed: int, turns: int) -> Trace:
    """One slot, two agents with a model each, which is slow to load: between two turns each runs its tools for 5 s."""
    random = Random(seed)
    requests: list[TraceRequest] = []
    for name, block in (("coder", 1000), ("writer", 100_000)):
        _add_conversation(random, requests, name, name, 0.0 if name == "coder" else 0.5, turns, block, 5.0)
    return Trace("thinking", 1, {"coder": 30.0, "writer": 30.0}, requests, 4,
                 description="one slot, two agents in turns with a model each, 5 s of tools between turns")  # fmt: skip


def conversations(seed: int, turns: int) -> Trace:
    """Two slots, one model, sixteen agents: what counts is which replica remembers whom."""
    random = Random(seed)
    requests: list[TraceRequest] = []
    for number in range(16):
        start = random.uniform(0, 20)
        _add_conversation(random, requests, "fast", f"agent{number}", start, turns, 10_000 * (number + 1), 3.0)
    return Trace("conversations", 2, {"fast": 10.0}, requests, 8, replicas=2,
                 description="two slots, two replicas of one model, sixteen agents")  # fmt: skip


def small_instance(seed: int) -> ScheduleInstance:
    """Two or three slots, one or two serves more than that, 8 to 60 requests, some in bursts.

    The first comes at 0, so that somebody has to wait.
    """
    random = Random(seed)
    slots = random.choice((2, 2, 3))
    serves = range(slots + 1 if slots == 3 else random.choice((3, 4)))
    count = random.randint(8, 60)
    gap = random.choice((2.0, 5.0, 12.0))
    arrivals: list[tuple[float, int]] = []
    at = 0.0
    while len(arrivals) < count:
        serve = random.choice(serves)
        size = random.randint(2, 4) if random.random() < 0.15 else 1
        arrivals += [(at, serve)] * min(size, count - len(arrivals))
        at = round(at + random.expovariate(1 / gap), 1)
    swap_times = tuple(float(random.randint(2, 20)) for _ in serves)
    durations = tuple(float(random.randint(1, 10)) for _ in serves)
    return ScheduleInstance(slots, swap_times, durations, tuple(arrivals))


def trace_of(instance: ScheduleInstance, name: str = "") -> Trace:
    """The same instance for policies: a place for everybody."""
    names = [f"s{serve}" for serve in range(len(instance.swap_times))]
    requests = [TraceRequest(at, names[s], key=names[s], seconds=instance.durations[s]) for at, s in instance.arrivals]
    return Trace(name, instance.slots, dict(zip(names, instance.swap_times, strict=True)), requests, places=1000)


def relaxed(trace: Trace) -> ScheduleInstance:
    """Easier than the trace: a place for everybody, and each request as short as the shortest of its serve."""
    names = list(trace.swap_times)
    durations = [min((r.seconds or 0.0 for r in trace.requests if r.serve == name), default=0.0) for name in names]
    arrivals = tuple((r.at, names.index(r.serve)) for r in trace.requests)
    return ScheduleInstance(trace.slots, tuple(trace.swap_times.values()), tuple(durations), arrivals)


def _request(random: Random, at: float, serve: str, key: str, low: float, high: float) -> TraceRequest:
    return TraceRequest(round(at, 2), serve, key=key, seconds=round(random.uniform(low, high), 2))


def _arrivals(
    random: Random, length: float, gap: float, serve: str, key: str, low: float, high: float
) -> list[TraceRequest]:
    requests, at = [], random.expovariate(1 / gap)
    while at < length:
        requests.append(_request(random, at, serve, key, low, high))
        at += random.expovariate(1 / gap)
    return requests


def _trace(
    name: str, slots: int, times: dict[str, float], requests: list[TraceRequest], places: int = 8, text: str = ""
) -> Trace:
    return Trace(name, slots, times, sorted(requests, key=lambda r: r.at), places, description=text)


def _add_conversation(
    random: Random, requests: list[TraceRequest], serve: str, key: str, start: float, turns: int, block: int,
    think: float,
) -> None:  # fmt: skip
    blocks = SYSTEM_PROMPT
    for turn in range(turns):
        blocks += tuple(range(block, block + random.randint(1, 4)))
        block = blocks[-1] + 1
        after = len(requests) - 1 if turn else None
        tokens, written = len(blocks) * BLOCK, random.randint(50, 400)
        requests.append(TraceRequest(
            think if turn else start, serve, tokens, written, blocks, key, after, session=key, is_call=turn < turns - 1,
        ))  # fmt: skip
