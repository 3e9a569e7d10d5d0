"""What `stoker eval bootstrap` says of classes that gave no sample."""

from __future__ import annotations

import pytest

from stoker.cli.console.errors import UsageError
from stoker.cli.console.progress import ProgressLine
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import ProfileRow, Tier, Verdict
from stoker_lab.commands.bootstrap import (
    chosen_tiers,
    class_names,
    classes_served,
    describe_gap,
    print_tier,
    to_measure_again,
)
from stoker_lab.suites.grading import TOO_LONG, UngradedFixtures

TIER = Tier("small", "spark")


def row(task_class: str, verdict: Verdict) -> ProfileRow:
    return ProfileRow("small", task_class, "i", "e", 4, 4, verdict)


def test_a_class_without_a_sample_is_in_the_table_as_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    gaps = [
        UngradedFixtures("chat", 4, 1, "timeout", "chat-1"),
        UngradedFixtures("reasoning", 0, 3, TOO_LONG, "reasoning-001"),
    ]
    print_tier(TIER, [row("chat", Verdict.VERIFY), row("math-short", Verdict.ALLOW), row("mine", Verdict.DENY)], gaps)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines[2:]] == [
        ["chat", "allow-with-verify"], ["reasoning", "not"], ["math-short", "allow"], ["mine", "deny"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gap", "context", "says"),
    [
        (
            UngradedFixtures("reasoning", 0, 3, TOO_LONG, "reasoning-001"), 2048,
            "reasoning is not measured: 3 questions and their answers do not fit its context of 2048 tokens: "
            "give serve 'spark' a larger `context`, then run `stoker eval bootstrap small --class reasoning`",
        ),
        (
            UngradedFixtures("chat", 4, 3, TOO_LONG, "chat-4"), None,
            "chat is undecided: 3 questions and their answers do not fit its context: give serve "
            "'spark' a larger `context`, then run `stoker eval bootstrap small --class chat`",
        ),
        (
            UngradedFixtures("review", 0, 3, "http_500", "review-0"), 2048,
            "review is not measured: 3 questions could not be graded, the first review-0: http_500: fix that, then run "
            "`stoker eval bootstrap small --class review`",
        ),
        (
            UngradedFixtures("planning", 27, 2, "timeout", "p-1"), 2048,
            "planning: 2 questions could not be graded, the first p-1: timeout",
        ),
    ],
)  # fmt: skip
def test_a_gap_says_why_and_what_helps(gap: UngradedFixtures, context: int | None, says: str) -> None:
    rows = [row("chat", Verdict.VERIFY), row("planning", Verdict.ALLOW)]
    assert describe_gap(gap, TIER, rows, context) == says


def test_a_tier_is_measured_at_what_its_classes_let_it_serve(capsys: pytest.CaptureFixture[str]) -> None:
    limited = Tier("small", "spark", classes=("chat", "planning"))
    router = RouterSettings((limited,))
    assert classes_served(router, limited, []) == ["chat", "planning"]
    assert capsys.readouterr().err == ""
    assert classes_served(router, limited, ["planning", "review"]) == ["planning"]
    assert "tier 'small' does not serve review: left out" in capsys.readouterr().err
    with pytest.raises(UsageError, match="tier 'small' serves none of review"):
        classes_served(router, limited, ["review"])
    cloud = Tier("dear", "far", cloud=True)
    assert classes_served(RouterSettings((cloud,), allow_cloud=False), cloud, ["review"]) == ["review"], (
        "measured before it is allowed"
    )


def test_progress_says_at_most_or_nothing_where_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine(qualifier="at most") as bar:
        bar.show("small: chat", 0.1, None)
        bar.show("small: review", 0.2, 125.0)
    assert capsys.readouterr().err.splitlines() == ["small: chat", "small: review (at most 2m 05s left)"]


def test_classes_may_be_given_in_several_options_or_between_commas() -> None:
    assert class_names(["planning", "chat, review", "chat"]) == ["planning", "chat", "review"]
    assert class_names([]) == []


def test_what_a_judge_contradicts_is_measured_again_as_what_changed_is() -> None:
    stale = [{"tier": "small", "class": "chat", "why": "changed"}, {"tier": "large", "class": "review", "why": "worse"}]
    contradictions = [{"tier": "small", "class": name, "why": "the judge"} for name in ("planning", "chat")]
    routing = {"stale": stale, "contradictions": contradictions}
    assert to_measure_again(routing, "small") == ["chat", "planning"]
    assert to_measure_again(routing, "large") == ["review"]


def test_a_tier_that_only_judges_is_not_measured_as_one_that_answers() -> None:
    judge, cloud = Tier("judge", "wise", classes=()), Tier("far", "cloud", cloud=True)
    router = RouterSettings((TIER, cloud, judge))
    assert chosen_tiers(router, []) == [TIER]
    assert chosen_tiers(router, ["far"]) == [cloud]
    with pytest.raises(UsageError, match="no local tier answers"):
        chosen_tiers(RouterSettings((cloud, judge)), [])
    with pytest.raises(UsageError, match="stoker eval validator judge --class CLASS"):
        classes_served(router, judge, [])
