"""The money of grading, what is kept of grades, and what a suite does to them."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from tests.auto.flow.test_flow_shadow import DAY, LARGE, SMALL, House, house, served
from tests.gateway.flow_stage import PATIENCE, Stage, story

from stoker.domain.run import Fingerprint
from stoker.domain.tier import Cost, GradedRow, ProfileRow, Verdict, Verify
from stoker.store.files import atomic
from stoker_auto.quality import shadow
from stoker_auto.quality.live_grades_file import read


@story(SMALL, LARGE)
async def test_the_days_money_ends_the_grading_until_the_next_day(stage: Stage) -> None:
    """One question costs 0.7 here; a second one might go beyond the cap."""
    async with house(stage, cost=Cost(700.0, 0.0), cost_cap=1.0) as it:
        await it.load()
        await served(stage)
        await it.grade("pass")
        await it.graded()
        it.counts.ungraded.clear()
        it.shadow.spent = it.shadow.spent.add(0.25, it.at)
        await served(stage)
        await it.dropped("cost_cap")
        it.at += DAY
        await served(stage)
        await it.grade("pass")
        await it.graded(2)
        assert it.shadow.status()["spent_today"] == pytest.approx(0.7)  # type: ignore[index]
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_grades_and_what_was_spent_are_there_after_a_restart(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        await it.grade("fail")
        await it.graded()
        await it.shadow.close()
        rows, spent = read(it.state / "live.json")
        assert [(row.passed, row.n, row.source) for row in rows.values()] == [(0, 1, "live")]
        assert spent.amount == pytest.approx(0.0012)
        again = House(stage, it.state, Verify.OFF, Cost(), {})
        assert (again.row, again.shadow.spent) == ((0, 1), spent)
        await again.shadow.close()


@story(SMALL, LARGE)
async def test_what_changes_while_it_is_written_is_written_after_it_in_one(
    stage: Stage,
) -> None:
    go, bodies = threading.Event(), list[bytes]()

    def slow(path: Path, body: bytes) -> None:
        bodies.append(body)
        go.wait(PATIENCE)
        if len(bodies) == 2:
            raise OSError(28, "the disk is full")

    async with house(stage) as it:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(atomic, "write", slow)
            await it.load()
            for number in (1, 2, 3):
                await served(stage)
                await it.grade("pass")
                await it.graded(number)
            await stage.until(lambda: bodies, "the first is under way")
            go.set()
            await stage.until(lambda: len(bodies) == 2, "what came meanwhile")
            await it.shadow.close()
        assert [json.loads(body)["rows"][0]["n"] for body in bodies] == [1, 3]
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_only_so_many_grades_are_remembered_by_their_request(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shadow, "REMEMBERED", 1)
            for number in (1, 2):
                await served(stage)
                await it.grade("pass")
                await it.graded(number)
        assert [bool(it.shadow.grade_of(one.id)) for one in stage.decisions] == [False, True]
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_what_a_suite_measures_afterwards_takes_the_place_of_the_grades(stage: Stage) -> None:
    async with house(stage) as it:
        it.tier_quality.on_graded(GradedRow("cheap", "chat", "i", "e", 20, 12, Verdict.DENY, source="live", at=5.0))
        before = {("cheap", "chat"): ProfileRow("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW, at=1.0)}
        it.tier_quality.on_measured(before)
        assert it.tier_quality.grades == {}, "it is new to Stoker, however old it is"
        it.tier_quality.on_graded(GradedRow("cheap", "chat", "i", "e", 20, 12, Verdict.DENY, source="live", at=5.0))
        it.tier_quality.on_measured(dict(before))
        assert len(it.tier_quality.grades) == 1, "nothing was measured since"
        it.begin()
        await stage.until((it.state / "live.json").exists, "it is written")
        it.tier_quality.on_measured(
            {("cheap", "chat"): ProfileRow("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW, at=6.0)}
        )
        assert it.tier_quality.grades == {}, "measured since"
        it.begin()
        await stage.until(lambda: read(it.state / "live.json")[0] == {}, "it is written")


ALLOWED = {("cheap", "chat"): ProfileRow("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW)}


async def fails(it: House, count: int) -> None:
    """The judge fails so many answers."""
    for number in range(1, count + 1):
        await served(it.stage)
        await it.grade("fail")
        await it.graded(number)


def verdict_of(it: House) -> str:
    tier = it.router.tier("cheap")
    assert tier is not None
    return it.router.standing(tier, "chat").verdict.value


@story(SMALL, LARGE)
async def test_three_fails_of_a_judge_that_answers_the_class_itself_change_nothing(stage: Stage) -> None:
    async with house(stage) as it:
        it.measure_judge()
        it.tier_quality.on_measured(ALLOWED)
        await it.load()
        await fails(it, 3)
        assert (verdict_of(it), it.router.stale(), it.router.contradictions(), it.notes) == ("allow", [], [], [])
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_only_a_judge_that_passed_for_the_class_denies_and_only_with_enough_grades(stage: Stage) -> None:
    async with house(stage, judge_classes=()) as it:
        await it.load()
        await fails(it, 19)
        it.measure_judge()
        assert verdict_of(it) == "allow-with-verify", "too few"
        await served(stage)
        await it.grade("fail")
        await it.graded(20)
        assert verdict_of(it) == "deny"
        for wrong, model in ((0, "another"), (2, "large-1")):
            it.measure_judge(model=model, wrong=wrong)
            assert verdict_of(it) == "allow-with-verify"
            assert "stoker eval validator dear --class chat" in it.shadow.status()["uncounted"][0]["why"]  # type: ignore[index]
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_where_suite_and_judge_contradict_each_other_people_are_told_once_and_nothing_is_denied(
    stage: Stage,
) -> None:
    async with house(stage, judge_classes=()) as it:
        it.measure_judge()
        it.tier_quality.on_measured(ALLOWED)
        await it.load()
        await fails(it, 22)
        assert (verdict_of(it), it.router.stale()) == ("allow-with-verify", [])
        why = "the judge contradicts the suite (live answers: 0 of 22 passed)"
        assert it.router.contradictions() == [("cheap", "chat", why)]
        [(kind, serve, text)] = it.notes
        assert (kind, serve) == ("judge", "small")
        assert text.endswith("`stoker eval calibrate cheap` measures it again")
        await served(stage)
        assert stage.decisions[-1].routed is not None
        assert (stage.decisions[-1].routed.tier, stage.decisions[-1].routed.verify) == ("cheap", "hold-tools")
        await it.grade("pass")
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_a_grade_by_a_judge_that_was_not_identified_yet_takes_nothing_from_earlier_ones(stage: Stage) -> None:
    async with house(stage, judge_cloud=False, judge_classes=()) as it:
        it.tier_quality.on_identified("large", Fingerprint("wise", "x", {"model": "w"}))
        await it.load()
        await fails(it, 2)
        it.tier_quality.on_started("large")
        await served(stage)
        await it.dropped("judge_unknown")
        assert it.row == (0, 2)
        it.tier_quality.on_identified("large", Fingerprint("wise", "x", {"model": "w"}))
        await served(stage)
        await it.grade("pass")
        await it.graded(3)
        assert it.row == (1, 3)
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_grades_by_a_judge_that_cannot_be_identified_are_kept(stage: Stage) -> None:
    async with house(stage, judge_cloud=False, judge_classes=()) as it:
        it.tier_quality.on_identified("large", Fingerprint("", "x", {"template": "t"}))
        await it.load()
        await fails(it, 2)
        assert it.row == (0, 2)
        stage.decisions.clear()
