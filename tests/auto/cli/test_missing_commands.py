"""A command whose extension is missing names it."""

from __future__ import annotations

import pytest

from stoker import extensions
from stoker.cli import main
from stoker.cli.console.hints import SHIPPED
from stoker.extensions import installed_extensions


def test_the_commands_of_every_extension_that_comes_with_stoker_are_known() -> None:
    own = {one.name: one.extension for one in installed_extensions() if one.package.startswith("stoker ")}
    named = {
        name: tuple(command.name for command in extension.commands if " " not in command.name)
        for name, extension in own.items()
        if extension is not None
    }
    assert {name: commands for name, commands in named.items() if commands} == SHIPPED


def test_a_command_whose_extension_is_missing_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "usable_extensions", tuple)
    monkeypatch.setattr(extensions, "installed_extensions", tuple)
    main.command_tree.cache_clear()
    assert main.run(["route", "x"]) == 2
    main.command_tree.cache_clear()
    assert "it needs the extension auto, which is not installed" in capsys.readouterr().err
