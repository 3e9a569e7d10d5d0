"""Every command on the pages is run by a test, or a table says why not; every call of `stoker` is one that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.exceptions
from tests.docs.classified import ELSEWHERE, NOT_RUN
from tests.docs.commands import ROOT, Command, calls, commands, examples, mentions, of_block
from tests.docs.steps import STEPS

from stoker.cli.main import command_tree

STOKER: Any = command_tree()
SHOWN = list(commands())


def refusal(words: list[str]) -> str:
    """What the real command line says against these words; empty: nothing."""
    command, rest = STOKER, list(words)
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        return f"no such command: {rest[0]}"
    try:
        command.make_context("stoker", rest)
        return ""
    except typer.exceptions.Exit:
        return ""
    except typer.exceptions.TyperException as error:
        told: Any = error
        return str(told.format_message())


def mistaken(words: list[str]) -> str:
    """An unknown command or option in a mention, which may leave arguments out."""
    command: Any = STOKER
    rest = iter(words)
    for word in rest:
        if word == "--":
            break
        if word.startswith("-"):
            option, known = word.partition("=")[0], {o: p for p in command.params for o in p.opts + p.secondary_opts}
            if option not in known.keys() | {"--help"}:
                return f"no option {option}"
            if hasattr(command, "commands") and option == word and option in known and not known[option].is_flag:
                next(rest, None)  # its value, before the command of the group
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return f"no command {word}"
            command = command.commands[word]
    return ""


def where(one: Command) -> str:
    return f"{one.page}:{one.line}: {one.text}"


def test_every_command_is_run_by_a_test_or_has_a_reason_not_to() -> None:
    """As scripts/check does, which says what to do about a new one."""
    known = {*ELSEWHERE, *NOT_RUN, *(step.text for step in STEPS)}
    assert [where(one) for one in SHOWN if one.text not in known] == []


def test_no_command_is_classified_twice_and_every_step_is_on_a_page() -> None:
    shown, run = {one.text for one in SHOWN}, {step.text for step in STEPS}
    assert run - shown == set()
    assert (ELSEWHERE.keys() & NOT_RUN.keys()) | (run & (ELSEWHERE.keys() | NOT_RUN.keys())) == set()


@pytest.mark.parametrize("test", sorted(set(ELSEWHERE.values())))
def test_the_test_that_runs_it_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8")


def called() -> Iterator[tuple[str, list[str]]]:
    for one in (*SHOWN, *examples()):
        yield from ((where(one), words) for words in calls(one.text))


def test_the_command_line_takes_every_call_of_stoker() -> None:
    found = [(place, refusal(words)) for place, words in called()]
    assert len(found) > 150
    assert [one for one in found if one[1]] == []


def test_every_command_and_option_that_the_text_mentions_exists() -> None:
    found = [(where(one), mistaken(_plain(one.text))) for one in mentions()]
    assert [one for one in found if one[1]] == []


def _plain(text: str) -> list[str]:
    """The words of a mention up to where it stops being one command."""
    words = text.replace(",", " , ").replace(";", " ; ").split()[1:]
    ends = [words.index(end) for end in (",", ";", "...", "|", ">") if end in words]
    return words[: min(ends)] if ends else words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("servs status", "No such command"),
        ("serves up fast --dry", "No such option"),
        ("slot switch", "Missing argument"),
        ("decisions --limit many", "--limit"),
        ("serves up fast --dry-run", ""),
        ("--version", ""),
    ],
)
def test_what_the_command_line_would_refuse_is_found(words: str, says: str) -> None:
    assert says.lower() in refusal(words.split()).lower()
    assert bool(refusal(words.split())) == bool(says)


def test_a_mention_may_leave_arguments_out_but_not_invent_any() -> None:
    assert mistaken(["serves", "up"]) == ""
    assert mistaken(["serves", "start"]) == "no command start"
    assert mistaken(["serves", "--manifest", "FILE", "status"]) == ""
    assert mistaken(["serves", "--manifest", "FILE", "start"]) == "no command start"
    assert mistaken(["serves", "up", "--fast"]) == "no option --fast"


def test_commands_are_read_without_prompts_comments_and_output(tmp_path: Path) -> None:
    block = "$ stoker up   # the rest\nlistening\n$ curl -H 'a' \\\n    -d '#1'\n{}\n"
    assert list(of_block("console", block)) == [(0, "stoker up"), (2, "curl -H 'a' -d '#1'")]
    assert list(of_block("sh", "# only this\nstoker up\n")) == [(1, "stoker up")]
    assert list(of_block("toml", "stoker = 1\n")) == []
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("a\n\n```sh\nls\n```\n\n    stoker top      live\n\n    $ id  # me\n    0\n")
    assert list(commands(tmp_path)) == [Command("README.md", 4, "ls"), Command("README.md", 9, "id")]
    assert list(examples(tmp_path)) == [Command("README.md", 7, "stoker top")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("stoker watchdog --once || notify-me", [["watchdog", "--once"]]),
        ('eval "$(stoker client env)"', [["client", "env"]]),
        ("docker compose exec stoker stoker top", [["top"]]),
        ("sudo stoker install systemd", [["install", "systemd"]]),
        ("stoker config schema > stoker.schema.json", [["config", "schema"]]),
        ("pip install --upgrade stoker", []),
        ("sudo systemctl restart stoker", []),
        ("docker compose up -d --build stoker", []),
        ("docker run --name stoker --rm image", []),
    ],
)
def test_calls_of_stoker_are_found_in_a_shell_line(text: str, found: list[list[str]]) -> None:
    assert calls(text) == found
