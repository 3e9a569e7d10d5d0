"""A gate is judged by the newest measurements of the serve as it is now, and by nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.domain.gate import Gate, condition
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, RunKind, Subject
from stoker_lab.gate.judgement import judge_gate, missing_kinds, outcome_of, usable_runs
from stoker_lab.gate.measurements import kind_of

NOW = Fingerprint("model-1", "flags-1")
PASSED, FAILED, UNDECIDED = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED


def run(
    kind: RunKind, at: float = 1.0, outcome: Outcome = PASSED, fingerprint: Fingerprint = NOW, **fields: Any
) -> Run:
    return Run(
        f"{kind.value}-{at}", kind, at, 1.0, Subject("fast", "fast", "", fingerprint=fingerprint), outcome, **fields
    )


def gate(*texts: str) -> Gate:
    return Gate("g", tuple(map(condition, texts)))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("preflight", RunKind.PREFLIGHT), ("canary", RunKind.CANARY), ("ttft_p95 < 2s", RunKind.BENCHMARK),
        ("output_rate > 5", RunKind.BENCHMARK), ("tools.lower >= 0.85", RunKind.PREFLIGHT),
        ("context > 9", RunKind.CONTEXT), ("c4.tpot_p95 < 1s", RunKind.BENCHMARK),
    ],
)  # fmt: skip
def test_each_condition_knows_what_measures_it(text: str, kind: RunKind) -> None:
    assert kind_of(condition(text)) is kind


def test_what_is_not_measured_yet_is_to_be_run_once_each() -> None:
    asked = gate("preflight", "ttft_p95 < 2s", "tools.lower >= 0.8", "tpot_p50 < 1s", "canary")
    assert missing_kinds(asked, [run(RunKind.CANARY)]) == [RunKind.PREFLIGHT, RunKind.BENCHMARK]
    assert [finding.outcome for finding in judge_gate(asked, [])] == [UNDECIDED] * 5
    assert "no benchmark was measured on this serve" in judge_gate(asked, [])[1].observed


def test_only_measurements_of_just_this_serve_as_it_is_now_count() -> None:
    good = run(RunKind.PREFLIGHT, 5.0)
    others = [
        run(RunKind.PREFLIGHT, 6.0, fingerprint=Fingerprint("model-2", "flags-1")),
        run(RunKind.PREFLIGHT, 6.0, fingerprint=Fingerprint("model-1", "flags-2")),
        run(RunKind.PREFLIGHT, 6.0, outcome=Outcome.INTERRUPTED),
        run(RunKind.PREFLIGHT, 1.0),
    ]
    other = run(RunKind.PREFLIGHT, 7.0)
    other.subject = Subject("slow", "slow", "", fingerprint=NOW)
    assert usable_runs([*others, good, other], "fast", NOW, 5.0, now=8.0) == [good]
    assert usable_runs([*others, good], "fast", NOW, None, now=8.0) == [good, others[3]]
    unknown = run(RunKind.PREFLIGHT, fingerprint=Fingerprint())
    assert usable_runs([unknown], "fast", Fingerprint(), None, now=8.0) == []


def test_a_whole_measurement_counts_as_it_went_the_newest_first() -> None:
    bad = run(RunKind.PREFLIGHT, 2.0, FAILED, findings=[Finding("needle", FAILED), Finding("echo", PASSED)])
    (found,) = judge_gate(gate("preflight"), [bad, run(RunKind.PREFLIGHT, 1.0)])
    assert (found.outcome, found.observed) == (FAILED, "preflight preflight-2.0: failed: needle")
    (found,) = judge_gate(gate("preflight"), [run(RunKind.PREFLIGHT)])
    assert (found.outcome, found.observed) == (PASSED, "preflight preflight-1.0: passed")


@pytest.mark.parametrize(
    ("passed", "n", "text", "outcome"),
    [
        (30, 30, "tools.lower >= 0.85", PASSED),
        (10, 10, "tools.lower >= 0.85", UNDECIDED),
        (5, 30, "tools.lower >= 0.85", FAILED),
        (0, 60, "tools.upper <= 0.1", PASSED),
        (30, 60, "tools.upper <= 0.1", FAILED),
        (1, 20, "tools.upper <= 0.1", UNDECIDED),
    ],
)
def test_a_rate_passes_fails_or_is_not_decided_by_its_interval(
    passed: int, n: int, text: str, outcome: Outcome
) -> None:
    (found,) = judge_gate(gate(text), [run(RunKind.PREFLIGHT, numbers={"tools.passed": passed, "tools.n": n})])
    assert found.outcome is outcome
    assert f"{passed} of {n}" in found.observed


def test_a_number_is_compared_and_one_that_is_not_there_decides_nothing() -> None:
    measured = [run(RunKind.BENCHMARK, numbers={"ttft_p95": 1500.0, "c4.ttft_p95": 2500.0, "tpot_p50": None})]
    found = judge_gate(gate("ttft_p95 < 2s", "ttft_p95 < 1s", "tpot_p50 < 1s", "c4.ttft_p95 < 2s"), measured)
    assert [finding.outcome for finding in found] == [PASSED, FAILED, UNDECIDED, FAILED]
    assert found[0].observed == "ttft_p95 = 1500 ms"
    (found_rate,) = judge_gate(gate("needle.lower > 0.5"), [run(RunKind.PREFLIGHT)])
    assert found_rate.outcome is UNDECIDED


def benchmark(*steps: tuple[str, dict[str, Any]], modes: str = "warm", **fields: Any) -> Run:
    def finding(name: str, seen: dict[str, Any]) -> Finding:
        return Finding(name, PASSED, numbers={"requests_ok": 60, "requests_failed": 0, **seen})

    findings = [finding(name, seen) for name, seen in steps]
    settings = {"modes": msgspec.json.encode([modes])}
    return run(
        RunKind.BENCHMARK, findings=findings, settings={k: msgspec.Raw(v) for k, v in settings.items()}, **fields
    )


def test_a_serve_that_is_slower_by_a_second_and_a_half_fails_the_documented_gate() -> None:
    asked = gate("ttft_p95 < 2s")
    for ttft, outcome in ((600.0, PASSED), (600.0 + 1500.0, FAILED)):
        (found,) = judge_gate(asked, [benchmark(("c1", {"ttft_p95": ttft}))])
        assert (found.outcome, f"= {ttft:.4g} ms over 60 requests" in found.observed) == (outcome, True)


@pytest.mark.parametrize(("n", "text"), [(59, "ttft_p95 < 2s"), (9, "ttft_p50 < 2s"), (59, "ttft_max < 2s")])
def test_too_few_requests_decide_nothing_and_are_measured_again(n: int, text: str) -> None:
    few = benchmark(("c1", {"requests_ok": n, "ttft_p50": 1.0, "ttft_p95": 1.0, "ttft_max": 1.0}))
    (found,) = judge_gate(gate(text), [few])
    assert (found.outcome, f"{n} requests answered, {n + 1} needed" in found.observed) == (UNDECIDED, True)
    assert missing_kinds(gate(text), [few]) == [RunKind.BENCHMARK]


def test_a_step_that_the_newest_benchmark_does_not_have_is_looked_for_in_older_ones_and_else_measured() -> None:
    newest = benchmark(("c1", {"ttft_p95": 10.0}), at=2.0)
    older = benchmark(("c1", {"ttft_p95": 20.0}), ("c4", {"ttft_p95": 3000.0}), at=1.0)
    asked = gate("ttft_p95 < 2s", "c4.ttft_p95 < 2s")
    assert missing_kinds(asked, [newest]) == [RunKind.BENCHMARK]
    assert missing_kinds(asked, [newest, older]) == []
    assert [one.outcome for one in judge_gate(asked, [newest, older])] == [PASSED, FAILED]


def test_a_figure_of_survivors_proves_nothing() -> None:
    broken = benchmark(("c1", {"ttft_p95": 10.0, "requests_ok": 60, "requests_failed": 3}))
    found = judge_gate(gate("ttft_p95 < 2s", "requests_failed == 0"), [broken])
    assert [one.outcome for one in found] == [FAILED, FAILED]
    assert "3 of 63 requests failed" in found[0].observed


def test_a_benchmark_of_cached_prompts_is_no_evidence() -> None:
    cached = benchmark(("prefix-cached.c1", {"ttft_p95": 10.0}), modes="prefix-cached")
    assert missing_kinds(gate("ttft_p95 < 2s"), [cached]) == [RunKind.BENCHMARK]
    (found,) = judge_gate(gate("ttft_p95 < 2s"), [cached])
    assert (found.outcome, "fresh prompts" in found.observed) == (UNDECIDED, True)


def suite(passed: int, n: int, whole: bool = True) -> Run:
    settings = {"whole": msgspec.Raw(b'["code-write"]' if whole else b"[]")}
    return run(RunKind.BOOTSTRAP, numbers={"code-write.passed": passed, "code-write.n": n}, settings=settings)


@pytest.mark.parametrize(("passed", "outcome"), [(55, PASSED), (50, UNDECIDED), (30, FAILED)])
def test_a_class_is_judged_by_the_interval_of_its_whole_suite(passed: int, outcome: Outcome) -> None:
    (found,) = judge_gate(gate("code-write.lower >= 0.8"), [suite(passed, 60)])
    assert (found.outcome, f"{passed} of 60" in found.observed) == (outcome, True)


def test_a_suite_that_was_ended_as_soon_as_it_looked_good_is_gone_on_with() -> None:
    assert missing_kinds(gate("code-write.lower >= 0.8"), [suite(27, 27, whole=False)]) == [RunKind.BOOTSTRAP]
    assert missing_kinds(gate("code-write.lower >= 0.8"), [suite(55, 60)]) == []


def test_a_rate_says_how_many_samples_it_takes_where_it_has_too_few() -> None:
    measured = run(RunKind.PREFLIGHT, numbers={"tools.passed": 24, "tools.n": 24})
    (found,) = judge_gate(gate("tools.lower >= 0.95"), [measured])
    assert (found.outcome, "even if all pass, 73 samples are needed" in found.observed) == (UNDECIDED, True)


def test_what_cannot_be_known_of_a_serve_may_be_set_aside_and_is_named() -> None:
    asked = gate("preflight", "tpot_p50 < 1s", "soak")
    measured = [run(RunKind.PREFLIGHT), benchmark(("c1", {"tpot_p50": None}))]
    assert outcome_of(judge_gate(asked, measured)) is UNDECIDED
    found = judge_gate(asked, measured, unknown=("tpot_p50 < 1s", "preflight"))
    assert [one.outcome for one in found] == [PASSED, Outcome.NOT_APPLICABLE, UNDECIDED]
    assert found[1].observed.startswith("unknown, and ignored")
    assert outcome_of(found[:2]) is PASSED
    assert outcome_of(found[1:2]) is UNDECIDED, "nothing is left that passed"


def test_an_unknown_identity_counts_as_unchanged_only_if_that_is_said_and_what_is_known_is_the_same() -> None:
    now = Fingerprint("", "flags-1", {"engine": "openai", "version": "1"})
    same = run(RunKind.SOAK, fingerprint=now)
    other = run(RunKind.SOAK, fingerprint=Fingerprint("", "flags-1", {"engine": "openai", "version": "2"}))
    assert usable_runs([same, other], "fast", now, None, now=8.0) == []
    assert usable_runs([same, other], "fast", now, None, now=8.0, unknown_ok=True) == [same]


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

    def counts(kind: RunKind, fingerprint: Fingerprint) -> bool:
        return bool(usable_runs([run(kind, fingerprint=fingerprint)], "fast", now, None, now=8.0))

    assert counts(RunKind.CONTEXT, others)
    assert not counts(RunKind.CONTEXT, newer)
    assert not counts(RunKind.CONTEXT, Fingerprint("model-2", others.execution, others.parts))
    assert not counts(RunKind.PREFLIGHT, others)


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
    (found,) = judge_gate(gate(text), [run(RunKind.CONTEXT, findings=findings, numbers={"context": 2048})])
    assert found.outcome is outcome
