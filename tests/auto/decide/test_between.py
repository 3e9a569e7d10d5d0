"""A request is found wherever it stands in a long text, and what surrounds it is not taken for one."""

from __future__ import annotations

import pytest
from bench.deciding import CODE, LOG, PROSE
from tests.linear import assert_linear

from stoker.domain.task import CLASSES, Outline
from stoker_auto.classify.asks import read
from stoker_auto.classify.between import MOST_ASKED
from stoker_auto.classify.between import between as found_between
from stoker_auto.routing.classifier import classify


def between(text: str) -> tuple[str, ...]:
    return found_between(text, 480, 320).sentences


RENAME = "Rename UserProfile to Account everywhere and fix the imports."
SYSLOG = "".join(f"Mar 11 10:14:{at % 60:02} host sshd[{at}]: Failed password for root\n" for at in range(400))
JSON_LINES = "".join(f'{{"level":"info","n":{at},"msg":"cache miss"}}\n' for at in range(400))


@pytest.mark.parametrize("material", [LOG * 480, SYSLOG, JSON_LINES, CODE * 100], ids=["log", "syslog", "json", "code"])
def test_a_request_in_the_middle_of_machine_output_is_found(material: str) -> None:
    text = f"{material}\n{RENAME}\n{material}"
    assert list(between(text)) == [RENAME]
    assert classify(Outline(text=text), None, CLASSES).name == "multi-file-refactor"


def test_a_sentence_of_a_person_in_a_log_needs_no_verb_that_is_known() -> None:
    said = "the thing that worries me is the second restart at noon"
    assert list(between(f"{SYSLOG}\n{said}\n{SYSLOG}")) == [said]


def test_of_prose_only_sentences_that_ask_are_read() -> None:
    assert "Translate all of it into Polish" in between(f"{PROSE * 8} Translate all of it into Polish. {PROSE * 8}")[0]
    assert not between(PROSE * 16)


def test_what_is_written_without_blanks_is_found_as_well() -> None:
    assert list(between(f"{SYSLOG}\n所有模块里的用户类都改名\n{SYSLOG}")) == ["所有模块里的用户类都改名"]


def test_few_sentences_are_picked_and_long_ones_are_cut() -> None:
    asked = "\n".join(
        f"Add {name} to the {name} list now please" for name in ("one", "two", "six", "ten", "red", "blue", "tea")
    )
    assert 0 < len(between("x" * 480 + f"\n{asked}\n" + "x" * 320)) <= MOST_ASKED
    assert max(map(len, between("x" * 480 + "\n" + "Write it down again " * 100))) <= 240


def test_a_short_text_is_read_as_it_stands() -> None:
    assert read(RENAME).sentences == (
        ("rename", "userprofile", "to", "account", "everywhere", "and", "fix", "the", "imports"),
    )


@pytest.mark.parametrize(
    "text",
    ["a\n", "x", "Add it now. ", "a b c d\n", ". ", "(", "a" + " " * 65_000],
    ids=["lines", "word", "asks", "short", "marks", "brackets", "blanks"],
)
def test_the_time_has_a_bound_whatever_the_text(text: str) -> None:
    assert_linear(lambda size: (text * (size // len(text) + 1))[:size], read, 65_536)
