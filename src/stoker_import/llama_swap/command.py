"""A command of llama-swap as words: comment lines out, a trailing backslash joins lines, then the system's quoting."""

from __future__ import annotations

import re

from stoker_import.llama_swap.macros import without_comments

_BLANKS = " \t\n"
_ESCAPED_IN_QUOTES = '$`"\\'
_WINDOWS = re.compile(r"""\s*"?([A-Za-z]:\\|[^\s"']*\\[^"'\n]*?\.(exe|bat|cmd)\b)""", re.IGNORECASE)
_SLASHES = re.compile(r"\\*")


def split_command(command: str) -> list[str]:
    """The words of `command`, without a shell: no variables, no wildcards. A quote that is never closed ends with the
    text, as in llama-swap.

    A command whose program is one of Windows is read as llama-swap reads it there: a backslash is a backslash.
    """
    lines = [
        line.strip()[:-1] + " " if line.strip().endswith("\\") else line
        for line in without_comments(command).split("\n")
    ]
    return (_split_windows if is_of_windows(command) else _split)("\n".join(lines))


def is_of_windows(command: str) -> bool:
    """Whether the program has a drive, or is an `.exe` behind backslashes."""
    return _WINDOWS.match(without_comments(command)) is not None


def _split_windows(text: str) -> list[str]:
    """As programs of Windows do: only `"` quotes. Before it two backslashes are one, and an odd one makes it literal;
    so does a second `"` within quotes.
    """
    words: list[str] = []
    word: str | None = None
    is_quoted = False
    place = 0
    while place < len(text):
        slashes = _SLASHES.match(text, place)
        count = 0 if slashes is None else len(slashes[0])
        place += count
        char, after = text[place : place + 1], text[place + 1 : place + 2]
        place += 1
        if char == '"':
            word = (word or "") + "\\" * (count // 2)
            is_doubled = not count % 2 and is_quoted and after == '"'
            if count % 2 or is_doubled:
                word += '"'
                place += is_doubled
            else:
                is_quoted = not is_quoted
            continue
        if count:
            word = (word or "") + "\\" * count
        if char and (is_quoted or char not in _BLANKS + "\r"):
            word = (word or "") + char
        elif word is not None and not is_quoted:
            words.append(word)
            word = None
    return [*words, word] if word is not None else words


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
