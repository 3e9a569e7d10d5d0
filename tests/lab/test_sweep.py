"""Variants: which there are, what becomes of them, and which one is best."""

from __future__ import annotations

import pytest

from stoker.domain.run import Number, Outcome
from stoker.domain.serve import Serve, Tuning
from stoker_lab.trials.sweep import (
    BadVariation,
    Goal,
    Variant,
    apply_variant,
    best_variant,
    findings,
    outcome_of,
    parse_variations,
    variants,
)


def test_the_variants_are_the_cross_product_of_all_values_in_their_order() -> None:
    varied = parse_variations(["parallel=4,8", "context=2048, 4096,2048"])
    assert [row.name for row in variants(varied)] == [
        "parallel=4 context=2048", "parallel=4 context=4096", "parallel=8 context=2048", "parallel=8 context=4096",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "--vary is required"),
        (["parallel"], "write KEY=VALUE"),
        (["parallel="], "write KEY=VALUE"),
        (["colour=red"], "unknown key 'colour'; known keys: context, parallel"),
        (["parallel=four"], "'four' is not a valid"),
        (["parallel=0"], "'0' is not a valid"),
        (["graphs=yes"], "'yes' is not a valid"),
        (["extra_args='--a"], "not a valid value"),
        (["parallel=1", "parallel=2"], "given twice"),
        (["parallel=" + ",".join(map(str, range(1, 14))), "context=" + ",".join(map(str, range(1, 6)))],
         "these are 65 variants (13 x 5); a sweep runs at most 64"),
    ],
)  # fmt: skip
def test_what_cannot_vary_so_is_refused_with_what_is_expected(given: list[str], why: str) -> None:
    with pytest.raises(BadVariation) as error:
        parse_variations(given)
    assert why in str(error.value)


def test_a_variant_is_the_serve_with_other_settings() -> None:
    serve = Serve("a", context=512, extra_args=("--x",), tuning=Tuning(dtype="half"))
    found = apply_variant(
        serve, {"context": "4096", "graphs": "false", "attention_backend": "fa", "extra_args": "--y 2"}
    )
    assert (found.context, found.parallel, found.extra_args) == (4096, serve.parallel, ("--x", "--y", "2"))
    assert found.tuning == Tuning(dtype="half", graphs=False, attention_backend=("fa",))


def row(name: str, **numbers: Number) -> Variant:
    return Variant({"parallel": name}, "measured", numbers=numbers)


@pytest.mark.parametrize(
    ("goal", "name"),
    [(Goal.THROUGHPUT, "wide"), (Goal.TTFT, "quick"), (Goal.DECODE, "one"), (Goal.CONTEXT, "wide")],
)
def test_the_best_is_the_one_that_leads_by_the_goal(goal: Goal, name: str) -> None:
    found = [
        Variant({"parallel": "dead"}, "failed", "out_of_memory", numbers={"output_rate": 900.0}),
        row("quick", output_rate=100.0, ttft_p50=10.0, decode_rate=5.0, context=512),
        row("one", output_rate=90.0, ttft_p50=20.0, decode_rate=50.0, context=1024),
        row("wide", output_rate=300.0, ttft_p50=90.0, decode_rate=4.0, context=1024),
    ]
    leader = best_variant(found, goal)
    assert leader is not None
    assert leader.settings == {"parallel": name}
    assert best_variant(found[:1], goal) is None


def test_an_outcome_for_each_and_a_failed_variant_is_a_result() -> None:
    found = [row("4", output_rate=1.0), Variant({"parallel": "8"}, "failed", "out_of_memory", "it said so", "less")]
    assert outcome_of(found) is Outcome.PASSED
    assert [(one.outcome, one.cause, one.fix) for one in findings(found)] == [
        (Outcome.PASSED, "", ""), (Outcome.FAILED, "out_of_memory", "less"),
    ]  # fmt: skip
    assert outcome_of(found[1:]) is Outcome.FAILED
    assert outcome_of([*found, Variant({"parallel": "16"})]) is Outcome.INTERRUPTED
