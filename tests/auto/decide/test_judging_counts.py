"""Which grades count: those of a judge that was measured for the class, and that gains nothing by them."""

from __future__ import annotations

import pytest

from stoker.domain.routing import RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve, Translation
from stoker.domain.tier import LIVE, GradedRow, Tier, Verdict
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.judging import Judging, is_same_model, judged_classes, rival_of

MODEL = Fingerprint("vendor/wise")
JUDGING = Judging("judge", "j", {"chat": MODEL}, {"planning": "nobody measured it"})
CHEAP, JUDGE = Tier("cheap", "s"), Tier("judge", "j", cloud=True, classes=())


def grades(task: str = "chat", judge: str = "j", identity: str = "vendor/wise", execution: str = "") -> GradedRow:
    return GradedRow("cheap", task, "i", "e", 30, 0, Verdict.DENY, None, LIVE, "", 1.0, judge, identity, execution)


def test_grades_of_a_judge_that_passed_for_the_class_count() -> None:
    assert JUDGING.problem(grades()) == ""


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (grades("planning"), "nobody measured it"),
        (grades("review"), "stoker eval validator judge --class review"),
        (grades(judge=""), "not configured now"),
        (grades(judge="k"), "not configured now"),
        (grades(identity="vendor/new"), "stoker eval validator judge --class chat"),
        (grades(identity=""), "was not known which model the judge was when it gave them"),
        (grades(execution="x"), "another model"),
    ],
)
def test_other_grades_do_not_count_and_it_is_said_why(row: GradedRow, why: str) -> None:
    assert why in JUDGING.problem(row)
    assert Judging().problem(row) == "they are of a judge that is not configured now"


def test_routing_goes_by_grades_only_while_they_count() -> None:
    quality, key = TierQuality({}), ("cheap", "chat")
    quality.on_identified("s", Fingerprint("i", "e"))
    quality.on_graded(grades())
    assert quality.standing(CHEAP, "chat", False).why == "not measured at chat"
    assert quality.grades[key].n == 30, "they are kept"
    assert quality.grade_problem(key)
    quality.on_judging(JUDGING)
    assert quality.standing(CHEAP, "chat", False).verdict is Verdict.DENY
    assert quality.grade_problem(key) == ""
    quality.on_judging(Judging())
    assert quality.standing(CHEAP, "chat", False).verdict is Verdict.VERIFY


def cloud(name: str, model: str) -> Serve:
    return Serve(name, served_name=model, translation=Translation(cloud=True))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (cloud("a", "vendor/Wise-4.5"), cloud("b", "wise-4-5"), True),
        (cloud("a", "wise-4.5"), cloud("b", "wise-4.6"), False),
        (Serve("a", model="/m/x.gguf"), Serve("b", model="/m/x.gguf", served_name="y"), True),
        (Serve("a", model="/m/x.gguf", served_name="z"), Serve("b", model="/m/y.gguf", served_name="z"), False),
        (Serve("a", model="org/Wise", engine="vllm"), cloud("b", "wise"), True),
        (Serve("a"), Serve("b"), False),
    ],
)
def test_a_model_is_known_by_its_weights_or_its_name(one: Serve, other: Serve, same: bool) -> None:
    assert is_same_model(one, other) is is_same_model(other, one) is same


def sampled(weights: str, temperature: int) -> Fingerprint:
    """As a serve is identified: its identity is of its weights and its sampling."""
    return Fingerprint(f"{weights} at {temperature}", "e", {"model": weights, "sampling": str(temperature)})


@pytest.mark.parametrize(
    ("tiers", "serves", "known", "rival"),
    [
        ((CHEAP, JUDGE), {"s": Serve("s"), "j": cloud("j", "wise")}, {}, ""),
        ((CHEAP, Tier("judge", "j", cloud=True)), {"s": Serve("s"), "j": cloud("j", "wise")}, {}, "judge"),
        ((CHEAP, Tier("judge", "j", cloud=True, classes=("review",))), {"s": Serve("s"), "j": cloud("j", "w")}, {}, ""),
        (
            (CHEAP, Tier("dear", "d", cloud=True), JUDGE),
            {"d": cloud("d", "v/wise"), "j": cloud("j", "wise")},
            {},
            "dear",
        ),
        ((Tier("twin", "j"), JUDGE), {"j": cloud("j", "wise")}, {}, "twin"),
        ((CHEAP, JUDGE), {"s": Serve("s"), "j": Serve("j")}, {"s": MODEL, "j": MODEL}, "cheap"),
        ((CHEAP, JUDGE), {"s": Serve("s"), "j": Serve("j")}, {"s": MODEL, "j": Fingerprint("x")}, ""),
        ((CHEAP, JUDGE), {"s": Serve("s"), "j": Serve("j")}, {"s": sampled("w", 0), "j": sampled("w", 1)}, "cheap"),
        ((CHEAP, JUDGE), {"s": Serve("s"), "j": Serve("j")}, {"s": sampled("w", 0), "j": sampled("v", 0)}, ""),
        (
            (CHEAP, JUDGE),
            {"s": Serve("s", model="/m/x.gguf"), "j": Serve("j", model="/m/x.gguf")},
            {"s": sampled("w", 0), "j": sampled("", 0)},
            "cheap",
        ),
    ],
    ids=[
        "only judges",
        "itself",
        "other classes",
        "same model",
        "same serve",
        "same weights",
        "other weights",
        "same weights, other sampling",
        "other weights, same sampling",
        "same file",
    ],
)
def test_whoever_may_answer_the_class_and_has_the_judges_model_gains_by_its_grades(
    tiers: tuple[Tier, ...], serves: dict[str, Serve], known: dict[str, Fingerprint], rival: str
) -> None:
    found = rival_of(tiers[-1], "chat", RouterSettings(tiers), serves, known)
    assert ("" if found is None else found.name) == rival


def test_a_judge_is_asked_about_classes_that_somebody_else_may_answer() -> None:
    tiers = (Tier("cheap", "s", classes=("chat", "review")), JUDGE)
    assert set(judged_classes(JUDGE, RouterSettings(tiers))) == {"chat", "review"}
    assert not judged_classes(JUDGE, RouterSettings((Tier("far", "f", cloud=True), JUDGE), allow_cloud=False))
