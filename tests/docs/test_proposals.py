"""Every command that a message or the web page proposes is one that the real command line takes."""

from __future__ import annotations

import shlex

import pytest
from tests.docs.commands import ROOT
from tests.docs.proposals import Proposal, in_source, in_text, on_the_page
from tests.docs.test_commands import mistaken, refusal
from tests.scenarios import proposing

IN_SOURCE = list(in_source())
ON_THE_PAGE = list(on_the_page())


def words(one: Proposal) -> list[str]:
    """Without `--help`, which every command has; `COMMAND` stands for any."""
    try:
        found = shlex.split(one.text)[1:]
    except ValueError:
        found = one.text.split()[1:]
    return [word for word in found if word not in ("--help", "COMMAND")]


def test_messages_and_the_page_propose_commands() -> None:
    assert len(IN_SOURCE) > 250
    assert len(ON_THE_PAGE) > 4
    assert sum(one.is_whole for one in IN_SOURCE) > 60


def test_every_command_and_option_that_is_proposed_exists() -> None:
    found = [(*one, mistaken(words(one))) for one in (*IN_SOURCE, *ON_THE_PAGE)]
    assert [one for one in found if one[-1]] == []


def test_what_is_to_be_typed_as_it_stands_is_taken_as_it_stands() -> None:
    """But for help, which needs no arguments, and `--install-completion`, which would be carried out at once."""
    whole = [one for one in (*IN_SOURCE, *ON_THE_PAGE) if one.is_whole and "--help" not in one.text]
    found = [(*one, refusal(words(one))) for one in whole if "--install-completion" not in one.text]
    assert [one for one in found if one[-1]] == []


def test_every_command_that_is_proposed_is_typed_in_the_situation_that_proposes_it() -> None:
    """By tests/scenarios/test_proposals.py, or another test; or the table says why none can. Each distinct command is
    typed once: where two places propose the same words, it is in one of their situations.
    """
    collected = {one.text for one in (*IN_SOURCE, *ON_THE_PAGE)}
    kinds = {"typed": proposing.TYPED, "elsewhere": set(proposing.ELSEWHERE), "not": set(proposing.NOT_TYPED)}
    assert collected - set().union(*kinds.values()) == set()
    assert {kind: texts - collected for kind, texts in kinds.items() if texts - collected} == {}
    assert kinds["typed"] & (kinds["elsewhere"] | kinds["not"]) == kinds["elsewhere"] & kinds["not"] == set()


@pytest.mark.parametrize("test", sorted(set(proposing.ELSEWHERE.values())))
def test_the_test_that_types_it_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("it is gone; start it: stoker up --config 1", [("stoker up --config 1", True)]),
        ("`stoker keys list` shows all", [("stoker keys list", False)]),
        ("undo it: `stoker keys enable a`, or wait", [("stoker keys enable a", True)]),
        ("next: stoker up, or stoker init.", [("stoker up", True), ("stoker init", False)]),
        ("see: stoker eval canary to see why", [("stoker eval canary to see why", True)]),
        ("stoker 0.1.0, /usr/bin/stoker up, my-stoker up", []),
        ('try it: stoker run "PROMPT"', [('stoker run "PROMPT"', True)]),
    ],
)
def test_commands_are_found_in_a_message(text: str, found: list[tuple[str, bool]]) -> None:
    assert [one[1:] for one in in_text(text)] == found
