"""docs/reference/cli.md has every command with an example, and every option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.main import command_tree

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


ROOT: Any = command_tree()
COMMANDS = dict(commands(ROOT))


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


def test_the_commands_of_this_version_are_there() -> None:
    assert {"up", "serves status", "serves experiment", "slot switch", "config schema", "explain"} < set(COMMANDS)
    assert "drain" not in COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_with_an_example(name: str) -> None:
    _, found, rest = PAGE.partition(f"\n### `stoker {name}`\n")
    assert found
    section = re.split(r"\n##+ ", rest)[0]
    assert f"\n    stoker {name}" in section


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_its_section_or_among_the_shared_ones(name: str) -> None:
    shared = PAGE.partition("\n## Options that many commands share\n")[2].partition("\n## ")[0]
    section = re.split(r"\n##+ ", PAGE.partition(f"\n### `stoker {name}`\n")[2])[0]
    missing = {o for o in options(COMMANDS[name]) - {"--help"} if not re.search(rf"`{o}\b", shared + section)}
    assert missing == set()


def test_the_options_before_a_command_are_there() -> None:
    assert options(ROOT) >= {"--version"}
    assert all(f"stoker {option}" in PAGE for option in options(ROOT) - {"--help"})


def test_no_section_is_about_a_command_that_does_not_exist() -> None:
    named = re.findall(r"\n### `stoker ([a-z. -]+)`\n", PAGE)
    assert sorted(named) == sorted(COMMANDS)


def test_every_command_explains_itself_and_its_options() -> None:
    for name, command in COMMANDS.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None) or parameter.name == "help", (name, parameter.name)
