"""A command of llama-swap as words: comment lines out, a trailing backslash joins lines, then POSIX quoting."""

from __future__ import annotations

from stoker.cli.importers.llama_swap.macros import without_comments

_BLANKS = " \t\n"
_ESCAPED_IN_QUOTES = '$`"\\'


def split_command(command: str) -> list[str]:
    """The words of `command`, without a shell: no variables, no wildcards. A quote that is never closed ends with the
    text, as in llama-swap.
    """
    lines = [
        line.strip()[:-1] + " " if line.strip().endswith("\\") else line
        for line in without_comments(command).split("\n")
    ]
    return _split("\n".join(lines))


def _split(text: str) -> list[str]:
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    place = 0
    while place < len(text):
        char, after = text[place], text[place + 1 : place + 2]
        place += 1
        if char == "\\" and quote != "'" and (not quote or not after or after in _ESCAPED_IN_QUOTES + "\n"):
            place += 1
            if after not in ("", "\n"):
                word = [] if word is None else word
                word.append(after)
            continue
        if quote:
            if char == quote:
                quote = ""
            elif word is not None:
                word.append(char)
        elif char in "'\"":
            quote = char
            word = [] if word is None else word
        elif char in _BLANKS:
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = [] if word is None else word
            word.append(char)
    return [*words, "".join(word)] if word is not None else words
