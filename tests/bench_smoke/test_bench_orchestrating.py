"""The bench of orchestrators plants what it says, and its figures are what their definitions say."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from bench.figures import Spread
from bench.orchestrating import blocks, cost, real, scripted
from bench.orchestrating.blocks import BLOCKS, KINDS, PYTHON_FAULTS, WORD
from bench.orchestrating.plane import StreamedAnswer
from bench.orchestrating.real import ModelRun
from bench.orchestrating.scripted import OverlapTimes

from stoker_lab.suites.grading import GradedFixture, GradeOutcome
from stoker_orchestrator.checks.structure import structure_finding


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.text.split("\n")[0])
def test_a_right_block_has_its_form_and_a_faulty_one_only_if_the_names_are_wrong(block: blocks.PlannedBlock) -> None:
    assert structure_finding(block.fence, block.text) is None
    for kind in PYTHON_FAULTS if block.fence == "python" else ("document",):
        wrong = blocks.faulty(block, kind)
        assert WORD in wrong
        assert (structure_finding(block.fence, wrong) is None) is (kind == "import")


def test_a_fifth_of_the_blocks_gets_a_fault_of_any_kind() -> None:
    rng = Random(1)
    planted = [fault for _ in range(500) for fault in blocks.plant(rng, 0.2).values()]
    assert len(planted) / (500 * len(BLOCKS)) == pytest.approx(0.2, abs=0.02)
    assert {fault.kind for fault in planted} == set(KINDS)


def test_no_planted_fault_passes_the_checks_and_without_them_all_do(tmp_path: Path) -> None:
    counts = scripted.count_faults(tmp_path, 1, seed=108)  # six faults, of each kind but one
    planted = sum(one.planted for one in counts.values())
    assert planted == 6
    assert [sum(one.with_checks for one in counts.values()), sum(one.without for one in counts.values())] == [
        0,
        planted,
    ]


def test_overlap_is_compared_pair_by_pair() -> None:
    times = OverlapTimes([(1.0, 2.0), (2.0, 4.0)], [(10, 0), (20, 0)])
    speed = times.speed_up(1)
    assert (speed.value, speed.low, speed.high) == (pytest.approx(2.0), pytest.approx(2.0), pytest.approx(2.0))
    assert "| 15 " in scripted.show_overlap({"all": times}, 1)


def test_the_cost_of_the_loop_is_beside_that_of_relaying() -> None:
    one, other = Spread(0.7, 0.7, 0.7), Spread(0.2, 0.2, 0.2)
    text = cost.show_cost(cost.LoopCost(one, other), cost.PlainCost(one, one))
    assert "| the difference" in text
    assert "0.50" in text


def test_an_answer_is_complete_only_without_an_error() -> None:
    event = 'data: {"choices":[{"delta":{"content":"x = 1"}}]}\n\n'
    assert StreamedAnswer(0.1, 200, f"{event}data: [DONE]\n\n", "1").is_complete
    assert not StreamedAnswer(0.1, 200, f'{event}data: {{"error":{{}}}}\n\ndata: [DONE]\n\n', "1").is_complete
    assert StreamedAnswer(0.1, 200, event + event, "1").text == "x = 1x = 1"


def test_an_error_is_not_right() -> None:
    graded = [
        GradedFixture(str(number), "", "code-write", outcome)
        for number, outcome in enumerate((GradeOutcome.PASSED, GradeOutcome.FAILED, GradeOutcome.UNANSWERED))
    ]
    run = ModelRun(graded, [10, 20, 30], 1.0)
    assert (run.passed, run.errors) == (1, 1)
    assert "1 of 3" in real.show_real({"alone": run}, 1)
