"""The manual page and the completions: in step with the program, and good for their readers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import man_page

CONFIG = """
[slots.gpu0]
[[serve]]
name = "qwen3"
model = "a.gguf"
slot = "gpu0"
aliases = ["qwen3:8b", "Qwen Coder 32B"]
[[serve.variant]]
name = "qwen3:thinking"
[alias]
coder = "qwen3"
"""
ASK_BASH = """
source "$SCRIPT"
COMP_LINE=$1; COMP_POINT=${#1}
_stoker stoker
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_the_files_of_share_are_what_the_program_says() -> None:
    for path, text in man_page.generated().items():
        assert path.read_text() == text, f"{path.relative_to(man_page.ROOT)}: scripts/reference.py --write"


@pytest.mark.skipif(shutil.which("man") is None, reason="no man: apt install man-db")
def test_the_manual_page_renders_without_a_warning() -> None:
    shown = subprocess.run(
        ["man", "--warnings", "-l", str(man_page.MAN)],
        capture_output=True,
        text=True,
        env={**os.environ, "MANWIDTH": "80"},
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "stoker serves up [NAME]" in shown.stdout
    assert "EXIT STATUS" in shown.stdout


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "stoker.toml").write_text(CONFIG)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "STOKER_CONFIG": str(tmp_path / "stoker.toml"), "HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("stoker serves up ", ["qwen3"]),
        ("stoker promote c", ["coder"]),
        ("stoker client --model qwen3:t", ["thinking"]),
        (r"stoker client --model Qwen\ C", [r"Qwen\ Coder\ 32B"]),
    ],
)
def test_bash_completes_names_also_with_colons_and_blanks(
    typed: str, found: list[str], environment: dict[str, str]
) -> None:
    script = str(man_page.COMPLETIONS[man_page.Shell.BASH])
    run = subprocess.run(
        ["bash", "--norc", "-c", ASK_BASH, "bash", typed], env={**environment, "SCRIPT": script}, capture_output=True
    )
    assert run.stdout.decode().split("\n")[:-1] == found


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish: apt install fish")
def test_fish_completes_names(environment: dict[str, str]) -> None:
    script = man_page.COMPLETIONS[man_page.Shell.FISH]
    text = f"source {script}; complete -C 'stoker client --model qwen3:'"
    run = subprocess.run(["fish", "--no-config", "-c", text], env=environment, capture_output=True, text=True)
    assert run.stdout.split() == ["qwen3:8b", "qwen3:thinking"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh: apt install zsh")
def test_zsh_accepts_the_script(environment: dict[str, str]) -> None:
    script = man_page.COMPLETIONS[man_page.Shell.ZSH]
    text = f"compdef() {{ print $1 for $2 }}; source {script}; functions _stoker >/dev/null"
    run = subprocess.run(["zsh", "-f", "-c", text], env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, "_stoker for stoker")
