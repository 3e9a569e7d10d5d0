"""Judges beside the structural grade of plans: what is read, what is refused, and how far they agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker_lab.planning import plan_report
from stoker_lab.planning.judgements import Judgement, parse, read
from stoker_lab.planning.plan_report import JudgementFile, PlanOutput
from stoker_lab.statistics.stats import kappa, wilson
from stoker_lab.suites import check_kinds
from stoker_lab.suites.fixture import Fixture, FixtureError

FIXTURES = [Fixture(f"p{at}", "planning", {"messages": []}, check_kinds.PlanCheck(2)) for at in range(4)]
GOOD, BAD = "1. Go there.\n2. Check it.", "no plan"
OUTPUTS = [PlanOutput(f"p{at}", "m", GOOD if at < 3 else BAD) for at in range(4)]
HEAD = "fixture,model,judge,score\n"


def judged(*rows: tuple[str, str, str, float]) -> JudgementFile:
    return JudgementFile([Judgement(*row, "", line) for line, row in enumerate(rows, 2)], "judges.csv")


def agreement(
    rows: JudgementFile, outputs: Sequence[PlanOutput] = OUTPUTS
) -> dict[str, tuple[int, float, float | None]]:
    found = json.loads(plan_report.plan_report(FIXTURES, outputs, judged=rows))["judged"]
    return {" and ".join(one["between"]): (one["n"], one["agreement"], one["kappa"]) for one in found["agreement"]}


# -- reading --------------------------------------------------------------------------------------------------------


def test_csv_and_jsonl_say_the_same() -> None:
    csv = f'\ufeff{HEAD.strip()},note\np0,m,ann,0.75,"two\nlines"\n\np1,m,ann,PASS\np2,m,ann,fail,\n'
    lines = [
        {"fixture": "p0", "model": "m", "judge": "ann", "score": 0.75, "note": "two\nlines"},
        {"fixture": "p1", "model": "m", "judge": "ann", "score": "pass"},
        {"fixture": "p2", "model": "m", "judge": "ann", "score": 0},
    ]
    found = parse(csv.lstrip("\ufeff"), "j")
    assert [one[:5] for one in found] == [one[:5] for one in parse("\n".join(map(json.dumps, lines)), "j")]
    assert [(one.score, one.line) for one in found] == [(0.75, 2), (1.0, 5), (0.0, 6)]
    assert found[0].note == "two\nlines"


WRONG = [
    (f"{HEAD}p0,m,ann,1.5\n", "j, line 2, score: '1.5' is neither 0 to 1, nor pass or fail"),
    (f"{HEAD}p0,m,ann,nan\n", "j, line 2, score: 'nan'"),
    (f"{HEAD}p0,m,ann,good\n", "j, line 2, score: 'good'"),
    (f"{HEAD}p0,m,ann,1\np0,m,ann\n", "j, line 3, score: is missing"),
    (f"{HEAD}p0,m,,1\n", "j, line 2, judge: is missing"),
    (f"{HEAD}p0,m,structure,1\n", "j, line 2, judge: 'structure' stands for another grade"),
    (f"{HEAD}p0,m,ann,1\np1,m,ann,1\np0,m,ann,0\n", "j, line 4, judge: 'ann' judged this output in line 2 already"),
    (f"{HEAD}p0,m,ann,1,2\n", "j, line 2: 5 cells under 4 columns"),
    ("fixture,model,score\n", "j, line 1, judge: this column is missing"),
    ("fixture,model,judge,score,score\n", "j, line 1, score: this column stands twice"),
    ("fixture,model,judge,score,when\np0,m,ann,1,now\n", "j, line 2, when: is unknown"),
    (f'{HEAD}p0,"m,ann,1\n', "j, line 2: "),
    (HEAD, "j holds no judgement"),
    ("", "j holds no judgement"),
    ('{"fixture": "p0"', "j, line 1: "),
    ('{"fixture": "p0", "model": 3, "judge": "ann", "score": 1}', "j, line 1, model: is not text"),
    ('{"fixture": "p0", "model": "m", "judge": "ann", "score": true}', "j, line 1, score: 'True'"),
    ('{"fixture": "p0", "model": "m", "judge": "ann", "score": 1, "note": 3}', "j, line 1, note: is not text"),
    ('{"fixture": "p0", "model": "m", "judge": "ann", "score": 1}\n3', "j, line 2: is not an object"),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_what_is_wrong_names_line_and_field_and_nothing_is_taken(text: str, told: str) -> None:
    with pytest.raises(FixtureError) as found:
        parse(text, "j")
    assert str(found.value).startswith(told)


@given(st.one_of(st.text(), st.text().map(lambda text: HEAD + text), st.text().map(lambda text: "{" + text)))
@example(HEAD + "\x00")
@example(HEAD + '"' + "x" * 200_000)
@example('{"a":' * 2000)
def test_any_text_is_read_or_refused_and_never_breaks(text: str) -> None:
    try:
        assert all(0 <= one.score <= 1 and one.fixture and one.model and one.judge for one in parse(text, "j"))
    except FixtureError:
        return


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    for name, told in (("latin", "is not UTF-8 text"), ("none", "cannot be read")):
        with pytest.raises(FixtureError, match=told):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("p9", "m", "ann", 1.0), "judges.csv, line 2, fixture: no graded output is of 'p9'"),
        (("p0", "x", "ann", 1.0), "judges.csv, line 2, model: no graded output is of 'x'"),
        (("p0", "n", "ann", 1.0), "judges.csv, line 2, fixture: 'n' has no graded output of 'p0'"),
    ],
)
def test_a_judgement_of_an_output_that_there_is_not_is_refused(row: tuple[str, str, str, float], told: str) -> None:
    with pytest.raises(FixtureError) as found:
        plan_report.plan_report(FIXTURES, [*OUTPUTS, PlanOutput("p1", "n", GOOD)], judged=judged(row))
    assert str(found.value) == told


# -- agreement ------------------------------------------------------------------------------------------------------


def test_kappa_is_cohens() -> None:
    """The example that is calculated everywhere: 20 and 15 of 50 agree, one says yes 25 times, the other 30 times."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert kappa(pairs) == pytest.approx(0.4)
    assert (kappa([]), kappa([(True, True)] * 3)) == (None, None)
    assert kappa([(True, False), (False, True)]) == -1.0
    assert kappa([(True, True), (False, False)]) == 1.0


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_kappa_lies_within_one_and_does_not_ask_who_is_first(pairs: list[tuple[bool, bool]]) -> None:
    found = kappa(pairs)
    assert found == kappa([(b, a) for a, b in pairs]) == kappa([(not a, not b) for a, b in pairs])
    assert found is None or -1.0 <= found <= 1.0


def test_each_judge_is_compared_with_the_structure_and_with_each_other() -> None:
    rows = judged(
        ("p0", "m", "ann", 1.0), ("p1", "m", "ann", 0.5), ("p2", "m", "ann", 0.2), ("p3", "m", "ann", 0.0),
        ("p0", "m", "bob", 1.0), ("p3", "m", "bob", 0.0),
    )  # fmt: skip
    assert agreement(rows) == {
        "structure and ann": (4, 0.75, 0.5), "structure and bob": (2, 1.0, 1.0),
        "structure and mean of the judges": (4, 0.75, 0.5), "ann and bob": (2, 1.0, 1.0),
    }  # fmt: skip
    one = judged(("p0", "m", "ann", 1.0))
    assert agreement(one) == {"structure and ann": (1, 1.0, None)}


def test_a_models_mean_is_over_its_outputs_and_has_an_interval() -> None:
    rows = judged(("p0", "m", "ann", 1.0), ("p0", "m", "bob", 0.0), ("p1", "m", "ann", 1.0))
    found = json.loads(plan_report.plan_report(FIXTURES, OUTPUTS, judged=rows))["judged"]["models"]
    low, high = wilson(1.5, 2)
    assert found == {"m": {"n": 2, "mean": 0.75, "low": round(low, 4), "high": round(high, 4), "structure": 1.0}}


@given(st.permutations([(f"p{at}", "m", judge, 0.1 * at) for at in range(4) for judge in ("ann", "bob", "eve")]))
def test_the_report_is_the_same_byte_for_byte_in_whatever_order_the_rows_come(
    rows: list[tuple[str, str, str, float]],
) -> None:
    first = plan_report.plan_report(FIXTURES, OUTPUTS, judged=judged(*sorted(rows)))
    assert plan_report.plan_report(FIXTURES, OUTPUTS[::-1], judged=judged(*rows)) == first


# -- baselines ------------------------------------------------------------------------------------------------------


def test_a_baseline_is_graded_the_same_and_named_and_may_be_judged() -> None:
    beside = [PlanOutput("p0", "frontier", GOOD), PlanOutput("p1", "frontier", BAD)]
    found = json.loads(plan_report.plan_report(FIXTURES, OUTPUTS, beside, judged(("p1", "frontier", "ann", 0.0))))
    assert found["baselines"] == ["frontier"]
    assert (found["models"]["frontier"]["passed"], found["models"]["frontier"]["n"]) == (1, 2)
    assert found["judged"]["agreement"][0]["agreed"] == 1
    assert "baselines" not in json.loads(plan_report.plan_report(FIXTURES, OUTPUTS))


def test_a_baseline_with_the_name_of_a_model_that_is_graded_is_refused() -> None:
    with pytest.raises(FixtureError, match="'m' is both a baseline and a graded model"):
        plan_report.plan_report(FIXTURES, OUTPUTS, [PlanOutput("p0", "m", GOOD)])
