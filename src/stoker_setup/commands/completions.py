"""`stoker completions`: the script by which a shell completes commands, options and configured names.

The scripts ask `stoker` itself at each key press, so that they never have to change with it. Those of bash and zsh are
our own: Typer's cut names at `:`, which many models have in theirs, and do nothing at the first key press if zsh loads
them by itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stoker.cli.console import terminal

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
