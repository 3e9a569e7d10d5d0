"""Figures are what their definitions say, and absent where nothing was measured."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest
from bench import engines, figures, processes
from bench.figures import Spread
from bench.load import Result
from bench.overhead import report
from bench.overhead.rounds import Memory, Record, Run
from bench.overhead.scenarios import scenarios
from bench.swap import alone
from bench.swap import report as swap_report
from bench.swap.alone import Command, Own
from bench.swap.alternate import Alternation
from bench.swap.phases import Phases, Round

LOAD = {one.name: one for one in scenarios(quick=False)}


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = [float(n) for n in range(1, 101)]
    assert figures.nearest_rank(values, 0.5) == 50.0
    assert figures.nearest_rank(values, 0.99) == 99.0
    assert figures.nearest_rank([3.0, 1.0, 2.0], 0.5) == 2.0
    assert figures.nearest_rank([3.0], 0.99) == 3.0
    assert figures.nearest_rank([], 0.5) is None


def test_nothing_measured_is_absent_not_zero() -> None:
    assert figures.spread([]) is None
    assert figures.ratio(None, Spread(1, 1, 1)) is None
    assert figures.ratio(Spread(1, 1, 1), Spread(0, 0, 0)) is None
    assert figures.show(None) == "-"


def test_a_table_lines_up() -> None:
    lines = figures.table(("a", "bb"), [("ccc", "d")]).splitlines()
    assert lines == ["| a   | bb |", "|-----|----|", "| ccc | d  |"]


def _result(name: str, exchanges: int, cpu: float, first: float, failures: dict[str, int] | None = None) -> Result:
    return Result(name, exchanges, 2.0, cpu, [first] * 4, [first] * 4, failures or {}, 50_000_000)


def _streamed(number: int, gateway: str, event: float, first: float, failures: dict[str, int] | None = None) -> Record:
    """64 streams whose request costs 100 µs and whose events cost `event` µs each."""
    short, long = LOAD["streams-64"].passes[1:]
    cpu = [(100 + one.events * event) * 64 * one.repeats / 1e6 for one in (short, long)]
    passes = [_result("short", 64 * short.repeats, cpu[0], first), _result("long", 64, cpu[1], first, failures)]
    return Record(number, gateway, "streams-64", [_result("warm", 64, 9.0, 9.0), *passes])


def test_an_event_costs_what_longer_streams_cost_more() -> None:
    line = report.line([_streamed(0, "stoker", 18.0, 0.002)], LOAD["streams-64"], "stoker")
    assert line.cpu_event is not None
    assert line.cpu_event.median == pytest.approx(18.0)
    assert line.cpu_request is not None
    assert line.cpu_request.median == pytest.approx(100.0)


def test_added_time_is_taken_against_direct_of_the_same_round() -> None:
    records = [
        *(_streamed(n, "direct", 0.0, first) for n, first in enumerate((0.001, 0.005, 0.001))),
        *(_streamed(n, "stoker", 18.0, first) for n, first in enumerate((0.0015, 0.0056, 0.0017))),
    ]
    line = report.line(records, LOAD["streams-64"], "stoker")
    assert line.added_p50 is not None
    assert line.added_p50 == pytest.approx((0.6, 0.5, 0.7))
    assert report.line(records, LOAD["streams-64"], "direct").cpu_event is None


def test_verdicts_compare_with_nginx_and_say_what_was_not_measured() -> None:
    records = [_streamed(0, name, cost, 0.001) for name, cost in (("direct", 0), ("nginx", 10), ("stoker", 18))]
    seen = {one.what: one for one in report.verdicts(report.lines(Run(records, [], {}, True), tuple(LOAD.values())))}
    event = seen["CPU per event at 64 streams, times nginx"]
    assert event.value == pytest.approx(1.8)
    assert not event.is_reached
    assert seen["added TTFT p50 at 64 streams, ms"].is_reached
    missing = seen["1,000 streams: lost, doubled or reordered"]
    assert missing.value is None
    assert not missing.is_reached
    assert "not measured" in report.render_verdicts(list(seen.values()))


def test_one_lost_event_is_in_the_table_and_misses_the_figure() -> None:
    passes = [_result("short", 1000, 1.0, 0.001), _result("long", 1000, 2.0, 0.001, {"other bytes at 99": 1})]
    line = report.line([Record(0, "stoker", "streams-1000", passes)], LOAD["streams-1000"], "stoker")
    assert report.render_beside([line]) == ""
    assert line.failures == {"other bytes at 99": 1}
    verdict = next(one for one in report.verdicts([line]) if not one.cost)
    assert verdict.value == 1.0
    assert not verdict.is_reached
    assert report.render([line], [LOAD["streams-1000"]]).splitlines()[-1].endswith("| 1      |")


def test_a_load_generator_that_fell_over_is_a_failure_of_the_run() -> None:
    line = report.line([Record(0, "nginx", "small", [], "it fell over")], LOAD["small"], "nginx")
    assert line.failures == {"it fell over": 1}
    assert line.cpu_request is None


def test_all_gateways_stand_beside_each_other_in_one_table() -> None:
    records = [
        *(
            _streamed(0, name, cost, 0.001 + cost / 1e6)
            for name, cost in (("stoker", 18), ("direct", 0), ("nginx", 10))
        ),
        Record(0, "nginx", "paced", [_result("steady", 1000, 0.04, 0.001)]),
        Record(0, "stoker", "paced", [_result("steady", 1000, 0.12, 0.001, {"other bytes at 7": 2})]),
    ]
    lines = report.lines(Run(records, [], {}, True), tuple(LOAD.values()))
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in report.render_beside(lines).splitlines()
    ]
    assert [row[0] for row in rows] == ["direct", "nginx", "Stoker"]
    stoker = dict(zip(head, rows[-1], strict=True))
    assert rows[-1][:6] == ["Stoker", "120.0", "3.00x", "-", "18.0", "1.80x"]
    assert (stoker["added TTFT p50 ms"], stoker["failed"]) == ("0.02", "2")


def test_requests_that_were_refused_have_no_cost() -> None:
    passes = [
        msgspec.structs.replace(_result(name, 64, 1.0, 0.001, {"status 500": 64}), first=[])
        for name in ("short", "long")
    ]
    line = report.line([Record(0, "portkey", "streams-64", passes)], LOAD["streams-64"], "portkey")
    assert (line.cpu_request, line.cpu_event) == (None, None)
    assert line.failures == {"status 500": 128}


def test_idle_cost_is_told_per_second() -> None:
    assert report.idle_line(Run([], [Memory("nginx", 1, 2, 0.0005)], {}, True)).endswith("nginx 0.50")


@pytest.mark.parametrize("quick", [True, False])
def test_the_short_pass_can_be_taken_off_the_long_one(quick: bool) -> None:
    for one in scenarios(quick):
        events = {a_pass.name: a_pass.events for a_pass in one.passes}
        assert events.get("long", 1) > events.get("short", 0)
        assert len({a_pass.gap for a_pass in one.passes if a_pass.name != "warm"}) == 1


def _round(cached: float, swapped: float) -> Round:
    return Round(
        cached=cached,
        cached_own=Own(healthy=5.0, first_token=5.01, stop=0.002),
        swapped=swapped,
        loaded=0.0012,
        loaded_own=0.001,
        facts={"health_s": 5.0, "n_ctx": 512},
        switch={"seconds": 5.02, "phases": {"drain": 0.0, "stop": 0.003, "start": 5.0, "ready": 0.01}},
    )


def test_the_overhead_of_a_swap_is_what_the_engines_own_stop_and_start_do_not_explain() -> None:
    phases = Phases("scripted-5s", "scripted", [_round(5.03, 5.05), _round(5.02, 5.042)])
    found = {one.what: one for one in swap_report.verdicts([phases], [])}
    swap = found["overhead, scripted-5s, swap (the other is stopped first)"]
    assert (swap.measured, swap.is_reached) == ("34.0", True)
    assert found["overhead, scripted-5s, page-cached"].measured == "15.0"
    text = swap_report.render_phases(phases)
    assert "stop 3.0" in text
    assert "cold" not in text


def test_an_overhead_beyond_the_bound_is_a_miss() -> None:
    found = swap_report.verdicts([Phases("k", "t", [_round(5.06, 5.06)])], [])
    assert [one.is_reached for one in found] == [False, False]


def _alternation(hysteresis: bool, swaps: int, total: float, failures: list[str]) -> Alternation:
    return Alternation("scripted-3s", "scripted", hysteresis, 50, swaps, total, [1.0, 2.0], failures)


def test_hysteresis_is_judged_by_swaps_and_by_time() -> None:
    runs = [_alternation(True, 10, 90.0, []), _alternation(False, 100, 360.0, [])]
    assert [(one.measured, one.is_reached) for one in swap_report.verdicts([], runs)] == [("10.0", True), ("4.0", True)]
    assert "2 x 50" in swap_report.render_alternations(runs)


def test_a_run_with_failures_proves_nothing() -> None:
    runs = [_alternation(True, 10, 90.0, ["a: refused"]), _alternation(False, 100, 360.0, [])]
    assert swap_report.verdicts([], runs) == []


def test_the_engines_command_is_replayed_on_another_port() -> None:
    command = Command(("x", "--port", "4711", "--bind=127.0.0.1:4711", "--context", "47110"), {}, 4711, None)
    assert command.on(5000).argv == ("x", "--port", "5000", "--bind=127.0.0.1:5000", "--context", "47110")


def test_the_engines_key_is_found_in_its_environment() -> None:
    assert alone.key_in({"PATH": "/bin", "LLAMA_API_KEY": "k"}) == "k"
    assert alone.key_in({"PATH": "/bin"}) is None


@pytest.mark.parametrize("swap", [engines.HYSTERESIS_OFF, engines.HYSTERESIS_ON])
def test_the_swap_configuration_is_toml_without_a_secret(swap: str, tmp_path: Path) -> None:
    paths = (tmp_path / "a.gguf", tmp_path / 'b "quoted".gguf')
    for kind in (engines.llama(paths, "x"), engines.scripted(5, 0.2)):
        found = tomllib.loads(engines.configuration(kind, tmp_path, 8001, swap))
        assert [one["name"] for one in found["serve"]] == ["a", "b"]
        assert all(one["slot"] == "gpu0" for one in found["serve"])
        assert found["front_door"]["keys"][0]["value"] == "env:STOKER_BENCH_KEY"
        assert ("swap" in found) is bool(swap)


def test_a_child_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = processes.Child.start("sh", ("sh", "-c", "sleep 60 & echo ready; wait"), log)
    try:
        while "ready" not in log.read_text():
            assert child.is_alive()
        below = processes.descendants(child.pid)
        child.freeze()
        assert processes.cpu_seconds([child.pid]) >= 0
    finally:
        left = child.end(grace=5)
    assert left == below
    assert [pid for pid in (child.pid, *below) if processes.identify(pid)] == []
