"""Presets, traces, and where results are kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.domain.decision import Decision
from stoker.domain.errors import StokerError
from stoker.domain.run import Outcome, Run, RunKind, Subject
from stoker_lab.artifacts import result_file
from stoker_lab.load import replay
from stoker_lab.load.generator import StepLength
from stoker_lab.load.presets import BenchmarkOptions, Preset, plan_benchmark, token_sizes
from stoker_lab.load.prompts import PromptSharing


@pytest.mark.parametrize(
    ("wanted", "context", "names"),
    [
        (BenchmarkOptions(), None, []),
        (BenchmarkOptions(concurrency=(1, 4)), None, ["c1", "c4"]),
        (BenchmarkOptions(rates=(0.5, 2.0)), None, ["r0.5", "r2"]),
        (BenchmarkOptions(concurrency=(2,), rates=(3.0,)), None, ["c2", "r3"]),
        (BenchmarkOptions(preset=Preset.USERS), None, ["c8"]),
        (BenchmarkOptions(preset=Preset.USERS, concurrency=(20,)), None, ["c20"]),
        (BenchmarkOptions(preset=Preset.SHORT), None, ["c1"]),
        (BenchmarkOptions(preset=Preset.LONG), None, ["c1"]),
        (BenchmarkOptions(preset=Preset.DECODE), None, ["256-tokens", "512-tokens", "1024-tokens"]),
        (BenchmarkOptions(preset=Preset.DECODE), 700, ["256-tokens", "512-tokens"]),
        (BenchmarkOptions(preset=Preset.DECODE, output_tokens=99), None, ["c1"]),
        (
            BenchmarkOptions(
                concurrency=(1,), modes=(PromptSharing.WARM, PromptSharing.PREFIX_CACHED, PromptSharing.COLD)
            ), None,
            ["c1", "prefix-cached.c1", "cold.c1"],
        ),
    ],
)  # fmt: skip
def test_each_preset_has_its_steps(wanted: BenchmarkOptions, context: int | None, names: list[str]) -> None:
    found = plan_benchmark(wanted, context)
    assert [step.name for step in found.steps] == names
    assert found.climbs is (names == [])


def test_a_ladder_measures_open_loop_rates_after_it_a_quick_one_does_not() -> None:
    assert plan_benchmark(BenchmarkOptions()).rates_by_knee
    quick = plan_benchmark(BenchmarkOptions(quick=True))
    assert (quick.rates_by_knee, quick.repeats, quick.top) == (False, 1, 8)


@pytest.mark.parametrize(
    ("wanted", "context", "found"),
    [
        (BenchmarkOptions(), None, (256, 128)),
        (BenchmarkOptions(), 200, (134, 50)),
        (BenchmarkOptions(preset=Preset.USERS), 100_000, (256, 256)),
        (BenchmarkOptions(preset=Preset.SHORT), 1024, (64, 16)),
        (BenchmarkOptions(preset=Preset.LONG), 100_000, (16_384, 64)),
        (BenchmarkOptions(preset=Preset.LONG), 1024, (944, 64)),
        (BenchmarkOptions(preset=Preset.LONG, prompt_tokens=500), 1024, (500, 64)),
    ],
)
def test_a_request_fits_into_the_context(wanted: BenchmarkOptions, context: int | None, found: tuple[int, int]) -> None:
    assert token_sizes(wanted, context) == found


def test_what_was_asked_for_and_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match=r"1000 tokens of prompt and 64 of output .* context of 1024"):
        token_sizes(BenchmarkOptions(preset=Preset.LONG, prompt_tokens=1000), 1024)


def test_warm_up_is_two_for_each_client_and_none_where_it_is_cold() -> None:
    steps = plan_benchmark(BenchmarkOptions(concurrency=(1, 8), modes=(PromptSharing.WARM, PromptSharing.COLD))).steps
    assert [step.warm_up for step in steps] == [2, 16, 0, 0]
    assert [step.length for step in steps[:2]] == [StepLength(30.0, 10), StepLength(30.0, 80)]


# -- traces --------------------------------------------------------------------------------------------------------

LINES = [
    b'{"timestamp": 1500, "input_length": 900, "output_length": 80, "hash_ids": [1, 2]}',
    b"",
    b'{"timestamp": 500, "input_length": 30, "output_length": 5}',
]


def test_a_trace_is_read_in_order_of_time_and_played_faster_or_slower() -> None:
    trace = replay.read_trace(LINES)
    assert [(one.input_length, one.hash_ids) for one in trace] == [(30, []), (900, [1, 2])]
    assert (replay.arrivals(trace), replay.arrivals(trace, 4)) == ([0.0, 1.0], [0.0, 0.25])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "line 2"),
        (b'{"timestamp": 1}', "input_length"),
        (b'{"timestamp":-1,"input_length":1,"output_length":1}', "zero"),
    ],
)
def test_a_line_that_is_none_is_named(line: bytes, says: str) -> None:
    with pytest.raises(replay.BadTrace, match=says):
        replay.read_trace([LINES[0], line])
    with pytest.raises(replay.BadTrace, match="no requests"):
        replay.read_trace([])


def decision(at: float, **more: Any) -> Decision:
    return Decision("id", at, "chat", **more)


def test_our_own_traffic_is_exported_without_hashes_and_can_be_replayed() -> None:
    recorded = [
        decision(102.5, input_tokens=50, output_tokens=7), decision(100.0, input_tokens=9, output_tokens=0),
        decision(101.0), decision(103.0, input_tokens=5),
    ]  # fmt: skip
    lines, left_out = replay.export_trace(recorded)
    assert left_out == 2
    assert [msgspec.json.decode(line) for line in lines] == [
        {"timestamp": 0, "input_length": 9, "output_length": 0},
        {"timestamp": 2500, "input_length": 50, "output_length": 7},
    ]
    assert len(replay.read_trace(lines)) == 2


# -- where results are kept ----------------------------------------------------------------------------------------


def run(**more: Any) -> Run:
    given: dict[str, Any] = {"id": result_file.new_id(RunKind.BENCHMARK, "Big Model/7B", 1_795_284_000.0), **more}
    return Run(
        kind=RunKind.BENCHMARK, at=1.0, seconds=2.0, subject=Subject("a", "a", "http://h/v1"), outcome=Outcome.PASSED,
        **given,
    )  # fmt: skip


def test_a_result_is_one_private_file_and_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    kept = run(numbers={"ttft_p50": 1.5})
    assert kept.id.startswith("20261121T")
    assert "-benchmark-Big-Model-7B-" in kept.id
    path = result_file.save(kept, tmp_path / "results")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(path.parent) == [f"{kept.id}.json"]
    assert result_file.load(result_file.find(kept.id[:12], path.parent)).numbers == {"ttft_p50": 1.5}
    assert result_file.find(str(path), tmp_path) == path


def test_what_is_no_result_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(StokerError, match="cannot be read"):
        result_file.load(tmp_path / "x.json")
    with pytest.raises(StokerError, match="no result of that name"):
        result_file.find("../nothing*", tmp_path)
    with pytest.raises(StokerError):
        result_file.load(tmp_path / "missing.json")


def test_a_full_disk_is_said_and_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StokerError, match=r"could not be written .*No space left"):
        result_file.save(run(), tmp_path)
    assert os.listdir(tmp_path) == []
