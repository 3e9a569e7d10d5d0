"""Tab at a real terminal, after `stoker --install-completion` was typed at one."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.scenarios.typed import proposed

from stoker.cli.main import run
from stoker_setup.commands import doctor_checks

PROGRAMS = Path(sys.executable).parent
CONFIG = '[[serve]]\nname = "fast"\nmodel = "a.gguf"\n\n[[serve]]\nname = "org:small"\nmodel = "b.gguf"\n'


def typed(shell: str, home: Path, keys: str, until: str) -> str:
    """What a new shell answers to `keys`, up to `until`."""
    environment = {"HOME": str(home), "PATH": f"{PROGRAMS}:/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}
    ours, theirs = pty.openpty()
    begun = subprocess.Popen(
        [shell, "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=home / "work", env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown, end = "", time.monotonic() + 60

    def press(keys: str, until: str) -> None:
        nonlocal shown
        os.write(ours, keys.encode())
        shown = ""
        while until not in shown:
            if select.select([ours], [], [], 0.5)[0]:
                shown += os.read(ours, 65536).decode(errors="replace")
            assert time.monotonic() < end, f"{shell} did not show {until!r} for {keys!r}: {shown!r}"

    try:
        press("echo rea'dy'\n", "ready")
        press(keys, until)
    finally:
        begun.kill()
        begun.wait()
        os.close(ours)
    return shown


@pytest.fixture
def place(home: Path) -> Path:
    (home / "work" / "stoker.toml").write_text(CONFIG)
    return home


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_what_doctor_proposes_makes_tab_complete_commands_names_and_options(place: Path, shell: str) -> None:
    """At the first key press, and names with a `:`, too."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")

    line = proposed(doctor_checks.completion(place).detail, "stoker --install-completion")
    typed(shell, place, f"{line}\n", f"it works in the next {shell} that you open")
    assert "installed (~/" in doctor_checks.completion(place).detail
    keys = "stoker serv\tup org:s\t--dry\t\x01echo whole'': \n"
    typed(shell, place, keys, "whole: stoker serves up org:small --dry-run")


def test_fish_completes_as_well(place: Path) -> None:
    if (fish := shutil.which("fish")) is None:
        pytest.skip("fish is not installed")
    environment = {"HOME": str(place), "PATH": f"{PROGRAMS}:/usr/bin:/bin"}
    for line, shown in (
        ("stoker --install-completion", "in the next fish"),
        ("complete -C 'stoker serves up '", "org:small"),
    ):
        done = subprocess.run(
            [fish, "-c", line], cwd=place / "work", env=environment, capture_output=True, text=True, check=False
        )
        assert shown in done.stdout, done.stderr


def test_where_no_shell_is_above_it_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("psutil.Process.parents", lambda process: [])
    assert run(["--install-completion"]) == 2
    assert run(proposed(capsys.readouterr().err, "stoker completions bash").split()[1:]) == 0
    assert "complete -o default -F _stoker stoker" in capsys.readouterr().out


def test_a_file_of_the_shell_is_extended_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "psutil.Process.parents", lambda process: [type("Process", (), {"name": lambda self: "bash"})()]
    )
    (place / ".bashrc").write_text("alias ll='ls -l'")
    assert run(["--install-completion"]) == run(["--install-completion"]) == 0
    assert (place / ".bashrc").read_text() == "alias ll='ls -l'\nsource ~/.bash_completions/stoker.sh\n"
