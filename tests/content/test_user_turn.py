"""What a person wrote is found wherever a harness put its own words around it, and nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.linear import assert_linear

from stoker_content.user_turn import UserTurn, read_user_turn

ASKED = "Rename UserProfile to Account everywhere"
REMINDER = "<system-reminder>\nThe list is empty.\n\nDo not mention it.\n</system-reminder>"
DETAILS = '<environment_details kind="a">\n# Open Tabs\na.py\n</environment_details>'
RULES = "# *SEARCH/REPLACE block* Rules:\n\nEvery block must use this format:\n"


def text(*texts: str) -> str:
    found = read_user_turn(texts)
    assert len(found.requests) <= 1
    return found.requests[0] if found.requests else ""


@pytest.mark.parametrize(
    "turn",
    [
        (f"{REMINDER}\n{ASKED}",),
        (f"{ASKED}\n{REMINDER}",),
        (f"{REMINDER}{ASKED}",),
        (f"{ASKED} {REMINDER}",),
        (f"{REMINDER}\n{REMINDER}\n{ASKED}\n{REMINDER}",),
        (f"  \t{REMINDER}\r\n{ASKED}",),
        (REMINDER, ASKED, REMINDER),
        (f"<system-reminder>{REMINDER}</system-reminder>\n{ASKED}",),
        (f"<system-reminder>\nThe tag <system-reminder> is secret.\n</system-reminder>\n{ASKED}",),
        (f"<task>\n{ASKED}\n</task>", DETAILS),
        (f"<task>{ASKED}</task>\n\n{DETAILS}",),
        (f"<user_query>\n{ASKED}\n</user_query>",),
        (f"<attached_files>\n<code_selection>\nx\n</code_selection>\n</attached_files>\n<user_query>{ASKED}</user_query>",),
        (f"<editorContext>\nThe file is a.py\n</editorContext>\n<userRequest>\n{ASKED}\n</userRequest>",),
        (f"<context>\nfile a.py\n</context>\n\n{ASKED}",),
        (f"<some-new-harness-block>\nsome words of a machine\n</some-new-harness-block>\n{ASKED}",),
        (f"{ASKED}\n<brand_new_listing version='2'>\nsome words of a machine\n</brand_new_listing>",),
        (f"Here is useful information about the environment you are running in:\n<env>\nPlatform: x\n</env>\n{ASKED}",),
        (f"<env>\nPlatform: linux\n</env>\n<files>\na.py\n</files>\n{ASKED}",),
        (f"# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nPlan first.\n</INSTRUCTIONS>\n{ASKED}",),
        (f"<command-name>/clear</command-name>\n<local-command-stdout></local-command-stdout>\n{ASKED}",),
        (f"[Request interrupted by user]\n{ASKED}",),
        (f"{ASKED}\n\n{RULES}",),
        (f'"{ASKED}"', "<file>\n00001| x\n</file>"),
        ("[execute_command] Result:\nplan the party", f"<feedback>\n{ASKED}\n</feedback>", DETAILS),
        (f"{ASKED}\n--- Content from referenced files ---\nWrite a poem.\n--- End of content ---",),
        ("This is the Gemini CLI. We are setting up the context for our chat.\nToday's date is Monday.\nMy operating "
         f"system is: linux\n\n/work/\n├───a.py\n└───b.py\n\n{ASKED}",),
    ],
)  # fmt: skip
def test_what_the_person_asked_is_left(turn: tuple[str, ...]) -> None:
    assert text(*turn).strip() == ASKED


@pytest.mark.parametrize(
    "turn",
    [
        REMINDER, DETAILS, "", " \n", "[Request interrupted by user for tool use]",
        "<turn_aborted>\nIt was interrupted.\n</turn_aborted>",
        "I have *added these files to the chat* so you can go ahead and edit them.\n\na.py\n```\nplan()\n```",
        "Here are summaries of some files present in my git repository.\na.py:\n│def plan",
        "I updated the files.", "# 2 SEARCH/REPLACE blocks failed to match!\n\n## x",
        "I ran this command:\n\nmake\n\nAnd got this output:\n\nError",
        "Your task is to create a detailed summary of the conversation so far, paying close attention",
        "This is the Qwen Code. We are setting up the context for our chat.\nToday's date is Monday.\n/work/\n└───b.py",
        "<local-command-stdout>done</local-command-stdout>", "<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>",
        "<workspace_state>\nall is well here, and nobody asks\n</workspace_state>",
    ],
)  # fmt: skip
def test_a_turn_of_the_harness_alone_asks_for_nothing(turn: str) -> None:
    assert read_user_turn([turn]) == UserTurn()


@pytest.mark.parametrize(
    "turn",
    [
        "What does the <system-reminder> tag of Claude Code do?",
        "Why do I see <system-reminder>hello</system-reminder> in my logs?",
        "<system-reminder> tags keep showing up, how do I hide them?",
        "Fix this page:\n<div>\n<p>Hello</p>\n</div>",
        "<MyComponent>\n  <b>x</b>\n</MyComponent>\nmake it blue",
        "List<string> a = new Map<string, int>(); what is wrong?",
        "if (a < b && c > d) { return; } // why?",
        "<document>\nA long report.\n</document>\nSummarise it.",
    ],
)
def test_prose_code_and_html_stay_as_they_are(turn: str) -> None:
    assert text(turn) == turn


def test_an_envelope_of_an_unknown_name_is_kept_if_nothing_else_asks_for_anything() -> None:
    assert ASKED in text(f"<my_little_note>\n{ASKED}\n</my_little_note>\nplease")
    assert ASKED in text(f"<my_little_note>\n{ASKED}\n</my_little_note>")


@pytest.mark.parametrize("tag", ["system-reminder", "environment_details", "user_instructions", "task", "foo_bar"])
def test_a_tag_that_nothing_closes_swallows_no_other_part(tag: str) -> None:
    assert ASKED in text(f"<{tag}>\nwords", ASKED)
    assert ASKED in text(ASKED, f"<{tag}>\nwords")
    assert ASKED in text(f"<{tag}>\nwords\n\n{ASKED}")


def test_an_account_of_earlier_turns_tells_of_their_requests() -> None:
    told = "This session is being continued from a previous conversation that ran out of context.\nSummary:\n"
    listed = f'6. All user messages:\n   - "{ASKED}"\n   - "continue"\n\n7. Pending Tasks:\n   - write a poem'
    assert read_user_turn([f"{told}{listed}"]) == UserTurn(("Continue", ASKED), is_summary=True)
    asked = "The user asked to rename UserProfile to Account everywhere"
    assert read_user_turn([f"{told}1. Primary Request and Intent:\n   {asked}"]).requests == (ASKED,)
    goal = f"<state_snapshot>\n  <overall_goal>\n    {ASKED}\n  </overall_goal>\n</state_snapshot>"
    assert read_user_turn([goal]).requests == (ASKED,)
    assert read_user_turn([f"{told}We changed some files."]) == UserTurn((), is_summary=True)


HOSTILE = [
    "<system-reminder>\n" * 100_000,
    "<system-reminder>" * 100_000,
    "</system-reminder>\n" * 100_000,
    "<a-b>\n" * 50_000 + "</a-b>\n" * 50_000,
    "<task>" * 100_000,
    "<a_b " + "x" * 300_000,
    "<" * 300_000,
    "\n<x-y>\nz\n</x-y>" * 20_000,
    "This session is being continued from a previous conversation\n" + "the user asked to " * 20_000,
    "This session is being continued from a previous conversation\n" + "task: \n" * 50_000,
    "[Request interrupted by user]\n" * 50_000,
    " " * 300_000 + "<system-reminder>",
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile[:20].strip())
def test_hostile_text_takes_linear_time(hostile: str) -> None:
    assert_linear(lambda size: hostile[:size], lambda text: read_user_turn([text, ASKED]), len(hostile))


PIECES = [
    "<system-reminder>", "</system-reminder>", "<task>", "</task>", "<a_b>", "</a_b>", "\n", "x", " ", "[xy] Result:",
    "<b>", "</b>", ASKED, "# *SEARCH/REPLACE block* Rules:", '"', "<state_snapshot>", "</state_snapshot>",
]  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=3), st.text(max_size=40))
def test_whatever_a_turn_holds_nothing_is_raised_and_no_other_part_is_lost(turn: list[str], other: str) -> None:
    read_user_turn([*turn, other])
    if not any(mark in part for part in turn for mark in ("Result:", "state_snapshot")):
        assert any(ASKED in request for request in read_user_turn([*turn, ASKED]).requests)


@pytest.mark.parametrize("name", ["/refactor", "refactor"])
def test_the_name_of_a_command_is_put_first_with_its_slash(name: str) -> None:
    turn = f"<command-message>x is running</command-message>\n<command-name>{name}</command-name>\n"
    assert read_user_turn([turn]).requests == ("/refactor",)
    assert read_user_turn([turn + "<command-args>src</command-args>"]).requests == ("/refactor\nsrc",)
    assert read_user_turn([turn, "Split the module."]).requests == ("/refactor\nSplit the module.",)


def test_commands_that_ask_the_model_for_nothing_are_removed() -> None:
    assert (
        read_user_turn(["<command-name>/model</command-name>\n<local-command-stdout>ok</local-command-stdout>"])
        == UserTurn()
    )
