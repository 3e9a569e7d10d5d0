"""The class of a turn is that of the task it belongs to: what goes on, what starts another task, what is not known."""

from __future__ import annotations

import pytest

from stoker.domain.task import CLASSES, HIGH_RISK, UNKNOWN, Outline, Task
from stoker_auto.classify.classify import MOST_TEXTS
from stoker_auto.classify.continuing import Continues, continues
from stoker_auto.classify.conversation import SingleRequest, Starts, starts, starts_anew
from stoker_auto.routing.classifier import classifier, classify

RENAME = "Rename OrderItem to OrderLine in every module and fix the imports."
PLAN = "Draft a migration plan for our Postgres cluster, with milestones and a rollback."
FIX = "Fix the bug in parser.py"
HAIKU = "Write a haiku about autumn for my grandmother's birthday card"


def task(*texts: str, **form: object) -> Task:
    """Of a conversation, the newest request first."""
    return classify(Outline(text=texts[0], earlier=texts[1:], **form), None, CLASSES)  # type: ignore[arg-type]


ONLY = [
    "continue", "Continue.", "yes go on", "now the other 11", "ok", "do it", "go ahead!", "next", "yes", "👍",
    "same again",
    "the 2nd one please", "mach weiter", "weiter so", "ja bitte", "jetzt die anderen", "vas-y", "oui continue",
    "maintenant les autres", "sí, adelante", "ahora los otros 11", "avanti con gli altri", "agora os outros",
    "ga verder", "дальше", "继续", "続けて", "계속", "", "  \n",
]  # fmt: skip


@pytest.mark.parametrize("text", ONLY)
def test_a_turn_that_only_goes_on_has_the_class_of_the_request_before(text: str) -> None:
    assert continues(text) is Continues.ONLY
    for before, name in ((RENAME, "multi-file-refactor"), (PLAN, "planning"), (FIX, "code-edit")):
        found = task(text, before, tools=4, changes_files=True)
        assert (found.name, found.back, found.notes[0]) == (name, 1, "earlier:1")
        assert task(text, "ok", text, before).back == 3
    assert task(text).name == UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "17% of 2340",
        "2 + 2",
        "and who is that?",
        "ok?",
        "yes: x = 5",
        "why not",
        HAIKU,
        "a" * 500,
        "{}",
        "thanks",
    ],
)
def test_what_has_something_of_its_own_to_say_does_not_go_on(text: str) -> None:
    assert continues(text) is Continues.NO


def test_what_links_to_something_before_counts_by_itself_if_it_asks_for_something() -> None:
    assert continues("also for the blue ones") is Continues.LINKED
    assert task("also for the blue ones", FIX).name == "code-edit"
    assert task("now rename UserProfile to Account everywhere", FIX).name == "multi-file-refactor"
    assert task("now write a poem about cats", FIX).name == "creative"
    assert task("continue please, there are still 14 files with the old import path").name == "multi-file-refactor"


@pytest.mark.parametrize(
    "text",
    [
        "hello", "use snake case", "the other ones too", "mach weiter",
        "the test still fails:\nTraceback (most recent call last):\nKeyError: 'a'",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [RENAME, PLAN])
def test_a_short_or_doubtful_turn_does_not_lower_the_risk_of_a_conversation(text: str, before: str) -> None:
    assert task(text, before, tools=4, changes_files=True).name in HIGH_RISK


@pytest.mark.parametrize(
    "text",
    [
        "thanks!", "run the tests", "what did you change?", "Fix the failing test too",
        "What is the capital of France?",
        "Summarise what you changed so far in five bullets please, so that I can paste it into the ticket",
        "Write a haiku about rain",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [RENAME, PLAN])
def test_what_says_itself_that_it_breaks_little_has_its_own_class(text: str, before: str) -> None:
    assert task(text, before, tools=4, changes_files=True).name not in HIGH_RISK


def test_a_long_and_plainly_different_request_starts_another_task() -> None:
    assert task(HAIKU, RENAME, tools=4, changes_files=True).name == "creative"
    assert task("continue", HAIKU, RENAME).name == "creative"
    assert task(RENAME, HAIKU).name == "multi-file-refactor"


N, A, T = Starts.NOTHING, Starts.ASIDE, Starts.TASK


@pytest.mark.parametrize(
    ("own", "changes_files", "expected"),
    [
        (SingleRequest("creative", 0.6, 0.04, 8, False), True, A),
        (SingleRequest("creative", 0.6, 0.04, 8, False), False, T),
        (SingleRequest("creative", 0.6, 0.05, 8, False), True, N),
        (SingleRequest("creative", 0.6, 0.04, 8, True), True, N),
        (SingleRequest("creative", 0.6, 0.04, 7, False), True, N),
        (SingleRequest("creative", 0.59, 0.04, 8, False), True, N),
        (SingleRequest("code-write", 0.8, 0.04, 16, True), False, T),
        (SingleRequest("code-write", 0.8, 0.04, 16, True), True, N),
        (SingleRequest("code-write", 0.8, 0.04, 15, True), False, N),
        (SingleRequest("chat", 0.8, 0.04, 16, True), False, N),
        (SingleRequest("chat", 0.79, 0.04, 16, False), False, N),
        (SingleRequest("tool-use", 1.0, 0.0, 99, False), False, N),
        (SingleRequest("code-edit", 0.6, 0.04, 4, True, is_anew=True), True, T),
        (SingleRequest("code-edit", 0.6, 0.05, 4, True, is_anew=True), True, N),
        (SingleRequest("code-edit", 0.59, 0.04, 4, True, is_anew=True), True, N),
        (SingleRequest("code-edit", 0.6, 0.04, 3, True, is_anew=True), True, N),
    ],
)
def test_when_another_task_starts(own: SingleRequest, changes_files: bool, expected: Starts) -> None:
    assert starts(own, changes_files) is expected


@pytest.mark.parametrize(
    ("text", "anew"),
    [
        ("New task: fix the loop", True), ("Neue Aufgabe - behebe den Fehler", True), ("otra cosa: corrige esto", True),
        ("新任务：修复错误", True), ("مهمة جديدة: صحح الخطأ", True), ("別件、これを直して", True),
        ("new task runner for the build", False), ("rename the new task: field", False),
    ],
)  # fmt: skip
def test_what_says_that_it_is_a_new_task(text: str, anew: bool) -> None:
    assert starts_anew(text) is anew


def test_what_is_cut_is_unknown_unless_a_request_plainly_says_what_it_is() -> None:
    assert task(FIX, is_cut=True, changes_files=True).name == UNKNOWN
    assert task("hello", is_cut=True).name == UNKNOWN
    assert task(FIX, is_cut=True).name == "code-edit"
    assert task(RENAME, is_cut=True, changes_files=True).name == "multi-file-refactor"
    assert task(HAIKU, is_cut=True, changes_files=True).name == "creative"


def test_results_without_a_request_are_of_an_unknown_task() -> None:
    assert task("", has_results=True, tools=3, changes_files=True).name == UNKNOWN


def test_a_short_system_prompt_says_what_goes_on_but_not_for_tools_that_change_files() -> None:
    systems = ("Summarise whatever the user sends.",)
    assert task("next", systems=systems).name == "summarise"
    assert task("next", systems=systems, changes_files=True).name == UNKNOWN


def test_texts_are_remembered_within_bounds_and_without_their_words() -> None:
    for number in range(MOST_TEXTS + 10):
        task(f"Write a poem about xyzzyq number {number}")
    remembered = classifier().remembered_texts
    assert 0 < len(remembered) <= MOST_TEXTS
    assert "xyzzyq" not in repr(remembered)


@pytest.mark.parametrize("text", ["even shorter, fits on a door sign", "you stopped in the middle"])
def test_a_short_request_that_is_not_plain_by_itself_has_the_class_of_the_one_before(text: str) -> None:
    assert task(text, "Summarise this in three bullet points: the board approved the budget.").name == "summarise"
    assert task(text, "ok", "ok").back == 0


def test_a_short_request_that_is_plain_by_itself_keeps_its_class() -> None:
    found = task("17% of 2340", "Summarise this in three bullet points: the board approved the budget.")
    assert (found.name, found.back) == ("math-short", 0)
