"""Plans that were written before are graded the same, byte for byte, whoever does it."""

from __future__ import annotations

import asyncio
import json
import random
from importlib.resources import files
from pathlib import Path

import pytest
from tests.lab.suites.answering import text

from stoker.domain.answer import Answer
from stoker_lab.planning import plan_report
from stoker_lab.planning.plan_report import PlanOutput
from stoker_lab.requests.client import ModelReply
from stoker_lab.requests.timing import RequestTiming
from stoker_lab.suites import check_kinds, fixture
from stoker_lab.suites.fixture import Fixture, FixtureError

FIXTURES = fixture.all_shipped_fixtures()


def test_the_report_in_the_package_is_what_its_outputs_give() -> None:
    assert (
        plan_report.plan_report(FIXTURES, plan_report.shipped())
        == (files("stoker_lab.planning") / "shipped-report.json").read_bytes()
    )


def test_the_order_of_outputs_and_fixtures_changes_no_byte() -> None:
    outputs, own = plan_report.shipped(), list(FIXTURES)
    random.Random(1).shuffle(outputs)
    random.Random(2).shuffle(own)
    assert plan_report.plan_report(own, outputs) == plan_report.plan_report(FIXTURES, plan_report.shipped())


def test_good_plans_pass_and_bad_ones_are_told_apart_by_their_shares() -> None:
    document = json.loads(plan_report.plan_report(FIXTURES, plan_report.shipped()))
    passed = {name: (model["passed"], model["n"]) for name, model in document["models"].items()}
    assert passed == {"ember": (8, 8), "spark": (0, 8), "hand-good": (3, 3), "hand-bad": (0, 3)}
    shares = {one["fixture"]: one["shares"] for one in document["outputs"] if one["model"] == "hand-bad"}
    assert set(shares["planning-004"].values()) == {0.0}  # no steps at all
    assert shares["planning-031"]["numbered"] == shares["planning-031"]["distinct"] == 0.0
    assert shares["planning-019"]["steps"] == 0.0
    assert shares["planning-019"]["order"] == 0.5


def test_an_output_that_belongs_to_no_plan_is_refused() -> None:
    plan = Fixture("p", "planning", {"messages": []}, check_kinds.PlanCheck(1))
    with pytest.raises(FixtureError, match="'x', which 'm' answers, is not a planning fixture"):
        plan_report.plan_report([plan], [PlanOutput("x", "m", "")])
    with pytest.raises(FixtureError, match="'m' answers 'p' twice"):
        plan_report.plan_report([plan], [PlanOutput("p", "m", ""), PlanOutput("p", "m", "1. Go")])


def test_outputs_of_ones_own_are_read_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(plan_report.lines([PlanOutput("p", "m", "1. Go\n2. Höher")]))
    assert plan_report.read(tmp_path) == [PlanOutput("p", "m", "1. Go\n2. Höher")]
    (tmp_path / "b.jsonl").write_text('{"fixture": "p"}\n')
    with pytest.raises(FixtureError, match=r"b\.jsonl, line 1: .*`model`"):
        plan_report.read(tmp_path)
    with pytest.raises(FixtureError, match="does not exist"):
        plan_report.read(tmp_path / "not")


def test_plans_are_written_anew_and_one_that_does_not_come_is_empty() -> None:
    own = [Fixture(f"p{at}", "planning", {"messages": []}, check_kinds.PlanCheck(1)) for at in range(2)]
    own.append(Fixture("other", "chat", {"messages": []}, check_kinds.CopyCheck("a")))

    async def ask(one: Fixture) -> ModelReply:
        answer: Answer = text("1. Go")
        return ModelReply(RequestTiming(0.0, 0.0, 1.0, failure="" if one.id == "p0" else "timeout"), answer, None, [])

    found = asyncio.run(plan_report.write_plans(own, ask, "m"))
    assert found == [PlanOutput("p0", "m", "1. Go"), PlanOutput("p1", "m", "")]
    assert json.loads(plan_report.plan_report(own, found))["models"]["m"]["passed"] == 1
