"""The bench of the scheduler: its traces, its clock, and its optimum beside a search that knows no shortcut."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import pytest
from bench.schedule.__main__ import main
from bench.schedule.agentx import agentx, alone, root, team
from bench.schedule.fleet import PrefixCache
from bench.schedule.metrics import jain
from bench.schedule.optimum import ScheduleInstance, least_waiting, windowed_bound
from bench.schedule.report import POLICIES, run_policy
from bench.schedule.session_optimum import SessionInstance, SmallSession, least_completion
from bench.schedule.sessions import run_session_instance, run_sessions
from bench.schedule.simulation import ImpossibleAction, LoadServe, ServeRequest, Simulation
from bench.schedule.synthetic import all_traces, small_instance, trace_of
from bench.schedule.traces import Trace, TraceRequest, from_decisions, from_mooncake, to_mooncake
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from stoker.domain.decision import Decision

# -- traces ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 9999), st.integers(0, 999), st.lists(st.integers(0)))))
def test_mooncake_lines_come_back(rows: list[tuple[int, int, int, list[int]]]) -> None:
    requests = [TraceRequest(at / 1000, "a", read, wrote, tuple(blocks)) for at, read, wrote, blocks in sorted(rows)]
    assert from_mooncake(to_mooncake(requests), ["a"]) == sorted(requests, key=lambda request: request.at)


def test_a_conversation_of_mooncake_stays_with_one_model() -> None:
    line = b'{"timestamp": 1500, "input_length": 9, "output_length": 2, "hash_ids": [0, 7, %d]}'
    requests = from_mooncake([line % 8, b"", line % 9], ["a", "b"])
    assert [(r.at, r.serve) for r in requests] == [(1.5, "b"), (1.5, "b")]


def test_decisions_become_requests_without_their_waiting() -> None:
    log = [
        Decision("2", 105.0, "/v1", serve="a", key="me", queued=2.0, latency=5.0, input_tokens=7),
        Decision("1", 101.0, "/v1", serve="b", latency=1.0),
        Decision("3", 106.0, "/v1", reason="queue_full"),
    ]
    first, second = from_decisions(log)
    assert (first.at, first.serve, first.seconds) == (0.0, "b", 1.0)
    assert (second.at, second.key, second.seconds, second.input_tokens) == (4.0, "me", 3.0, 7)


def test_turns_of_a_session_in_a_decision_log_follow_each_other() -> None:
    log = [
        Decision("1", 100.0, "/v1", serve="a", latency=3.0, session="s"),
        Decision("2", 104.0, "/v1", serve="a", latency=1.0, session="s"),
        Decision("3", 104.5, "/v1", serve="a", latency=1.0, session="s"),
        Decision("4", 200.0, "/v1", serve="b", latency=1.0, session="s"),
    ]
    requests = from_decisions(log)
    assert [(r.at, r.after, r.is_call) for r in requests] == [
        (0.0, None, True), (1.0, 0, False), (4.5, None, False), (94.5, 2, False),
    ]  # fmt: skip


# -- sessions ----------------------------------------------------------------------------------------------------


def test_the_sessions_of_agents_have_the_published_statistics() -> None:
    traces = [agentx(seed, 40) for seed in range(10)]
    parents = [[r for r in trace.requests if r.session == name] for trace in traces for name in alone(trace)]
    assert median(len(turns) for turns in parents) == pytest.approx(43, abs=4)
    assert median(turns[-1].input_tokens for turns in parents) == pytest.approx(142_000, rel=0.15)
    with_subagents = [{root(r.session) for r in trace.requests if "/" in r.session} for trace in traces]
    assert sum(map(len, with_subagents)) / 400 == pytest.approx(0.44, abs=0.06)
    gaps = [r.at for trace in traces for r in trace.requests if r.after is not None]
    assert sum(gap <= 1.0 for gap in gaps) / len(gaps) == pytest.approx(0.86, abs=0.03)
    assert sum(gap <= 10.0 for gap in gaps) / len(gaps) == pytest.approx(0.95, abs=0.03)


def test_the_same_seed_makes_the_same_sessions() -> None:
    assert agentx(3) == agentx(3)
    assert agentx(3).requests != agentx(4).requests


@pytest.mark.parametrize("seed", range(8))
def test_no_policy_ends_sessions_sooner_than_the_optimum(seed: int) -> None:
    report = run_session_instance(seed, limit=3_000)
    assert all(ratio >= 1.0 - 1e-9 for ratio in report.ratios.values())


def test_one_session_alone_takes_its_load_its_turns_and_its_gaps() -> None:
    instance = SessionInstance(1, (5.0,), (SmallSession(0, (3.0, 1.0), (2.0, 4.0)),))
    assert least_completion(instance) == (5.0 + 2.0 + 1.0 + 4.0, True)


def test_two_sessions_of_two_models_are_best_served_one_after_the_other() -> None:
    one = SmallSession(0, (0.0, 1.0), (1.0, 1.0))
    instance = SessionInstance(1, (10.0, 10.0), (one, one._replace(serve=1)))
    assert least_completion(instance) == (13.0 + 26.0, True)


def test_every_policy_serves_every_session() -> None:
    report = run_sessions([team(1)])
    assert {len(run.slowdowns) for runs in report.runs.values() for run in runs} == {8}


# -- the simulation ----------------------------------------------------------------------------------------------


class _Impatient:
    """Serves everybody at once, wherever."""

    def arrive(self, id: int, request: TraceRequest, now: float) -> list[ServeRequest]:
        return [ServeRequest(id, 0)]

    def end(self, id: int, now: float) -> list[ServeRequest]:
        return []

    def finish_load(self, slot: int, now: float, is_cancelled: bool) -> list[ServeRequest]:
        return []

    def wake(self, now: float) -> list[ServeRequest]:
        return []


class _Idle(_Impatient):
    def arrive(self, id: int, request: TraceRequest, now: float) -> list[ServeRequest]:
        return []


class _Reckless(_Impatient):
    """Loads whatever is asked for, whatever runs."""

    def arrive(self, id: int, request: TraceRequest, now: float) -> list[LoadServe]:  # type: ignore[override]
        return [LoadServe(0, request.serve)]

    def finish_load(self, slot: int, now: float, is_cancelled: bool) -> list[ServeRequest]:
        return [ServeRequest(0, slot)]


@pytest.mark.parametrize("policy", [_Impatient(), _Idle(), _Reckless()])
def test_what_no_machine_can_do_is_found(policy: _Impatient) -> None:
    requests = [TraceRequest(0.0, "a", seconds=5.0), TraceRequest(3.0, "b", seconds=5.0)]
    with pytest.raises(ImpossibleAction):
        Simulation(Trace("t", 1, {"a": 1.0, "b": 1.0}, requests)).run(policy)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("trace", all_traces(quick=True), ids=lambda trace: trace.name)
def test_every_request_is_answered_or_refused_once(trace: Trace, name: str) -> None:
    simulation = Simulation(trace)
    result = simulation.run(POLICIES[name](trace, simulation))
    assert sorted(result.requests) == list(range(len(trace.requests)))
    for one in result.requests.values():
        assert one.is_refused is (one.started is None)
        assert one.is_refused or (one.arrived <= (one.started or 0) <= (one.ended or 0))
    followers = [(r.after, n) for n, r in enumerate(trace.requests) if r.after is not None]
    for before, after in followers:
        assert (
            result.requests[before].is_refused or (result.requests[before].ended or 0) <= result.requests[after].arrived
        )


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_trace_gives_the_same_figures(name: str) -> None:
    trace = all_traces(quick=True)[0]
    assert run_policy(trace, name) == run_policy(trace, name)


def test_a_prefix_cache_forgets_the_ends_of_old_prompts_first() -> None:
    cache = PrefixCache(3)
    cache.add((1, 2, 3))
    cache.add((1, 9))
    assert (cache.count_leading((1, 2, 3)), cache.count_leading((1, 9))) == (2, 2)


def test_jain() -> None:
    assert jain([1, 1, 1]) == 1.0
    assert jain([1, 0]) == 0.5


# -- the optimum -------------------------------------------------------------------------------------------------


class _Slot(NamedTuple):
    serve: int
    ready: int
    busy: int


def brute_force(instance: ScheduleInstance) -> float:
    """Every choice at every whole second: each idle slot loads anything or nothing, each request starts or waits."""
    arrivals, durations = instance.arrivals, instance.durations
    end = int(arrivals[-1][0] + sum(instance.swap_times) * 2 + sum(durations[s] for _, s in arrivals)) + 1

    @cache
    def least(now: int, slots: tuple[_Slot, ...], left: tuple[int, ...]) -> float:
        if not left:
            return 0.0
        if now > end:
            return float("inf")
        best = float("inf")
        here = [n for n in left if arrivals[n][0] <= now]
        for loads in product(*(_loads(slot, now) for slot in slots)):
            serves = [slot.serve for slot in loads if slot.serve >= 0]
            if len(set(serves)) < len(serves):
                continue
            ready = {slot.serve: n for n, slot in enumerate(loads) if slot.serve >= 0 and slot.ready <= now}
            startable = [n for n in here if arrivals[n][1] in ready]
            for chosen in product((True, False), repeat=len(startable)):
                started = {n for n, is_chosen in zip(startable, chosen, strict=True) if is_chosen}
                after = list(loads)
                for n in started:
                    position = ready[arrivals[n][1]]
                    slot = after[position]
                    after[position] = slot._replace(busy=max(slot.busy, now + int(durations[slot.serve])))
                rest = tuple(n for n in left if n not in started)
                waited = sum(n not in started for n in here)
                best = min(best, waited + least(now + 1, tuple(sorted(after)), rest))
        return best

    def _loads(slot: _Slot, now: int) -> list[_Slot]:
        if slot.busy > now or slot.ready > now:
            return [slot]
        fresh = _Slot(slot.serve, 0, 0)
        times = enumerate(instance.swap_times)
        return [fresh, *(_Slot(serve, now + int(time), 0) for serve, time in times if serve != slot.serve)]

    return least(0, (_Slot(-1, 0, 0),) * instance.slots, tuple(range(len(arrivals))))


@st.composite
def tiny_instances(draw: st.DrawFn) -> ScheduleInstance:
    slots, serves = draw(st.sampled_from([(1, 2), (1, 3), (2, 3)]))
    seconds = st.integers(1, 3).map(float)
    arrivals = draw(
        st.lists(st.tuples(st.integers(0, 7).map(float), st.integers(0, serves - 1)), min_size=1, max_size=5)
    )
    swap_times = tuple(draw(seconds) for _ in range(serves))
    return ScheduleInstance(slots, swap_times, tuple(draw(seconds) for _ in range(serves)), tuple(sorted(arrivals)))


@pytest.mark.timeout(300)
@settings(max_examples=examples(60), deadline=None)
@given(tiny_instances())
def test_the_optimum_is_what_trying_everything_finds(instance: ScheduleInstance) -> None:
    assert least_waiting(instance) == (brute_force(instance), True)


@pytest.mark.parametrize("seed", range(12))
def test_no_policy_waits_less_than_the_optimum(seed: int) -> None:
    instance = small_instance(seed)
    least = least_waiting(instance, limit=3_000).seconds
    for name in ("Stoker", "first come, first served", "llama-swap's rule"):
        assert run_policy(trace_of(instance), name).wait_sum >= least - 1e-6
    assert windowed_bound(instance, size=6) <= least + 1e-6


def test_an_optimum_that_may_not_prefetch_waits_for_the_first_load() -> None:
    instance = ScheduleInstance(1, (5.0,), (1.0,), ((10.0, 0),))
    assert least_waiting(instance).seconds == 0.0
    on_demand = ScheduleInstance(1, (5.0,), (1.0,), ((10.0, 0),), may_prefetch=False)
    assert least_waiting(on_demand).seconds == 5.0


# -- the command -------------------------------------------------------------------------------------------------


def test_the_command_reads_a_trace_and_writes_tables_and_a_plot(tmp_path: Path) -> None:
    trace, out, svg = tmp_path / "trace.jsonl", tmp_path / "out.md", tmp_path / "out.svg"
    requests = [TraceRequest(n * 2.0, "", 1000, 50, (0, n % 3)) for n in range(12)]
    trace.write_bytes(b"\n".join(to_mooncake(requests)))
    arguments = ["--quick", "--instances", "3", "--mooncake", str(trace), "--out", str(out), "--svg", str(svg)]
    assert main(arguments) == 0
    assert "**trace.jsonl**: 1 slots, 2 models, 12 requests" in out.read_text(encoding="utf-8")
    assert svg.read_text(encoding="utf-8").startswith("<svg")


def test_the_command_writes_the_tables_of_sessions(tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out.md"
    turns = [Decision(str(n), n * 10.0, "/v1", serve="ab"[n % 2], latency=2.0, session="xy"[n % 2]) for n in range(10)]
    log.write_bytes(b"\n".join(map(msgspec.json.encode, turns)))
    assert main(["--trace", str(log), "--out", str(out)]) == 0
    assert "| Stoker " in out.read_text(encoding="utf-8")
    assert main(["--trace", "agentx", "--quick", "--instances", "2", "--out", str(out)]) == 0
    assert "**agentx, 2 slots**" in out.read_text(encoding="utf-8")
