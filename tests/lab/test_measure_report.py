"""A whole benchmark of a scripted model, its result, its report, and two of them compared."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from stoker.domain.lease import Target
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, RunKind, Subject
from stoker_lab.comparison.benchmarks import FigureRating, compare_benchmarks
from stoker_lab.load.benchmark import Benchmark, BenchmarkObserver
from stoker_lab.load.ladder import LadderStop
from stoker_lab.load.presets import BenchmarkOptions, Preset, plan_benchmark, token_sizes
from stoker_lab.load.prompts import PromptSharing
from stoker_lab.load.replay import Arrival
from stoker_lab.load.to_run import RawBenchmark, run_of_route
from stoker_lab.reports import plots
from stoker_lab.reports.benchmark_page import benchmark_page
from stoker_lab.requests.endpoint import MeasuredEndpoint
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

SUBJECT = Subject("a", "scripted", "http://h/v1", fingerprint=Fingerprint(parts={"engine": "scripted"}))
FAST = Script(tokens=5, first_event_after=0.002, gap=0.0005, slots=64)


def bench(
    wanted: BenchmarkOptions, script: Script = FAST, routes: tuple[str, ...] = ("front-door",),
    trace: tuple[Arrival, ...] = (),
    during: Callable[[ScriptedServer, Benchmark], None] | None = None, observer: BenchmarkObserver | None = None,
) -> tuple[Benchmark, ScriptedServer]:  # fmt: skip
    async def run() -> tuple[Benchmark, ScriptedServer]:
        async with ScriptedServer(script) as server:
            servers = [MeasuredEndpoint(route, Target("127.0.0.1", server.port, "", script.id)) for route in routes]
            made = Benchmark(servers, wanted, plan_benchmark(wanted, None, trace), token_sizes(wanted, None), observer)
            made_show = made.observer.show

            def show(*given: Any) -> None:
                made_show(*given)
                if during is not None:
                    during(server, made)

            made.observer = BenchmarkObserver(show, made.observer.is_full)
            await made.run()
            return made, server

    return asyncio.run(run())


def result(made: Benchmark, route: str = "front-door", interrupted: bool = False) -> Run:
    found = run_of_route(made, route, SUBJECT, 1_795_284_000.0, 2.0, {"processor": "x", "gpus": []}, interrupted)
    return msgspec.json.decode(msgspec.json.encode(found), type=Run)  # as it comes back from the file


SHORT: dict[str, Any] = {"prompt_tokens": 50, "output_tokens": 5, "seconds": 0.05, "requests": 4, "repeats": 2}


def test_a_ladder_climbs_to_its_top_and_ends_with_rates_and_the_first_rung_again() -> None:
    told: list[tuple[str, float, float]] = []
    wanted = BenchmarkOptions(**SHORT)
    made, server = bench(wanted, observer=BenchmarkObserver(lambda *given: told.append(given), lambda: len(told) > 60))
    found = result(made)
    names = [one.name for one in found.findings]
    assert names[:2] == ["c1", "c2"]
    assert names[-2:] == ["knee", "drift"]
    assert sum(name.startswith("r") for name in names) == 3
    assert made.stops[PromptSharing.WARM] in (LadderStop.FULL, LadderStop.SATURATED)
    assert found.outcome is Outcome.PASSED
    assert (found.numbers["prompt_min"], found.numbers["prompt_max"]) == (50, 50)
    assert found.numbers["c2.clients"] == 2
    assert found.numbers["cold_ttft"] is not None
    assert found.numbers["requests_ok"] == sum(one.numbers.get("requests_ok") or 0 for one in found.findings)
    raw = msgspec.json.decode(found.raw, type=RawBenchmark)
    assert {(one.step, one.repeat) for one in raw.samples} >= {("c1", 0), ("c1", 1), ("c2", 0)}
    assert all(one.requests[0].t0 >= 0 for one in raw.samples)
    assert [0.0 <= share <= 1.0 for _, share, _ in told] == [True] * len(told)
    assert "tok0" not in msgspec.json.encode(found).decode()  # no reply is in it
    texts = [one.json()["messages"][0]["content"] for one in server.requests if one.method == "POST"]
    assert len(texts) > 100
    assert len(set(texts[-100:])) == len(texts[-100:])


def test_two_routes_are_measured_in_turn_and_no_prompt_is_sent_twice() -> None:
    made, _ = bench(BenchmarkOptions(**{**SHORT, "seconds": 0.0}, concurrency=(2,)), routes=("front-door", "direct"))
    first, second = result(made), result(made, "direct")
    assert [one.numbers["c2.repeats"] for one in (first, second)] == [2, 2]
    begun = sorted((reply.begin, row.route) for row in made.measured for reply in row.repeats)
    assert [route for _, route in begun] == ["front-door", "direct"] * 2
    both = benchmark_page([first, second])
    assert both.count("<h2>Steps") == 2


def test_a_failed_request_fails_the_run_and_nothing_is_hidden() -> None:
    def breaks(server: ScriptedServer, made: Benchmark) -> None:
        now = len(made.measured) and len(made.measured[0].repeats[0].requests)
        server.script = FAST.amended({"error_status": 503 if now == 3 else None})

    made, _ = bench(
        BenchmarkOptions(**{**SHORT, "repeats": 1, "requests": 8, "seconds": 0.0}, concurrency=(1,)), during=breaks
    )
    found = result(made)
    assert (found.outcome, found.findings[0].observed) == (Outcome.FAILED, "7 ok, 1 failed (http_503 1)")
    assert "7 ok, 1 failed (http_503 1)" in benchmark_page([found])


def test_a_server_that_dies_meanwhile_is_given_up_and_the_rest_is_kept() -> None:
    def dies(server: ScriptedServer, made: Benchmark) -> None:
        if made.measured and len(made.measured[0].repeats[0].requests) >= 5:
            server.script = FAST.amended({"error_status": 503})

    made, _ = bench(BenchmarkOptions(**{**SHORT, "repeats": 1, "seconds": 30.0}, concurrency=(1,)), during=dies)
    found = result(made)
    assert found.numbers["requests_ok"] == 5
    assert "given up" in found.findings[0].cause
    assert found.findings[0].fix.endswith(f"stoker serves logs {SUBJECT.serve}")


def test_a_server_that_refuses_full_length_is_asked_without() -> None:
    made, server = bench(BenchmarkOptions(**SHORT, concurrency=(1,)), Script(strict_chat=True, tokens=5))
    assert not made.is_full_length
    assert result(made).outcome is Outcome.PASSED
    assert server.requests


def test_modes_stand_apart_and_decodes_have_their_lengths() -> None:
    made, _ = bench(
        BenchmarkOptions(
            **SHORT, concurrency=(1,), modes=(PromptSharing.WARM, PromptSharing.PREFIX_CACHED, PromptSharing.COLD)
        )
    )
    assert [one.name for one in result(made).findings] == ["c1", "prefix-cached.c1", "cold.c1"]
    decode = BenchmarkOptions(preset=Preset.DECODE, quick=True)
    made, _ = bench(decode, Script(tokens=5000))
    found = result(made)
    outputs = [(one.name, one.numbers["output_tokens"]) for one in found.findings]
    assert outputs == [("256-tokens", 256), ("512-tokens", 512), ("1024-tokens", 1024)]


def test_recorded_traffic_is_played_with_its_lengths_at_its_times() -> None:
    trace = tuple(Arrival(n * 200.0, 30 + n, 3 + n, [n]) for n in range(4))
    made, _ = bench(BenchmarkOptions(preset=Preset.REPLAY, speed=2.0), Script(tokens=100), trace=trace)
    replies = made.measured[0].repeats[0].requests
    assert [one.tokens.output for one in sorted(replies, key=lambda one: one.scheduled)] == [3, 4, 5, 6]
    assert [one.tokens.input for one in sorted(replies, key=lambda one: one.scheduled)] == [30, 31, 32, 33]
    times = sorted(one.scheduled for one in replies)
    assert times[-1] - times[0] == pytest.approx(0.3)
    assert result(made).findings[0].name == "replay"


def test_whoever_interrupts_keeps_what_there_is() -> None:
    made: list[Benchmark] = []

    def stop(server: ScriptedServer, one: Benchmark) -> None:
        made[:] = [one]
        if len(one.measured) == 2 and len(one.measured[1].repeats[0].requests) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bench(BenchmarkOptions(**SHORT, concurrency=(1, 1)), during=stop)
    found = result(made[0], interrupted=True)
    assert found.outcome is Outcome.INTERRUPTED
    assert found.findings[1].numbers["requests_ok"] == 3
    assert "interrupted" in benchmark_page([found])


# -- comparing -----------------------------------------------------------------------------------------------------


def run(numbers: dict[str, float | int | None], **more: Any) -> Run:
    finding = Finding("c1", Outcome.PASSED, numbers={"requests_ok": 1, **numbers})
    given: dict[str, Any] = {"kind": RunKind.BENCHMARK, "outcome": Outcome.PASSED, "findings": [finding], **more}
    return Run(id="x", at=0.0, seconds=1.0, subject=given.pop("subject", SUBJECT), **given)


@pytest.mark.parametrize(
    ("a", "b", "rating"),
    [
        ({"ttft_p50": 10.0}, {"ttft_p50": 9.0}, FigureRating.BETTER),
        ({"ttft_p50": 10.0}, {"ttft_p50": 11.0}, FigureRating.WORSE),
        ({"ttft_p50": 10.0}, {"ttft_p50": 10.4}, FigureRating.SAME),
        ({"output_rate": 10.0}, {"output_rate": 11.0}, FigureRating.BETTER),
        ({"output_rate": 10.0}, {"output_rate": None}, FigureRating.UNKNOWN),
        ({"requests_failed": 0}, {"requests_failed": 0}, FigureRating.SAME),
        (
            {"output_rate": 10.0, "output_rate.low": 9.0, "output_rate.high": 12.0},
            {"output_rate": 14.0, "output_rate.low": 11.5, "output_rate.high": 15.0},
            FigureRating.SAME,  # far apart, but the spreads touch
        ),
        (
            {"output_rate": 10.0, "output_rate.low": 9.9, "output_rate.high": 10.1},
            {"output_rate": 10.3, "output_rate.low": 10.2, "output_rate.high": 10.4},
            FigureRating.BETTER,
        ),
    ],
)
def test_a_difference_counts_where_spreads_do_not_touch(
    a: dict[str, float | int | None], b: dict[str, float | int | None], rating: FigureRating
) -> None:
    assert [row.rating for row in compare_benchmarks(run(a), run(b)).rows] == [rating]


def test_what_makes_two_runs_hard_to_compare_is_said() -> None:
    other = Subject("a", "m", "http://h/v1", route="direct", fingerprint=Fingerprint(parts={"engine": "vllm"}))
    later = run({}, subject=other, outcome=Outcome.INTERRUPTED, settings={"output_tokens": msgspec.Raw(b"9")})
    found = compare_benchmarks(run({}, machine={"processor": msgspec.Raw(b'"y"')}), later)
    assert found.cautions == [
        "they measured different things: engine",
        "one went over front-door, the other over direct",
        "another output_tokens: nothing and 9",
        "they ran on different machines",
        "x was interrupted",
    ]
    with pytest.raises(ValueError, match="not a benchmark"):
        compare_benchmarks(run({}), run({}, kind=RunKind.SOAK))


# -- the page ------------------------------------------------------------------------------------------------------


class Checked(HTMLParser):
    """Every element is closed, and nothing is loaded from anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href", "onload"} & {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("line", "circle", "rect", "polyline")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_file_that_loads_nothing_and_escapes_names() -> None:
    made, _ = bench(BenchmarkOptions(**SHORT, concurrency=(1, 2)))
    found = result(made)
    found.subject = msgspec.structs.replace(found.subject, serve="<b>&", model='"><script>')
    text = benchmark_page([found], compare_benchmarks(found, found))
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    assert "<script" not in text
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    assert text.count("<svg") == 4


def test_plots_without_values_are_none_and_one_value_is_a_plot() -> None:
    assert (plots.line_plot([], "x", "y"), plots.histogram([[]], "x")) == ("", "")
    assert "<svg" in plots.line_plot([plots.PlotLine("a", [plots.PlotPoint(1, 5.0)])], "x", "y")
    assert "<svg" in plots.histogram([[3.0]], "x")


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (1.1, 1.5), (97, 100), (101, 150), (8257, 10_000)])
def test_axes_end_at_round_numbers(value: float, top: float) -> None:
    assert plots.round_up(value) == top


def prompts(server: ScriptedServer) -> list[str]:
    bodies = [msgspec.json.decode(one.body) for one in server.requests if one.path == "/v1/chat/completions"]
    return [str(body["messages"][-1]["content"]) for body in bodies if body.get("stream")]


@pytest.mark.parametrize("mode", [PromptSharing.WARM, PromptSharing.PREFIX_CACHED])
def test_a_benchmark_that_is_run_again_sends_no_prompt_again_and_its_seed_says_which_it_sent(
    mode: PromptSharing,
) -> None:
    wanted = BenchmarkOptions(**{**SHORT, "repeats": 1, "seconds": 0.0}, concurrency=(1,), modes=(mode,))
    made, server = bench(wanted)
    seed = result(made).setting("seed")
    again, other = bench(wanted)
    assert seed != result(again).setting("seed")
    assert not {" ".join(text.split()[:4]) for text in prompts(server)} & {
        " ".join(text.split()[:4]) for text in prompts(other)
    }
    same = BenchmarkOptions(**{**SHORT, "repeats": 1, "seconds": 0.0}, concurrency=(1,), modes=(mode,), seed=made.seed)
    assert prompts(bench(same)[1]) == prompts(server)


@pytest.mark.parametrize(("mode", "cached", "warns"), [
    (PromptSharing.WARM, 2, False), (PromptSharing.WARM, 4, True), (PromptSharing.COLD, 4, True),
    (PromptSharing.HALF_SHARED, 25, False),
])  # fmt: skip
def test_prompts_that_came_from_a_cache_though_they_are_new_are_told(
    mode: PromptSharing, cached: int, warns: bool
) -> None:
    wanted = BenchmarkOptions(**{**SHORT, "repeats": 1, "seconds": 0.0}, concurrency=(1,), modes=(mode,))
    made, _ = bench(wanted, replace(FAST, cached_tokens=cached))
    found = [one for one in result(made).findings if one.name == "cached"]
    assert [("8%" in one.observed, one.outcome) for one in found] == ([(True, Outcome.UNDECIDED)] if warns else [])
