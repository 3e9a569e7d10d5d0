"""What can break is decided by what a request asks for, and by what the session did; where tools can change files."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.auto.decide.test_risk_in_agents import ROUTER

from stoker.domain.dialect import Dialect
from stoker.domain.task import HIGH_RISK, LOW_RISKS, RISKS, UNKNOWN, Task, risk_in_words
from stoker_auto.classify.classify import DECAY, WIDE
from stoker_auto.classify.risk import MOST_READ, Grade, asked, offered
from stoker_auto.routing.router import RoutingConstraints
from stoker_content.outline import outline

PROMPTS = Path(__file__).parents[2] / "data/tasks"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}} for name in ("read_file", "edit_file", "bash")
]
BROAD = "Rename UserProfile to Account in every module and fix the imports."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def edits(files: int, before: int = 0) -> list[dict[str, Any]]:
    calls = [
        {"id": f"c{n}", "type": "function",
         "function": {"name": "edit_file", "arguments": json.dumps({"path": f"src/{n + before}.py"})}}
        for n in range(files)
    ]  # fmt: skip
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def planned(*messages: dict[str, Any], tools: list[dict[str, Any]] = TOOLS) -> tuple[Task, list[str]]:
    """The task, and the tiers of the plan: `cheap` may do all but high-risk work, `strong` all."""
    body = msgspec.json.encode({"model": "auto", "messages": messages, "tools": tools})
    seen = ROUTER.classes.with_tokens(outline(Dialect.CHAT, body)[0], None)
    task = ROUTER.classes.classify_declared(seen, "auto", None)
    return task, [step.tier.name for step in ROUTER.plan(task, seen, RoutingConstraints()).steps]


HARMLESS = [
    "do all tests pass?", "fix the tests", "update the changelog", "run the tests", "what did you change?", "thanks!",
    "Why does this function return None?", "explain how the migration works", "how do I delete the existing db",
    "make the button bigger", "commit and push", "show me the logs of the last run",
    "where is the leaderboard defined?",
    "update the README to mention the new flag", "the header is still misaligned", "that did not fix it",
]  # fmt: skip
RISKY = {
    "Refactor the whole frontend": "broad",
    "rewrite api2 completely in typescript": "broad",
    "rename all the API routes to follow our conventions": "broad",
    "delete the templates folder from the repo": "deletes",
    "ok, now git reset --hard and force push": "deletes",
    "write a migration that drops the users table": "deletes",
    "add a column to the orders table in the database": "data",
    "deploy this to production": "deploys",
    "fix the login, passwords are not checked": "security",
    "make a plan for how we will implement undo": "plans",
    "start working on task 027": "unseen",
    "implement the plan": "unseen",
}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_breaks_little_reaches_the_cheap_tier_even_after_high_risk_work(text: str) -> None:
    assert asked(text).grade is Grade.HARMLESS
    assert planned(user(text))[1][0] == "cheap"
    assert planned(user(BROAD), *edits(2), said("Done."), user(text))[1][0] == "cheap"


@pytest.mark.parametrize("text", RISKY)
def test_what_can_break_much_goes_to_the_tier_that_may(text: str) -> None:
    found = asked(text)
    assert (found.grade, found.why) == (Grade.RISKY, RISKY[text])
    task, tiers = planned(user(text))
    assert tiers == ["strong"]
    assert task.name in (*HIGH_RISK, UNKNOWN)


def test_the_reason_is_noted_and_has_words() -> None:
    task = planned(user("rewrite api2 completely in typescript"))[0]
    assert risk_in_words(task.notes) == "high: it changes many places at once"
    task = planned(user(BROAD), said("Done."), user("do all tests pass?"))[0]
    assert risk_in_words(task.notes) == "low: it only asks"
    assert {asked(text).why for text in RISKY} <= RISKS.keys()
    assert {asked(text).why for text in HARMLESS} <= LOW_RISKS.keys()
    assert risk_in_words(["earlier:1", "sure:99%"]) == ""


# -- what only goes on -----------------------------------------------------------------------------------------------


def test_what_only_goes_on_has_the_risk_of_what_it_goes_on_with() -> None:
    assert planned(user(BROAD), *edits(2), said("Three files are left."), user("continue"))[1] == ["strong"]
    assert planned(user("fix the typo in the title"), said("Done."), user("go on"))[1][0] == "cheap"


def test_the_risk_of_earlier_work_decays() -> None:
    small = [part for _ in range(DECAY) for part in (user("make the title bigger"), said("Done."))]
    assert planned(user(BROAD), said("Done."), *small[2:], user("continue"))[1] == ["strong"]
    assert planned(user(BROAD), said("Done."), *small, user("continue"))[1][0] == "cheap"


def test_a_yes_has_the_risk_of_what_the_model_offered() -> None:
    before = user("why are there two user models?")
    risky = said("Both are used. Would you like me to delete the old database tables and migrate all services?")
    small = said("The old one is unused. Would you like me to fix the typo in the comment?")
    assert planned(before, risky, user("yes, go ahead"))[1] == ["strong"]
    assert planned(before, small, user("yes, go ahead"))[1][0] == "cheap"
    assert offered("Soll ich alle Tabellen löschen und die Dienste umstellen?").grade is Grade.UNREAD


# -- what the session did --------------------------------------------------------------------------------------------


def test_work_that_became_wide_is_risky_whatever_was_asked() -> None:
    ask = user("fix the warning in the header")
    assert planned(ask, *edits(WIDE - 1))[1][0] == "cheap"
    task, tiers = planned(ask, *edits(WIDE))
    assert tiers == ["strong"]
    assert "risk:wide" in task.notes


def test_what_goes_on_with_wide_work_is_risky() -> None:
    ask = user("fix the warning in the header")
    assert planned(ask, *edits(WIDE), said("Done."), user("continue"))[1] == ["strong"]


def test_files_count_for_the_request_after_which_they_were_changed() -> None:
    turns = [user("fix a"), *edits(5), said("Done."), user("fix b"), *edits(4, before=5)]
    body = msgspec.json.encode({"model": "auto", "messages": turns, "tools": TOOLS})
    seen = outline(Dialect.CHAT, body)[0]
    assert [seen.around_request(back).changed for back in (0, 1)] == [4, 5]


def test_the_same_file_counts_once_and_reading_does_not_count() -> None:
    ask = user("fix the warning in the header")
    again = [part for _ in range(WIDE) for part in edits(1)]
    assert planned(ask, *again)[1][0] == "cheap"


@pytest.mark.parametrize("dialect", [Dialect.MESSAGES, Dialect.RESPONSES])
def test_changed_files_are_counted_in_each_dialect(dialect: Dialect) -> None:
    paths = [f"src/{n}.py" for n in range(5)]
    if dialect is Dialect.MESSAGES:
        calls = [{"type": "tool_use", "id": path, "name": "Edit", "input": {"file_path": path}} for path in paths]
        results = [{"type": "tool_result", "tool_use_id": path, "content": "ok"} for path in paths]
        turns = [user("fix it"), {"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        body = {"messages": turns, "tools": [{"name": "Edit", "input_schema": {}}]}
    else:
        items: list[dict[str, Any]] = [user("fix it")]
        for path in paths:
            arguments = json.dumps({"path": path})
            items.append({"type": "function_call", "call_id": path, "name": "edit_file", "arguments": arguments})
            items.append({"type": "function_call_output", "call_id": path, "output": "ok"})
        body = {"input": items, "tools": [{"type": "function", "name": "edit_file", "parameters": {}}]}
    seen = outline(dialect, json.dumps({"model": "auto", **body}).encode())[0]
    assert seen.around_request(0).changed == 5


# -- safety ----------------------------------------------------------------------------------------------------------


def _high_risk_turns(many: int) -> list[str]:
    found = []
    for name in ("labelled", "training", "informal"):
        for line in (PROMPTS / f"{name}.jsonl").read_bytes().splitlines():
            one = msgspec.json.decode(line)
            if one["class"] == "multi-file-refactor" and one.keys() <= {"text", "class", "hard", "lang"}:
                found.append(one["text"])
    return Random(44).sample(found, many)


@pytest.mark.parametrize("shape", ["first", "after a harmless one", "then go on"])
def test_of_500_high_risk_turns_none_is_planned_for_a_tier_that_is_denied(shape: str) -> None:
    leaked = []
    for text in _high_risk_turns(500):
        before = [user("what does this repo do?"), said("It is a shop.")] if shape == "after a harmless one" else []
        after = [*edits(1), said("Half of it is done."), user("continue")] if shape == "then go on" else []
        tiers = planned(*before, user(text), *after)[1]
        if tiers != ["strong"]:
            leaked.append(text)
    assert leaked == []


def test_another_language_keeps_what_the_conversation_says() -> None:
    assert asked("Benenne die Klasse überall im Projekt um und passe die Tests an").grade is Grade.UNREAD
    assert planned(user(BROAD), said("Done."), user("mach bitte mit den anderen Modulen weiter"))[1] == ["strong"]


def test_a_long_text_is_read_at_its_ends() -> None:
    filler = "The dry cloud sees the basket. " * 40_000
    assert asked(f"Delete all files in the repo. {filler}").grade is Grade.RISKY
    assert asked(f"{filler} Delete all files in the repo.").grade is Grade.RISKY
    assert asked(f"{filler} Delete all files in the repo. {'x' * MOST_READ} {filler}").grade is not Grade.RISKY


def test_without_tools_that_change_files_nothing_changes() -> None:
    found = planned(user("start working on task 027"), tools=[])[0]
    assert not any(note.startswith(("risk:", "low:")) for note in found.notes)
