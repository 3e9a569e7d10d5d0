"""Extensions of the command line: found by their entry point, listed, and never able to break Stoker's own commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.proposals import in_text

from stoker import __version__

HELLO = '''
import typer
from stoker.extensions import Command, Extension

EXTENSION = Extension(
    "Says hello.",
    commands=(
        Command("hello", "hello_stoker:hello", "Say hello to NAME."),
        Command("greet", "hello_stoker:group", "Greetings."),
        Command("torn", "hello_stoker:nothing", "Cannot be imported."),
        Command("leaving", "leaving_stoker:hello", "Ends the process that imports it."),
        Command("number", "hello_stoker:NUMBER", "Is no command."),
        Command("serves", "hello_stoker:hello", "Would replace one of Stoker's own."),
        Command("slot greet", "hello_stoker:hello", "Greet, among the commands of slots."),
        Command("slot status", "hello_stoker:hello", "Would replace one of Stoker's own."),
    ),
    warnings="hello_stoker:warnings",
)
NUMBER = 3
group = typer.Typer()

def hello(name: str) -> None:
    """Say hello to NAME."""
    print(f"hello {name}")

def warnings(settings):
    return [f"nobody greets {serve.name}" for serve in settings.serves]

group.command("loudly")(hello)
group.command("softly")(hello)
'''


def install(folder: Path, name: str, source: str, place: str) -> None:
    """As a package manager lays it out."""
    (folder / f"{name}.py").write_text(source)
    facts = folder / f"{name}-1.2.dist-info"
    facts.mkdir()
    (facts / "entry_points.txt").write_text(
        f"[console_scripts]\nhi = {name}:hi\n\n[stoker.extensions]\n# ours\n{name} = {place}\n\n[else]\nx = y:z\n"
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(tmp_path, "hello_stoker", HELLO, "hello_stoker:EXTENSION")
    return tmp_path


def stoker(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from stoker.cli.main import run; sys.exit(run(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": f"{site}:/nowhere"}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def test_a_command_and_a_group_of_an_extension_work_and_are_in_help(site: Path) -> None:
    assert "hello         Say hello to NAME." in stoker(site, "--help").stdout
    assert stoker(site, "hello", "Ada").stdout == "hello Ada\n"
    assert stoker(site, "greet", "loudly", "Ada").stdout == "hello Ada\n"
    assert "loudly" in stoker(site, "greet", "--help").stdout
    assert "Use: stoker greet softly" in stoker(site, "softly").stderr


def test_a_command_may_stand_in_a_group_of_stokers_own(site: Path) -> None:
    assert stoker(site, "slot", "greet", "Ada").stdout == "hello Ada\n"
    listed = stoker(site, "slot", "--help").stdout
    assert "greet" in listed
    assert "switch" in listed
    assert "PROMPT" not in stoker(site, "slot", "status", "--help").stdout


def test_what_an_extension_says_of_the_configuration_is_a_warning(site: Path) -> None:
    config = site / "stoker.toml"
    config.write_text('[slots.cpu]\n[[serve]]\nname = "ada"\nengine = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert "warning: nobody greets ada" in stoker(site, "config", "check", "--config", str(config)).stderr


def test_stokers_own_command_counts_where_an_extension_has_the_same_name(site: Path) -> None:
    assert "the model servers of the configuration" in stoker(site, "serves", "--help").stdout


def test_a_command_that_cannot_be_imported_says_so_and_leaves_the_others(site: Path) -> None:
    torn = stoker(site, "torn")
    assert torn.returncode == 1
    assert torn.stderr.startswith("stoker: the command torn cannot be loaded (AttributeError: ")
    [proposed] = [one.text for one in in_text(torn.stderr)]
    assert "hello_stoker (hello_stoker 1.2)" in stoker(site, *proposed.split()[1:]).stdout
    (site / "leaving_stoker.py").write_text("raise SystemExit('no card')")
    assert "the command leaving cannot be loaded (SystemExit: no card)" in stoker(site, "leaving").stderr
    assert "the command number cannot be loaded (TypeError: " in stoker(site, "number").stderr
    assert stoker(site, "frobnicate").returncode == 2


def test_the_version_lists_what_is_installed_and_why_something_is_not_used(site: Path) -> None:
    install(site, "broken", "raise RuntimeError('no such\\ncard')", "broken:EXTENSION")
    install(site, "other", "EXTENSION = 3", "other:EXTENSION")
    install(site, "leaving", "raise SystemExit('no card')", "leaving:EXTENSION")
    comma = "from stoker.extensions import Command, Extension\nEXTENSION = Extension('', Command('a', 'b:c', 'D.'))"
    install(site, "comma", comma, "comma:EXTENSION")
    install(site, "lab", "raise RuntimeError('never imported')", "lab:EXTENSION")
    lines = stoker(site, "--version", "-v").stdout.splitlines()
    assert "  leaving (leaving 1.2): cannot be used: SystemExit: no card" in lines
    assert "  comma (comma 1.2): cannot be used: comma:EXTENSION: commands must be a tuple of Command" in lines
    second = f"stoker {__version__} has an extension of this name, too, and that one counts"
    assert f"  lab (lab 1.2): cannot be used: {second}" in lines
    assert "  hello_stoker (hello_stoker 1.2): Says hello." in lines
    assert "  broken (broken 1.2): cannot be used: RuntimeError: no such\\u000acard" in lines
    assert "  other (other 1.2): cannot be used: other:EXTENSION is not a stoker.extensions.Extension" in lines
    facts = json.loads(stoker(site, "version", "-v", "--json").stdout)
    by_name = {one["name"]: one for one in facts["extensions"]}
    assert by_name["hello_stoker"]["commands"] == [
        "hello", "greet", "torn", "leaving", "number", "serves", "slot greet", "slot status"
    ]  # fmt: skip
    assert by_name["broken"]["problem"] == "RuntimeError: no such\\u000acard"
    assert "extensions" not in json.loads(stoker(site, "version", "--json").stdout)
