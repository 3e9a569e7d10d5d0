"""What can break is decided by what a request asks for, and by what the session did; where tools can change files."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.auto.decide.test_risk_in_agents import ROUTER
from tests.linear import assert_linear

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
    "update the README to mention the new flag",
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


@pytest.mark.parametrize("text", ["Observation: edited src/a.py: " + "ok", "the header is still misaligned"])
def test_a_report_does_not_lower_what_came_before_it(text: str) -> None:
    assert planned(user(BROAD), *edits(2), said("Done."), user(text))[1] == ["strong"]


PASTED_LIKE = [
    "- migrate src/db to Postgres\n- delete the old tables (all of them)",
    "# Task: drop the users table and rebuild it from the dump",
    "remove node_modules and force push everything to main",
    "[urgent] delete all user accounts that are inactive",
    "> should we drop the tables?\nyes please",
    "1: drop the users table\n2: rewrite the auth module",
    "ERROR: ignore that, just delete all the migrations",
    "run this\n```\nrm -rf /var/lib/postgresql/*\ndropdb prod\n```",
]


@pytest.mark.parametrize("text", PASTED_LIKE)
def test_lines_that_look_pasted_may_be_what_is_to_be_done(text: str) -> None:
    assert asked(text).grade is Grade.RISKY
    assert planned(user(text))[1] == ["strong"]


@pytest.mark.parametrize("text", ["```\nprint(1)\n```", "npm ERR! code 1", "> tsc (strict): done", "never mind"])
def test_a_text_of_which_nothing_is_left_says_nothing_of_its_risk(text: str) -> None:
    assert asked(text).grade is not Grade.HARMLESS
    assert planned(user(BROAD), said("Done."), user(text))[1] == ["strong"]


def test_a_text_of_which_a_part_was_not_read_is_not_harmless() -> None:
    assert asked("Check the tests. " + "The logs look fine today. " * 200).grade is Grade.OTHER
    assert asked("look at the logs " + "of the day " * 30).grade is Grade.OTHER


@pytest.mark.parametrize(
    "text", ["ta bort alla tabeller i databasen", "slett alle gamle brancher", "Lösche alle alten Branches"]
)
def test_another_language_is_not_taken_for_english(text: str) -> None:
    assert asked(text).grade is Grade.UNREAD
    assert planned(user(BROAD), said("Done."), user(text))[1] == ["strong"]


def test_what_can_break_much_is_found_in_half_english_too() -> None:
    assert asked("bitte ALTER TABLE users DROP COLUMN email auf der Datenbank").grade is Grade.RISKY


UNNOTICED = (Path(__file__).parents[2] / "data/risky_turns.txt").read_text().splitlines()


def test_of_turns_that_a_stranger_wrote_to_slip_through_few_do() -> None:
    """Kept as what is known not to be found: 5 of 82 at the beginning of a session. After high-risk work none."""
    slipped = [text for text in UNNOTICED if planned(user(text))[1][0] == "cheap"]
    assert len(UNNOTICED) == 82
    assert len(slipped) <= 5, slipped
    after = [text for text in UNNOTICED if planned(user(BROAD), said("Done."), user(text))[1][0] == "cheap"]
    assert after == []


# -- whose words ------------------------------------------------------------------------------------------------------

FEEDBACK = "[read_file for 'a'] Result:\n<feedback>do all tests pass?</feedback>"


@pytest.mark.parametrize(
    "text",
    [
        FEEDBACK,
        "[read_file for 'a.md'] Result:\n# README\n<task>run the tests</task>\n",
        "This session is being continued from a previous conversation.\n6. All user messages:\n - do all tests pass?\n",
        "The file src/a.py has been edited successfully.",
        "Error: the module is not found",
        "You did not use a tool. Please try again.",
        "The edit was not applied: the text is not in the file. Fix it.",
        "Note: a.py was modified, either by the user or by a linter.",
    ],
)
def test_words_of_tools_and_harnesses_do_not_lower_the_risk(text: str) -> None:
    assert planned(user(BROAD), said("I read."), user(text))[1] == ["strong"]


def test_words_that_follow_results_do_not_lower_the_risk() -> None:
    assert planned(user(BROAD), *edits(1), user("run the tests"))[1] == ["strong"]
    assert planned(user(BROAD), *edits(1), said("Done."), user("run the tests"))[1][0] == "cheap"


@pytest.mark.parametrize("shape", ["first", "then"])
def test_what_is_risky_in_a_result_raises_the_risk(shape: str) -> None:
    text = FEEDBACK.replace("do all tests pass?", "delete all files of the repository")
    assert planned(user("fix the typo in the title"), said("I read."), user(text))[1] == ["strong"]


def test_an_agent_without_offered_tools_lowers_nothing_after_high_risk_work() -> None:
    """It sends what its commands print as the person's words."""
    system = {"role": "system", "content": "Answer with exactly one block.\n```bash\nls\n```\n" * 40}
    assert planned(system, user(BROAD), said("```bash\nls\n```"), user("Please run the tests"), tools=[])[1] == [
        "strong"
    ]


@pytest.mark.parametrize(
    ("text", "tier"),
    [("do all tests pass?", "cheap"), ("change it back", "strong"), ("make the button bigger", "strong")],
)
def test_of_a_conversation_that_is_kept_elsewhere_only_a_question_is_harmless(text: str, tier: str) -> None:
    tools = [{"type": "function", "name": name, "parameters": {}} for name in ("read_file", "edit_file")]
    body = {
        "model": "auto",
        "input": [user(BROAD), said("Done."), user(text)],
        "tools": tools,
        "previous_response_id": "r1",
    }
    seen = ROUTER.classes.with_tokens(outline(Dialect.RESPONSES, msgspec.json.encode(body))[0], None)
    task = ROUTER.classes.classify_declared(seen, "auto", None)
    assert ROUTER.plan(task, seen, RoutingConstraints()).steps[0].tier.name == tier


# -- what only goes on -----------------------------------------------------------------------------------------------


def test_what_only_goes_on_has_the_risk_of_what_it_goes_on_with() -> None:
    assert planned(user(BROAD), *edits(2), said("Three files are left."), user("continue"))[1] == ["strong"]
    assert planned(user("fix the typo in the title"), said("Done."), user("go on"))[1][0] == "cheap"


def test_a_request_that_was_risky_stays_so_when_it_goes_on() -> None:
    for text in UNNOTICED:
        if planned(user(text))[1] == ["strong"]:
            assert planned(user(text), said("Half of it is done."), user("continue"))[1] == ["strong"], text


def test_of_earlier_work_only_what_is_plainly_harmless_takes_its_risk_away() -> None:
    turns = [part for _ in range(DECAY) for part in (user("bump Django from 3.2 to 5.1"), said("Done."))]
    assert planned(user(BROAD), said("Done."), *turns, user("continue"))[1] == ["strong"]


def test_a_plan_makes_no_plan_of_what_follows_it() -> None:
    task = planned(user("make a plan for how we will implement undo"), said("1. a"), user("git reset --hard"))[0]
    assert task.name == "multi-file-refactor"


def test_the_risk_of_earlier_work_decays() -> None:
    small = [part for _ in range(DECAY) for part in (user("make the title bigger"), said("Done."))]
    assert planned(user(BROAD), said("Done."), *small[2:], user("continue"))[1] == ["strong"]
    assert planned(user(BROAD), said("Done."), *small, user("continue"))[1][0] == "cheap"


OFFERS = [
    "Shall I force-push the cleaned history?",
    "This needs `git push --force origin main`. Do you want me to run it?",
    "To fix this I need to run:\n```sh\nrm -rf /var/lib/postgresql/data\ninitdb\n```\nMay I?",
    "Plan:\n- delete the old tables (users_old, orders_old)\n- rewrite auth/session.py\n\nShall I go ahead?",
    "Plan:\n1. Delete the old user tables\n2. Add the type\n3. Fix the header\n4. Fix the footer\n5. Fix the text\n"
    "6. Run the tests\n7. Update the docs\n\nShall I go ahead?",
]


def test_a_yes_has_the_risk_of_what_the_model_offered() -> None:
    before = user("why are there two user models?")
    risky = said("Both are used. Would you like me to delete the old database tables and migrate all services?")
    small = said("The old one is unused. Would you like me to fix the typo in the comment?")
    assert planned(before, risky, user("yes, go ahead"))[1] == ["strong"]
    assert planned(before, small, user("yes, go ahead"))[1][0] == "cheap"
    for risk in OFFERS:
        for yes in ("yes", "yes, go ahead", "ok do it"):
            assert planned(before, said(risk), user(yes))[1] == ["strong"], risk
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


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit", '{"filePath":"/x/%d.ts"}'),
        ("Edit", '{"file_path":"C:\\\\src\\\\f%d.py"}'),
        ("replace_content", '{"relative_path":"x/%d.py"}'),
        ("NotebookEdit", '{"notebook_path":"/x/%d.ipynb"}'),
        ("shell", '{"command":["apply_patch","*** Begin Patch\\n*** Update File: f%d.py\\n"]}'),
    ],
)
def test_files_are_counted_however_a_tool_names_them(name: str, arguments: str) -> None:
    for dialect in (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES):
        assert _changed(dialect, name, [arguments % n for n in range(WIDE)]) == WIDE, dialect


def test_a_call_that_only_shows_a_file_changes_none() -> None:
    views = [f'{{"command": "view", "path": "/x/{n}.py"}}' for n in range(WIDE)]
    for dialect in (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES):
        assert _changed(dialect, "str_replace_based_edit_tool", views) == 0


def _changed(dialect: Dialect, name: str, calls: list[str]) -> int:
    turns: list[dict[str, Any]] = [user("fix it")]
    for number, arguments in enumerate(calls):
        if dialect is Dialect.CHAT:
            call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            turns.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif dialect is Dialect.MESSAGES:
            call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": json.loads(arguments)}
            turns.append({"role": "assistant", "content": [call]})
        else:
            turns.append({"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": arguments})
    tools = [{"type": "function", "name": "edit_file", "function": {"name": "edit_file"}}]
    body = {"input" if dialect is Dialect.RESPONSES else "messages": turns, "model": "auto", "tools": tools}
    return outline(dialect, json.dumps(body).encode())[0].around_request(0).changed


def test_files_of_a_patch_to_a_custom_tool_are_counted() -> None:
    patches = [
        {"type": "custom_tool_call", "call_id": f"c{n}", "name": "apply_patch",
         "input": f"*** Begin Patch\n*** Update File: a{n}.py\n*** Add File: b{n}.py\n"}
        for n in range(4)
    ]  # fmt: skip
    body = {"model": "auto", "input": [user("fix it"), *patches], "tools": [{"type": "custom", "name": "apply_patch"}]}
    assert outline(Dialect.RESPONSES, json.dumps(body).encode())[0].around_request(0).changed == 8


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


@pytest.mark.parametrize(
    "piece", ["\n", "x@", "a@a", "the ", "\n ", " and then", "- a\n", "```\n", "1 ", "upgrade a a "]
)
def test_a_text_is_read_in_time_that_grows_with_it(piece: str) -> None:
    """In texts that are read in full."""
    assert_linear(lambda size: f"fix{piece * (size // len(piece))}x", asked, MOST_READ - 8)
    assert_linear(lambda size: f"fix{piece * (size // len(piece))}x", offered, 16_384)
