"""A task is of the class that its caller declares; else its own words and form say, and why is always told."""

from __future__ import annotations

import pytest
from bench.classifier import load
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from stoker.domain.task import CLASSES, HIGH_RISK, LONG, MAX_TEXT, UNKNOWN, ClassSource, Outline
from stoker_auto.classify.asks import FIRST, HEAD, LAST, TAIL, read
from stoker_auto.classify.classify import MOST_PARTS, MOST_SYSTEMS, SIGNS
from stoker_auto.routing.classifier import classifier, classify

PLAN = "Draft a migration plan for our Postgres cluster, with milestones and a rollback."
RENAME = "Rename OrderItem to OrderLine in every module and fix the imports."
DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"


def name(text: str, **form: object) -> str:
    return classify(Outline(text=text, **form), None, CLASSES).name  # type: ignore[arg-type]


def test_what_the_caller_declares_wins_over_everything_the_text_says() -> None:
    task = classify(Outline(text=PLAN, images=2), "math-short", CLASSES)
    assert (task.name, task.source, task.notes) == ("math-short", ClassSource.DECLARED, ("declared",))


def test_an_unknown_declared_class_is_noted_and_the_text_decides() -> None:
    task = classify(Outline(text=PLAN), "plannning", CLASSES)
    assert (task.name, task.source) == ("planning", ClassSource.LEARNED)
    assert task.notes[0] == "unknown_class"
    assert "plannning" not in " ".join(task.notes)


def test_a_class_of_ones_own_can_be_declared() -> None:
    assert classify(Outline(), "legal", (*CLASSES, "legal")).name == "legal"


def test_where_there_is_no_request_the_task_is_unknown_and_says_so() -> None:
    task = classify(Outline(), None, CLASSES)
    assert (task.name, task.source, task.notes) == (UNKNOWN, ClassSource.DEFAULT, ("no_request",))


@pytest.mark.parametrize("text", ["plans for the weekend", "a poem about code review"])
def test_plans_for_the_weekend_and_poems_about_code_review_are_chat(text: str) -> None:
    assert name(text) == "chat"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write a poem about code review.", "creative"),
        ("Write a function that plans a route through a grid.", "code-write"),
        ("Summarise our roadmap: first mobile, then billing.", "summarise"),
        ("Translate 'the migration plan' to Dutch.", "multilingual"),
        ("Plan a romantic dinner for two.", "chat"),
        ("The migration plan failed and the team had to roll back the database.", "chat"),
        ("What went wrong with the migration plan of the Deutsche Bahn?", "chat"),
    ],
)
def test_words_of_a_high_risk_class_are_not_enough_without_its_ask(text: str, expected: str) -> None:
    assert name(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAN, "planning"),
        ("How should we split the billing service before the launch?", "planning"),
        ("Entwirf einen Migrationsplan für unsere Datenbank.", "planning"),
        (RENAME, "multi-file-refactor"),
        ("Move parse() from io.py to text.py and adjust all its callers.", "multi-file-refactor"),
        ("Rename this function to total.\n\ndef f(xs):\n    return sum(xs)", "code-edit"),
        ("Write a regex for IPv4 addresses.", "code-write"),
        (f"Review this diff.\n\n{DIFF}", "review"),
        (DIFF, "review"),
        ("Traceback (most recent call last):\nKeyError: 'a'", "code-edit"),
        ("Prove that there is no largest prime.", "reasoning"),
        ("12 * (3 + 4)", "math-short"),
        ("Wo liegt der Schlüssel für die Garage?", "chat"),
        ("Übersetze das ins Englische: Der Schlüssel liegt in der Garage.", "multilingual"),
        ("Schreib mir eine Python-Funktion, die Primzahlen findet.", "code-write"),
        ("Résume ce texte en trois phrases : le chat dort, le chien aussi, la maison est calme.", "summarise"),
        ("Demuestra que la raíz de 2 es irracional.", "reasoning"),
        ("Return the name and the age as JSON: Ada, 36.", "json-extract"),
    ],
)
def test_the_ask_and_the_shape_of_the_text_decide(text: str, expected: str) -> None:
    assert name(text) == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"images": 1}, "vision"),
        ({"wants_json": True}, "json-extract"),
        ({"tools": 3, "forces_tool": True}, "tool-use"),
        ({"has_results": True}, "tool-use"),
        ({"tokens": LONG, "is_long": True}, "long-context"),
        ({"size": 10_000_000, "is_long": True}, "long-context"),
        ({"size": 10_000_000}, "chat"),
    ],
)
def test_the_form_of_a_request_decides_where_its_text_asks_for_nothing_by_name(
    form: dict[str, object], expected: str
) -> None:
    assert name("and who is that?", **form) == expected


@pytest.mark.parametrize("text", [PLAN, RENAME])
@pytest.mark.parametrize(
    "form",
    [
        {"images": 1},
        {"wants_json": True},
        {"tools": 9, "has_results": True},
        {"tokens": 10 * LONG, "is_long": True},
        {"forces_tool": True},
    ],
)
def test_no_form_hides_high_risk_work(text: str, form: dict[str, object]) -> None:
    assert name(text, **form) in HIGH_RISK


def test_work_on_code_stays_what_it_is_while_its_tools_run() -> None:
    assert name("Fix the bug in parser.py", tools=12, has_results=True, tokens=2 * LONG, is_long=True) == "code-edit"


def test_a_greeting_stays_chat_though_tools_are_offered() -> None:
    assert name("thanks!", tools=12) == "chat"


def test_thinking_makes_no_puzzle_of_a_greeting() -> None:
    assert name("hello!", wants_thinking=True) == "chat"


def test_a_short_system_prompt_decides_where_the_text_does_not() -> None:
    news = "The town hall was closed on Monday after a pipe burst on the third floor."
    assert name(news, systems=("Summarise whatever the user sends.",)) == "summarise"
    assert name("Write a haiku about rain.", systems=("Summarise whatever the user sends.",)) == "creative"


@pytest.mark.parametrize("text", ["Thanks, that was helpful. How are you today?", "nice weather today, isn't it"])
def test_small_talk_stays_small_talk_under_a_system_prompt_that_plans(text: str) -> None:
    planner = ("You are a software architect. For whatever component the user names, produce an implementation plan.",)
    assert name(text, systems=planner) == "chat"
    assert name("the billing service", systems=planner) == "planning"


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from([row.outline.text for row in load() if row.task_class in SIGNS]))
def test_what_needs_an_outward_sign_is_not_found_without_it(text: str) -> None:
    assert name(text) not in SIGNS
    assert name(text, systems=("You read the pictures that you are sent.",)) not in SIGNS


def test_a_system_prompt_that_names_several_kinds_of_work_decides_nothing() -> None:
    many = ("Translate texts. Summarise reports. Write poems.",)
    assert name("and who is that?", systems=many) == "chat"


def test_what_many_system_prompts_say_is_remembered_within_bounds_and_without_them() -> None:
    for number in range(2 * MOST_SYSTEMS):
        name("next", systems=(f"You review the code of pull request {number}.",))
    remembered = classifier().remembered_systems
    assert 0 < len(remembered) <= MOST_SYSTEMS
    assert {*remembered.values()} <= {"", *CLASSES}


@pytest.mark.parametrize(("before", "found"), [(MOST_PARTS - 1, "summarise"), (MOST_PARTS, "chat")])
def test_of_a_system_prompt_only_its_first_sentences_are_looked_at(before: int, found: str) -> None:
    """Blank lines are none, and one that is repeated counts once."""
    rules = [f"You are a helpful assistant number {number}. " * 50 for number in range(before)]
    system = "\n" * 2900 + "".join(rules) + "Summarise whatever the user sends."
    assert name("and who is that?", systems=(system,)) == found


def test_an_order_is_found_wherever_it_stands_in_a_long_paste() -> None:
    paste = "The ferry was late again and nobody was told. " * 60
    assert name(paste + paste) not in HIGH_RISK
    assert name(paste + PLAN + paste) == "planning"
    assert name(PLAN + paste) == "planning"
    assert name(paste + PLAN) == "planning"


def test_notes_say_why_in_words_of_our_own() -> None:
    notes = classify(Outline(text=f"{PLAN} Codename: xyzzy."), None, CLASSES).notes
    assert "ask:draft" in notes
    assert notes[-1].startswith("sure:")
    assert "xyzzy" not in " ".join(notes)


HOSTILE = ["(" * MAX_TEXT, "a.b/" * 2048, "1, " * 2700, " " * MAX_TEXT, "\n" * MAX_TEXT, "`" * MAX_TEXT, "a" * MAX_TEXT,
           "-" * MAX_TEXT, "please " * 1170,
           "write, " * 1170, "\x00\ud800" * 4000, "[1.] " * 1600, "\n- x(" * 1600]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_read_in_part_and_classified(text: str) -> None:
    reading = read(text)
    assert len(reading.prose) <= HEAD + TAIL + 1
    assert len(reading.sentences) <= FIRST + LAST
    assert classify(Outline(text=text), None, CLASSES).notes


def test_a_longer_text_has_no_more_to_be_read() -> None:
    few, many = ("Rename it, then write, and plan the cat. " * times for times in (100, 200))
    assert len(read(few).asks) == len(read(many).asks)


SEEN = [*" ".join((PLAN, RENAME, DIFF)).split(), "\n", ",", "?", "xyzzyq", "how", "should", "we", "```"]
WORDS = st.sampled_from(SEEN)


@settings(max_examples=examples(200), deadline=None)
@given(
    text=st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=60).map(" ".join)),
    systems=st.lists(st.text(max_size=80), max_size=2).map(tuple),
    tools=st.integers(0, 3),
    tokens=st.none() | st.integers(0, 10**6),
    declared=st.none() | st.text(max_size=10),
)
def test_it_never_raises_always_says_why_and_tells_nothing_of_the_prompt(
    text: str, systems: tuple[str, ...], tools: int, tokens: int | None, declared: str | None
) -> None:
    task = classify(Outline(text=text, systems=systems, tools=tools, tokens=tokens), declared, CLASSES)
    assert task.name in (*CLASSES, UNKNOWN)
    assert task.notes
    assert all(len(note) < 60 and "xyzzyq" not in note for note in task.notes)
