"""Every command that a message or the web page proposes is one that the real command line takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.docs.commands import ROOT
from tests.docs.proposals import Proposal, in_source, in_text, on_the_page
from tests.docs.test_commands import STOKER, mistaken, refusal
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


def has_option(words: list[str], option: str) -> bool:
    """Whether the command takes it."""
    command: Any = STOKER
    for word in words:
        if word in getattr(command, "commands", ()):
            command = command.commands[word]
    return any(option in one.opts for one in command.params)


def test_what_a_command_proposes_leads_to_the_stoker_that_it_was_given() -> None:
    """`--config` or `--state` of the command that speaks is repeated, as `options.same_place` does."""
    of_commands = [one for one in IN_SOURCE if one.is_whole and re.search(r"/(cli|commands?)(/|_|\.)", one.place)]
    needs = [
        one for one in of_commands if has_option(words(one), "--config") and not re.search("--config|--state", one.text)
    ]
    without = [one for one in needs if not one.has_place and one.text not in NEED_NO_PLACE]
    assert [one[:2] for one in without if not one.place.startswith(tuple(GIVE_NO_PLACE))] == []
    assert sum(one.has_place for one in IN_SOURCE) > 50


GIVE_NO_PLACE = {
    "stoker/cli/console/hints.py": "the words were none that it takes, so its options were not read",
    "stoker/cli/commands/doctor": "what it proposes goes through doctor.py, which adds them",
    "stoker/cli/commands/init": "it names the file that it writes",
    "stoker_import/command_output.py": "it names the file that it writes",
    "stoker/cli/console/control.py": "a default: who makes one says how Stoker is started",
    "stoker/cli/console/loading.py": "they are added where `watch_with` is printed",
    "stoker/cli/console/unmeasured.py": "a warning about a configuration, from wherever it was read",
    "stoker_orchestrator/commands/validator.py": "a warning about a configuration, from wherever it was read",
}
NEED_NO_PLACE = {
    "stoker up --demo", "stoker fit PATH/TO/MODEL.gguf", "stoker orchestrator prompts --ship", "stoker client curl",
}  # fmt: skip
"""They need no configuration, or find the Stoker that runs."""


def test_every_command_that_is_proposed_is_typed_in_the_situation_that_proposes_it() -> None:
    """By tests/scenarios/test_proposals.py, or another test. Each distinct command is typed once: where two places
    propose the same words, it is in one of their situations.
    """
    collected = {one.text for one in (*IN_SOURCE, *ON_THE_PAGE)}
    elsewhere = set(proposing.ELSEWHERE)
    assert (collected - proposing.TYPED - elsewhere, (proposing.TYPED | elsewhere) - collected) == (set(), set())
    assert proposing.TYPED & elsewhere == set()


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
    assert [one[1:3] for one in in_text(text)] == found


def test_the_options_that_lead_to_a_stoker_are_seen_in_the_source(tmp_path: Path) -> None:
    texts = [
        'f"a: stoker reload{place}"',
        'f"a: stoker reload{found.installation.place}"',
        'f"a: stoker reload{other}"',
    ]
    (tmp_path / "a.py").write_text("\n".join(f"x = {text}" for text in texts))
    found = [one[1:] for one in in_source(tmp_path)]
    assert found == [("stoker reload", True, True), ("stoker reload", True, True), ("stoker reload1", True, False)]
