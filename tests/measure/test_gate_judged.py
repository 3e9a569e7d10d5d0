"""A gate is judged by the newest measurements of the serve as it is now, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.domain.gate import Gate, condition
from stoker.domain.run import Finding, Fingerprint, Kind, Outcome, Run, Subject
from stoker.measure.gate import judge, kind_of, missing, outcome_of, usable

NOW = Fingerprint("model-1", "flags-1")
PASSED, FAILED, UNDECIDED = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED


def run(kind: Kind, at: float = 1.0, outcome: Outcome = PASSED, fingerprint: Fingerprint = NOW, **fields: Any) -> Run:
    return Run(
        f"{kind.value}-{at}", kind, at, 1.0, Subject("fast", "fast", "", fingerprint=fingerprint), outcome, **fields
    )


def gate(*texts: str) -> Gate:
    return Gate("g", tuple(map(condition, texts)))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("preflight", Kind.PREFLIGHT), ("canary", Kind.CANARY), ("ttft_p95 < 2s", Kind.BENCHMARK),
        ("output_rate > 5", Kind.BENCHMARK), ("tool-use.lower >= 0.85", Kind.PREFLIGHT),
        ("context > 9", Kind.CONTEXT), ("c4.tpot_p95 < 1s", Kind.BENCHMARK),
    ],
)  # fmt: skip
def test_each_condition_knows_what_measures_it(text: str, kind: Kind) -> None:
    assert kind_of(condition(text)) is kind


def test_what_is_not_measured_yet_is_to_be_run_once_each() -> None:
    asked = gate("preflight", "ttft_p95 < 2s", "tool-use.lower >= 0.8", "tpot_p50 < 1s", "canary")
    assert missing(asked, [run(Kind.CANARY)]) == [Kind.PREFLIGHT, Kind.BENCHMARK]
    assert [finding.outcome for finding in judge(asked, [])] == [UNDECIDED] * 5
    assert "no benchmark of this serve" in judge(asked, [])[1].seen


def test_only_measurements_of_just_this_serve_as_it_is_now_count() -> None:
    good = run(Kind.PREFLIGHT, 5.0)
    others = [
        run(Kind.PREFLIGHT, 6.0, fingerprint=Fingerprint("model-2", "flags-1")),
        run(Kind.PREFLIGHT, 6.0, fingerprint=Fingerprint("model-1", "flags-2")),
        run(Kind.PREFLIGHT, 6.0, outcome=Outcome.INTERRUPTED),
        run(Kind.PREFLIGHT, 1.0),
    ]
    other = run(Kind.PREFLIGHT, 7.0)
    other.subject = Subject("slow", "slow", "", fingerprint=NOW)
    assert usable([*others, good, other], "fast", NOW, 5.0, now=8.0) == [good]
    assert usable([*others, good], "fast", NOW, None, now=8.0) == [good, others[3]]
    unknown = run(Kind.PREFLIGHT, fingerprint=Fingerprint())
    assert usable([unknown], "fast", Fingerprint(), None, now=8.0) == []


def test_a_whole_measurement_counts_as_it_went_the_newest_first() -> None:
    bad = run(Kind.PREFLIGHT, 2.0, FAILED, findings=[Finding("needle", FAILED), Finding("echo", PASSED)])
    (found,) = judge(gate("preflight"), [bad, run(Kind.PREFLIGHT, 1.0)])
    assert (found.outcome, found.seen) == (FAILED, "preflight preflight-2.0: failed: needle")
    (found,) = judge(gate("preflight"), [run(Kind.PREFLIGHT)])
    assert (found.outcome, found.seen) == (PASSED, "preflight preflight-1.0: passed")


@pytest.mark.parametrize(
    ("passed", "n", "text", "outcome"),
    [
        (30, 30, "tool-use.lower >= 0.85", PASSED),
        (10, 10, "tool-use.lower >= 0.85", UNDECIDED),
        (5, 30, "tool-use.lower >= 0.85", FAILED),
        (0, 60, "tool-use.upper <= 0.1", PASSED),
        (30, 60, "tool-use.upper <= 0.1", FAILED),
        (1, 20, "tool-use.upper <= 0.1", UNDECIDED),
    ],
)
def test_a_rate_passes_fails_or_is_not_decided_by_its_interval(
    passed: int, n: int, text: str, outcome: Outcome
) -> None:
    (found,) = judge(gate(text), [run(Kind.PREFLIGHT, numbers={"tool-use.passed": passed, "tool-use.n": n})])
    assert found.outcome is outcome
    assert f"{passed} of {n}" in found.seen


def test_a_number_is_compared_and_one_that_is_not_there_decides_nothing() -> None:
    measured = [run(Kind.BENCHMARK, numbers={"ttft_p95": 1500.0, "c4.ttft_p95": 2500.0, "tpot_p50": None})]
    found = judge(gate("ttft_p95 < 2s", "ttft_p95 < 1s", "tpot_p50 < 1s", "c4.ttft_p95 < 2s"), measured)
    assert [finding.outcome for finding in found] == [PASSED, FAILED, UNDECIDED, FAILED]
    assert found[0].seen == "ttft_p95 = 1500 ms"
    (found_rate,) = judge(gate("needle.lower > 0.5"), [run(Kind.PREFLIGHT)])
    assert found_rate.outcome is UNDECIDED


def test_one_failure_fails_and_one_doubt_leaves_it_open() -> None:
    def outcome(*outcomes: Outcome) -> Outcome:
        return outcome_of(Finding("x", each) for each in outcomes)

    assert outcome(PASSED, PASSED) is PASSED
    assert outcome(PASSED, UNDECIDED) is UNDECIDED
    assert outcome(UNDECIDED, FAILED, PASSED) is FAILED
    assert outcome(Outcome.INTERRUPTED, PASSED) is UNDECIDED


def test_a_context_search_is_of_this_serve_whatever_limits_it_ran_with_itself() -> None:
    def marked(**parts: str) -> Fingerprint:
        return Fingerprint("model-1", str(sorted(parts.items())), parts)

    now = marked(context="512", **{"reported.context": "512", "reported.slots": "2"}, version="9")
    others = marked(context="512", **{"reported.context": "8192", "reported.slots": "4"}, version="9")
    newer = marked(context="512", **{"reported.context": "512", "reported.slots": "2"}, version="10")

    def counts(kind: Kind, fingerprint: Fingerprint) -> bool:
        return bool(usable([run(kind, fingerprint=fingerprint)], "fast", now, None, now=8.0))

    assert counts(Kind.CONTEXT, others)
    assert not counts(Kind.CONTEXT, newer)
    assert not counts(Kind.CONTEXT, Fingerprint("model-2", others.execution, others.parts))
    assert not counts(Kind.PREFLIGHT, others)


@pytest.mark.parametrize(
    ("text", "longest", "outcome"),
    [
        ("context >= 4096", FAILED, FAILED),
        ("context >= 4096", PASSED, UNDECIDED),
        ("context > 2048", PASSED, UNDECIDED),
        ("context >= 2048", PASSED, PASSED),
        ("context < 1024", PASSED, FAILED),
    ],
)
def test_a_search_that_found_nothing_too_long_does_not_fail_a_longer_context(
    text: str, longest: Outcome, outcome: Outcome
) -> None:
    findings = [Finding("context-2048", PASSED), Finding("context-4096", longest)]
    (found,) = judge(gate(text), [run(Kind.CONTEXT, findings=findings, numbers={"context": 2048})])
    assert found.outcome is outcome
