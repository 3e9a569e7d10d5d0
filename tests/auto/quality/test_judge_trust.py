"""What the configuration and a measurement say of the judge, and how people are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.domain.routing import RouterSettings, ShadowSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve, Translation
from stoker.domain.tier import Tier
from stoker_lab.artifacts import record_file
from stoker_lab.judge_prompt import WORDING
from stoker_lab.judge_trust import judging_of, read_judged, uncounted_classes
from stoker_lab.judging import Judging
from stoker_lab.validator.judge_rates import JudgedCase, header_of, path_of

CHEAP = Tier("cheap", "s", classes=("review", "chat"))
JUDGE = Tier("judge", "j", cloud=True, classes=())
SERVES = {"s": Serve("s"), "j": Serve("j", served_name="v/wise", translation=Translation(cloud=True))}
MEASURE = "stoker eval validator judge --class review"


def settings(*tiers: Tier) -> RouterSettings:
    return RouterSettings(tiers, shadow=ShadowSettings(0.1, "judge"))


def measure(state: Path, rules: str = WORDING, missed: int = 0, total: int = 40, identity: str = "v/wise") -> None:
    head = header_of(Fingerprint(identity), rules, "cases", total)
    with record_file.writer(path_of(state, "j", "review"), head, is_continued=False) as write:
        for at in range(20):
            write(JudgedCase(f"r{at}", True, "pass", 1.0))
            write(JudgedCase(f"w{at}", False, "pass" if at < missed else "fail", 1.0))


def judged(
    router: RouterSettings, serves: Mapping[str, Serve], state: Path, known: Mapping[str, Fingerprint]
) -> Judging:
    return judging_of(router, serves, read_judged(router, state), known)


def problem(state: Path, *tiers: Tier) -> str:
    return judged(settings(*tiers), SERVES, state, {}).problems.get("review", "")


def test_grades_of_a_judge_that_was_measured_and_answers_nothing_count(tmp_path: Path) -> None:
    measure(tmp_path)
    found = judged(settings(CHEAP, JUDGE), SERVES, tmp_path, {})
    assert (found.name, found.serve, found.passed) == ("judge", "j", {"review": Fingerprint("v/wise")})
    assert set(found.problems) == {"chat"}, "a measurement is of one class, and a tier has only these two"


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (None, f"nobody measured how often the judge 'judge' is wrong about review: {MEASURE}"),
        ({"rules": "old"}, f"the judge 'judge' was measured with other rules than it is given now: {MEASURE}"),
        ({"total": 41}, f"the judge 'judge' did not pass at review: it was asked about 40 of 41 answers: {MEASURE}"),
        ({"missed": 5}, f"the judge 'judge' did not pass at review: it passed 5 of 20 wrong answers: {MEASURE}"),
        ({"missed": 4}, ""),
    ],
)
def test_a_judge_that_did_not_pass_as_it_is_now_does_not_count(
    tmp_path: Path, measured: dict[str, object] | None, why: str
) -> None:
    if measured is not None:
        measure(tmp_path, **measured)  # type: ignore[arg-type]
    assert problem(tmp_path, CHEAP, JUDGE) == why


def test_a_judge_that_gains_by_its_grades_does_not_count_however_well_it_did(tmp_path: Path) -> None:
    measure(tmp_path)
    own = problem(tmp_path, CHEAP, Tier("judge", "j", cloud=True))
    assert own.startswith("the judge 'judge' may itself answer review, so each `fail` would send it requests")
    twin = Tier("twin", "j", cloud=True, classes=("review",))
    assert problem(tmp_path, CHEAP, twin, JUDGE).startswith("the judge 'judge' is the model of tier 'twin', which may")


def test_a_judge_of_which_nobody_knows_the_model_never_counts_and_no_measurement_is_asked_for(tmp_path: Path) -> None:
    near, serves = Tier("judge", "j", classes=()), {"s": Serve("s"), "j": Serve("j")}
    unknown = {"j": Fingerprint("", "e", {"sampling": "default", "template": "t"})}

    def said(known: dict[str, Fingerprint]) -> str:
        return judged(settings(CHEAP, near), serves, tmp_path, known).problems["review"]

    assert "which model the judge 'judge' runs is not known (its model, revision, quantisation)" in said(unknown)
    assert "eval validator" not in said(unknown)
    assert said({}).endswith(MEASURE), "it did not run yet, so it may be known once it does"
    measure(tmp_path, identity="")
    assert "which model the judge 'judge' runs is not known (its model)" in said({})
    assert uncounted_classes(settings(CHEAP, near), serves, tmp_path).unidentified == said({})
    assert said({"j": Fingerprint("i", "e", {"model": "x"})}).endswith(MEASURE), "it is known by now"


def test_without_a_judge_nothing_counts(tmp_path: Path) -> None:
    assert judged(RouterSettings((CHEAP,)), SERVES, tmp_path, {}) == Judging()
    gone = replace(SERVES["j"], name="k")
    assert judged(settings(CHEAP), {"k": gone}, tmp_path, {}) == Judging()


def test_people_are_told_at_which_classes_no_grade_counts(tmp_path: Path) -> None:
    measure(tmp_path)
    both = settings(CHEAP, Tier("twin", "j", cloud=True, classes=("chat",)), JUDGE)
    assert uncounted_classes(both, SERVES, tmp_path) == ("judge", ["chat"], [], "")
    assert uncounted_classes(settings(CHEAP, JUDGE), SERVES, tmp_path) == ("judge", [], ["chat"], "")
