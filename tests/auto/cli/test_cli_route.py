"""`stoker route`: the plan for a prompt, and what is said where there is none."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, error

from stoker.cli.main import run
from stoker.domain.task import ClassSource
from stoker.domain.tier import Tier
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality

ROUTE = "POST /admin/route"


def found(**changes: Any) -> dict[str, Any]:
    return {
        "task": "planning", "source": "rules", "notes": ["ask:plan"], "high_risk": True,
        "steps": [{"tier": "dear", "serve": "cloud", "verdict": "allow", "verify": "off", "why": "trusted"}],
        "dropped": [{"tier": "cheap", "code": "denied", "why": "not measured at planning"}], "refusal": "",
    } | changes  # fmt: skip


def test_the_plan_is_told_with_class_order_and_why(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    stoker.answer(ROUTE, found())
    assert run(["route", "Plan the migration"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "class planning, high risk, by its form (ask:plan)"
    assert lines[2].split() == ["1", "dear", "allow", "off", "trusted"]
    assert lines[3].split() == ["-", "cheap", "dropped", "denied", "not", "measured", "at", "planning"]
    assert stoker.posts() == [(ROUTE, {"prompt": "Plan the migration", "model": "auto", "task": None})]


def test_a_class_is_passed_on_as_the_callers_word(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    stoker.answer(ROUTE, found(task="chat", source="declared", notes=[], high_risk=False))
    assert run(["route", "hello", "--class", "chat"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "class chat, by the caller's declaration"
    assert stoker.posts()[0][1]["task"] == "chat"


@pytest.mark.parametrize("source", list(ClassSource))
def test_each_source_of_a_class_has_its_words(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str], source: ClassSource
) -> None:
    stoker.answer(ROUTE, found(source=source.value))
    assert run(["route", "hello"]) == 0
    assert ", by " in capsys.readouterr().out


def test_a_dash_reads_the_prompt_from_stdin(stoker: FakeStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    stoker.answer(ROUTE, found())
    monkeypatch.setattr("sys.stdin", io.StringIO("a long\nprompt"))
    assert run(["route", "-"]) == 0
    assert stoker.posts()[0][1]["prompt"] == "a long\nprompt"


def test_where_nobody_may_serve_it_each_tier_says_why_and_the_exit_code_is_1(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = "no tier may serve class 'planning': cheap: not measured at planning"
    stoker.answer(ROUTE, found(steps=[], refusal=refusal))
    assert run(["route", "Plan it"]) == 1
    captured = capsys.readouterr()
    assert refusal in captured.err
    assert "denied" in captured.out
    assert run(["route", "Plan it", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["refusal"] == refusal
    assert captured.err == "", "a program reads one document"


def test_without_tiers_the_answer_says_what_to_add(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    stoker.answer(ROUTE, error("no [[tier]] is configured: add [[tier]]", "no_tiers"), 404)
    assert run(["route", "hello"]) == 1
    assert "add [[tier]]" in capsys.readouterr().err
    assert run(["route", "hello", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "no_tiers"


def test_when_nothing_runs_the_command_that_starts_it_is_named(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["route", "hello"]) == 1
    assert "start it: stoker up" in capsys.readouterr().err


def test_without_a_prompt_it_is_a_wrong_command(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["route"]) == 2
    assert "PROMPT" in capsys.readouterr().err


def test_what_the_program_answers_is_what_the_command_reads(stoker: FakeStoker) -> None:
    """The keys of the real dry run, not of the fake one."""
    from stoker.domain.routing import RouterSettings

    class Nobody:
        def is_loaded(self, name: str) -> bool:
            return False

        def displaces(self, name: str) -> bool:
            return False

        def unavailable_reason(self, name: str, now: float) -> str:
            return ""

    router = TierRouter(RouterSettings((Tier("cheap", "gone"),)), [], TierQuality({}), Nobody(), lambda: 0.0)
    outline = router.outline_of("hello")
    real = router.preview(outline, router.classes.classify_declared(outline, "auto", None))
    assert real.keys() == found().keys()
    assert real["dropped"][0].keys() == found()["dropped"][0].keys()
    stoker.answer(ROUTE, real)
    assert run(["route", "hello"]) == 1, "its only tier is gone"


def test_a_model_that_names_a_task_is_passed_on(stoker: FakeStoker) -> None:
    stoker.answer(ROUTE, found())
    assert run(["route", "hello", "--model", "planner"]) == 0
    assert stoker.posts()[0][1]["model"] == "planner"
