"""Every condition that is documented can be decided by what the gate runs, or is refused with the number it takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.cli.console.errors import UsageError
from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.gate import Gate, condition
from stoker.domain.routing import RouterSettings, TaskClass
from stoker.domain.run import RunKind
from stoker.domain.tier import Tier
from stoker_lab.commands.gate_measurements import gate_measurement
from stoker_lab.gate.measurements import (
    classes_of,
    kind_of,
    needed_step,
    plan_steps,
    proposals,
    samples_for,
    separate_options,
    why_undecidable,
)
from stoker_lab.load.presets import BenchmarkOptions
from stoker_lab.statistics.stats import MIN_SAMPLES, wilson

FIXTURES = {"code-write": 60}


@pytest.mark.parametrize(
    ("text", "step", "requests"),
    [
        ("ttft_p95 < 2s", "c1", MIN_SAMPLES[0.95]),
        ("c4.ttft_p95 < 2s", "c4", MIN_SAMPLES[0.95]),
        ("c4.ttft_p99 < 2s", "c4", MIN_SAMPLES[0.99]),
        ("ttft_max < 2s", "c1", MIN_SAMPLES[0.95]),
        ("ttft_p50 < 2s", "c1", 10),
        ("itl_p95 < 50ms", "c1", 10),
        ("output_rate > 20", "c1", 10),
        ("c8.output_rate > 20", "c8", 16),
        ("r2.ttft_p95 < 2s", "r2", MIN_SAMPLES[0.95]),
        ("r2.5.e2e_p50 < 2s", "r2.5", 10),
        ("ttfo_p95 < 2s", "c1", MIN_SAMPLES[0.95]),
        ("c2.decode_rate > 5", "c2", 10),
        ("requests_failed == 0", "c1", 10),
    ],
)
def test_a_figure_names_its_step_and_the_requests_that_it_takes(text: str, step: str, requests: int) -> None:
    found = needed_step(condition(text))
    assert found is not None
    assert (found.step, found.requests, kind_of(condition(text))) == (step, requests, RunKind.BENCHMARK)
    assert why_undecidable(condition(text), {}) == ""


def test_the_gate_runs_each_step_that_is_named_with_the_most_that_any_condition_takes_and_c1_first() -> None:
    texts = ("r2.ttft_p50 < 1s", "c4.ttft_p50 < 1s", "c4.ttft_p95 < 2s", "c16.output_rate > 5", "preflight")
    steps = plan_steps(map(condition, texts), BenchmarkOptions(quick=True), (256, 128)).steps
    assert [(step.name, step.length.requests) for step in steps] == [("c1", 10), ("c4", 60), ("c16", 32), ("r2", 10)]
    assert [(step.clients, step.rate, step.is_open) for step in steps] == [
        (1, None, False), (4, None, False), (16, None, False), (1, 2.0, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ttft_p90 < 2s", "no figure `ttft_p90`; known figures: p50, p95 (60 requests), p99 (300) and max"),
        ("c4.speed > 2", "no figure `speed`"),
        ("c0.ttft_p50 < 1s", "1 to 256 clients"),
        ("c1000.ttft_p50 < 1s", "1 to 256 clients"),
        ("code-write.lower >= 0.95", "needs 73 samples even if all of them pass, and the suite of code-write has 60"),
        ("tools.lower >= 1", "no number of samples is enough"),
    ],
)
def test_what_nothing_can_decide_is_refused_with_the_number(text: str, why: str) -> None:
    assert why in why_undecidable(condition(text), FIXTURES)


@pytest.mark.parametrize("text", ["code-write.lower >= 0.9", "preflight", "model.context >= 4096", "context > 1",
                                  "tools.lower >= 0.98", "tools.upper <= 0.1", "goodput_share > 0.9"])  # fmt: skip
def test_what_something_can_decide_is_not_refused(text: str) -> None:
    assert why_undecidable(condition(text), FIXTURES) == ""


def test_figures_of_another_benchmark_are_known_to_be() -> None:
    assert separate_options(condition("goodput_share >= 0.9")) == "--slo-ttft TIME"
    assert separate_options(condition("knee_clients >= 4")) == ""
    assert separate_options(condition("ttft_p95 < 1s")) is None
    assert needed_step(condition("goodput_share >= 0.9")) is None


@pytest.mark.parametrize("text", ["x.lower >= 0.8", "x.lower > 0.95", "x.upper <= 0.1"])
def test_the_smallest_number_of_samples_is_the_smallest(text: str) -> None:
    asked = condition(text)
    n = samples_for(asked)
    assert n is not None

    def bound(n: int) -> float:
        return wilson(n, n).low if "lower" in text else wilson(0, n).high

    assert asked.holds(bound(n))
    assert not asked.holds(bound(n - 1))


def test_a_class_of_tasks_is_measured_by_its_suite() -> None:
    assert kind_of(condition("code-write.lower >= 0.8")) is RunKind.BOOTSTRAP
    assert kind_of(condition("own.lower >= 0.8")) is RunKind.PREFLIGHT
    assert kind_of(condition("own.lower >= 0.8"), ("own",)) is RunKind.BOOTSTRAP


def test_a_class_that_the_configuration_sends_to_a_serve_is_proposed_unless_the_gate_asks_for_it() -> None:
    router = RouterSettings(
        (
            Tier("local", "fast", classes=("math-short", "chat")),
            Tier("other", "slow"),
            Tier("all", "fast"),
        ),
        classes=(TaskClass("summarise", tier="all"), TaskClass("review", tier="other")),
        aliases={"writer": "auto:code-write", "any": "auto"},
    )
    used = classes_of(router, ("fast",))
    assert set(used) == {"math-short", "chat", "summarise", "code-write"}
    assert used["code-write"] == "alias 'writer' asks for code-write, which tier 'all' may serve"
    gate = Gate("g", (condition("preflight"), condition("chat.lower >= 0.5"), condition("summarise.passed > 9")))
    assert list(proposals(gate, used)) == ["math-short.lower >= 0.8", "code-write.lower >= 0.8"]
    assert classes_of(None, ("fast",)) == {}


def test_without_a_configured_gate_the_shipped_one_is_named() -> None:
    settings = Settings(ListenSettings(), Paths("", "", ""), (), ())
    found: Any = SimpleNamespace(installation=SimpleNamespace(settings=settings))
    with pytest.raises(UsageError, match="known: production"):
        gate_measurement(found, None, None, None, False)
    found.installation.settings = None
    with pytest.raises(UsageError, match="known: production"):
        gate_measurement(found, None, None, None, False)
