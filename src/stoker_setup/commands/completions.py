"""`stoker completions`: the script by which a shell completes commands, options and configured names.

The scripts ask `stoker` itself at each key press, so that they never have to change with it. Those of bash and zsh are
our own: Typer's cut names at `:`, which many models have in theirs, and do nothing at the first key press if zsh loads
them by itself.
"""

from __future__ import annotations

import contextlib
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import psutil
import typer

from stoker.cli.console import terminal
from stoker.cli.console.errors import RequestRefused, UsageError
from stoker.store.files import atomic

BASH = r"""# Completion of stoker's commands in bash.
_stoker() {
    local line=${COMP_LINE:0:COMP_POINT} words=() word IFS=$' \t\n'
    read -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local at=$((${#words[@]} - 1))
    local current=${words[at]} done=""
    # Readline replaces only what follows the last `:` or `=` of a word.
    [[ $current == *[:=]* ]] && done=${current%"${current##*[:=]}"}
    COMPREPLY=()
    while IFS= read -r word; do
        [[ $word ]] && COMPREPLY+=("$(printf '%q' "${word#"$done"}")")
    done < <(COMP_WORDS=$(printf '%q ' "${words[@]}") COMP_CWORD=$at _STOKER_COMPLETE=complete_bash "$1" 2>/dev/null)
}
complete -o default -F _stoker stoker
"""
ZSH = r"""#compdef stoker
# Completion of stoker's commands in zsh.
_stoker() {
    eval "$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _STOKER_COMPLETE=complete_zsh ${words[1]} 2>/dev/null)"
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _stoker "$@"
else
    compdef _stoker stoker
fi
"""
_ASK = "env _STOKER_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION={} _TYPER_COMPLETE_ARGS=(commandline -cp) stoker"
FISH = f"""# Completion of stoker's commands in fish.
complete --command stoker --no-files --arguments "({_ASK.format("get-args")})" \\
    --condition "{_ASK.format("is-args")}"
"""


class Shell(StrEnum):
    """A shell that can be told how to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {Shell.BASH: BASH, Shell.ZSH: ZSH, Shell.FISH: FISH}
INSTALLED = {
    Shell.BASH: ".bash_completions/stoker.sh",
    Shell.ZSH: ".zfunc/_stoker",
    Shell.FISH: ".config/fish/completions/stoker.fish",
}
"""Where `--install-completion` writes the script, in the home directory."""
_READ_AT_START = {
    Shell.BASH: (".bashrc", "source ~/.bash_completions/stoker.sh"),
    Shell.ZSH: (".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
}
"""The file, and the line in it that lets the shell find the script. fish finds it by itself."""


def _shell(name: str) -> Shell:
    if name not in list(Shell):
        raise typer.BadParameter(f"'{name}' is none of bash, zsh and fish.")
    return Shell(name)


def completions(
    shell: Annotated[
        Shell,
        typer.Argument(metavar="SHELL", help="bash, zsh or fish.", parser=_shell, autocompletion=lambda: list(Shell)),
    ],
) -> None:
    """Print the script that lets SHELL complete stoker's commands, options and the names in the configuration."""
    terminal.say(SCRIPTS[shell].rstrip("\n"))


def show_completion(_context: typer.Context, _option: object, is_given: bool) -> None:
    """Print the script for the shell in which this is typed."""
    if is_given:
        completions(_current_shell())
        raise typer.Exit


def install_completion(_context: typer.Context, _option: object, is_given: bool) -> None:
    """Write the script for the shell in which this is typed into the home directory, and let that shell read it."""
    if is_given:
        shell, home = _current_shell(), Path.home()
        path = home / INSTALLED[shell]
        try:
            atomic.write(path, SCRIPTS[shell].encode(), 0o644, make_parents=True)
            if shell in _READ_AT_START:
                name, line = _READ_AT_START[shell]
                _append_line(home / name, line)
        except OSError as error:
            text = f"{error.filename or path} cannot be written ({error.strerror}); print the script instead: "
            raise RequestRefused(f"{text}stoker completions {shell}") from error
        terminal.say(f"wrote {path}: it works in the next {shell} that you open")
        raise typer.Exit


def _current_shell() -> Shell:
    """The nearest process above this one that is a shell with completion. Raises UsageError."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(os.getpid()).parents():
            if (name := process.name()) in list(Shell):
                return Shell(name)
    raise UsageError(
        "this was not typed in bash, zsh or fish; name the shell: stoker completions bash (or zsh, or fish) prints its "
        "script"
    )


def _append_line(path: Path, line: str) -> None:
    """Unless the file has it. Raises OSError."""
    text = path.read_text("utf-8", "surrogateescape") if path.exists() else ""
    if line not in text.splitlines():
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
