"""What a request says itself, and what it only points at."""

from __future__ import annotations

import pytest

from stoker_auto.classify.references import Says, says

REFERENCES = [
    "implement PLAN.md", "do what the ticket says", "follow the spec", "fix #4711", "APP-12 please",
    "see https://example.org/issues/88 and get it done", "do it as we discussed", "build that",
    "Setz um, was im Ticket steht", "mach es wie besprochen", "haz lo que dice el documento", "按照 PLAN.md 里写的做",
    "نفّذ ما هو مكتوب في التذكرة", "チケットに書いてある通りに実装して", "сделай что написано в задаче",
]  # fmt: skip
OWN = [
    "summarise docs/plan.md in three bullets", "fix the typo in README.md", "translate the ticket to German",
    "add a null check to fetch_user in api.py", "my phone plan is 12.99 a month, what do I pay per year?",
    "make this function async\n\ndef load(url):\n    return requests.get(url).json()", "what does the sign say?",
    "Korrigiere den Tippfehler in README.md", "resume docs/plan.md en tres puntos", "hello",
]  # fmt: skip


@pytest.mark.parametrize("text", REFERENCES)
def test_what_asks_to_do_what_a_text_says_is_a_reference(text: str) -> None:
    assert says(text) is Says.REFERENCE


@pytest.mark.parametrize("text", OWN)
def test_what_asks_for_something_itself_is_none(text: str) -> None:
    assert says(text) is Says.OWN


@pytest.mark.parametrize("text", ["/refactor", "/refactor src/auth", "/tasks:run 4", " /重构 src"])
def test_a_command_by_name_does_not_say_what_it_does(text: str) -> None:
    assert says(text) is Says.COMMAND


@pytest.mark.parametrize("text", ["/src/app.py has a typo", "/help.txt", "a /b"])
def test_a_path_is_no_command(text: str) -> None:
    assert says(text) is not Says.COMMAND


def test_a_command_whose_text_is_there_is_read_like_any_request() -> None:
    assert (
        says("/typo a.py\nFix the spelling mistakes of the given file and show only the lines that changed") is Says.OWN
    )
    assert (
        says("/x Please read the ticket APP-12 first and then do exactly what is written in it today") is Says.REFERENCE
    )


def test_with_a_file_or_an_image_to_implement_this_points_at_it() -> None:
    assert says("please implement the design", has_attachment=True) is Says.REFERENCE
    assert says("what is in the picture?", has_attachment=True) is Says.OWN


def test_a_long_text_is_read_at_its_ends() -> None:
    assert says("word " * 20_000 + ". Now do what the ticket says") is Says.REFERENCE
