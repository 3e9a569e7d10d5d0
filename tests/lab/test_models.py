"""Two models side by side: intervals by class, paired where the questions were the same, and a summary in words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest

from stoker.domain.tier import Cost
from stoker_lab.comparison.models import ClassRating, ComparedModel, PassRate, compare_models, paired, unpaired
from stoker_lab.reports.models_page import models_page
from stoker_lab.suites.grading import GradedFixture, GradeOutcome


def graded(task_class: str, passed: Sequence[bool], wording: str = "x") -> list[GradedFixture]:
    outcomes = [GradeOutcome.PASSED if one else GradeOutcome.FAILED for one in passed]
    return [GradedFixture(f"{task_class}-{at}", wording, task_class, outcome) for at, outcome in enumerate(outcomes)]


def side(name: str, *samples: list[GradedFixture], **speed: float) -> ComparedModel:
    return ComparedModel(name, name, [one for some in samples for one in some], speed)


def test_what_one_model_is_better_at_is_said_with_points_and_interval_and_what_it_costs_in_speed() -> None:
    a = side("A", graded("code-write", [True] * 30 + [False] * 30), graded("chat", [True] * 50 + [False] * 10),
             decode_rate=90.0)  # fmt: skip
    b = side("B", graded("code-write", [True] * 50 + [False] * 10), graded("chat", [True] * 49 + [False] * 11),
             decode_rate=50.0)  # fmt: skip
    found = compare_models(a, b)
    chat, code = found.classes
    assert (chat.rating, code.rating) == (ClassRating.SAME, ClassRating.BETTER)
    assert (code.difference, code.pairs) == (pytest.approx(1 / 3), 60)
    assert found.summary == (
        "B is better at code-write (+33 points, 95 % interval +20 to +45), not distinguishable elsewhere (1 of 2), "
        "and 1.8 times slower"
    )
    assert compare_models(b, a).summary.startswith("A is worse at code-write (-33 points, 95 % interval -45 to -20)")


@pytest.mark.parametrize(
    ("rates", "words"),
    [((100.0, 102.0), "about as fast"), ((100.0, 112.0), "12 % faster"), ((100.0, 250.0), "2.5 times faster"),
     ((100.0, 90.0), "11 % slower")],
)  # fmt: skip
def test_speed_is_said_as_a_factor_unless_it_is_about_the_same(rates: tuple[float, float], words: str) -> None:
    one, other = (side(name, decode_rate=rate) for name, rate in zip("AB", rates, strict=True))
    assert compare_models(one, other).summary.endswith(words)


def test_without_a_pace_the_first_token_tells_and_without_both_it_is_said() -> None:
    assert compare_models(side("A", ttft_p50=10.0), side("B", ttft_p50=30.0)).summary.endswith("3.0 times slower")
    assert compare_models(side("A"), side("B")).summary == (
        "B is not compared by class: no class was measured for both; their speeds were not measured"
    )


def test_other_wordings_are_other_questions_and_compared_as_two_samples() -> None:
    a, b = (side(name, graded("chat", [True] * 55 + [False] * 5, name)) for name in "AB")
    (chat,) = compare_models(a, b).classes
    assert (chat.pairs, chat.interval) == (0, unpaired(PassRate(55, 60), PassRate(55, 60)))
    only_a = side("A", graded("chat", [True] * 20), graded("review", [True] * 20))
    assert compare_models(only_a, side("B", graded("chat", [True] * 20))).unmatched_classes == ["review"]


def test_what_gave_no_sample_is_in_no_rate() -> None:
    lost = [GradedFixture(f"chat-{at}", "x", "chat", GradeOutcome.UNANSWERED) for at in range(20, 30)]
    a = side("A", graded("chat", [True] * 20), lost)
    (chat,) = compare_models(a, side("B", graded("chat", [True] * 20))).classes
    assert (chat.a, chat.pairs) == (PassRate(20, 20), 20)


def test_newcombes_own_example_comes_out() -> None:
    """56 of 70 against 48 of 80, from the paper: 0.0524 to 0.3339."""
    low, high = unpaired(PassRate(48, 80), PassRate(56, 70))
    assert (low, high) == (pytest.approx(0.0524, abs=5e-4), pytest.approx(0.3339, abs=5e-4))


def test_the_paired_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    draw, n, held = random.Random(5), 60, 0
    for _ in range(2000):
        pairs = [draw.random() for _ in range(n)]
        only_a, only_b = sum(one < 0.10 for one in pairs), sum(0.10 <= one < 0.22 for one in pairs)
        interval = paired(only_a, only_b, n)
        held += interval.low <= 0.12 - 0.10 <= interval.high
    assert 0.93 <= held / 2000 <= 0.98


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else_and_shows_names_as_they_are() -> None:
    a = side("<script>alert(1)</script>", graded("chat", [True] * 20), ttft_p50=12.5)
    b = side("B\"'&", graded("chat", [True] * 5 + [False] * 15))._replace(cost=Cost(1.0, 2.0), memory=2**30)
    text = models_page(compare_models(a, b), "now", ["<b>note</b>"])
    tags = _Tags()
    tags.feed(text)
    assert "script" not in tags.tags
    assert "b" not in tags.tags
    assert tags.links == []
    assert "@media (prefers-color-scheme: dark)" in text
    assert "http" not in text
    assert "1.0 GiB" in text
    assert "1 in, 2 out" in text
    assert "class='left worse'" in text
