"""The commands that the pages show: read from their Markdown, and the calls of `stoker` in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^([ ]*)(`{3,})(\w*)\n(.*?)^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^    \$ (.*)$", re.MULTILINE)
INDENTED = re.compile(r"^    (stoker .*)$", re.MULTILINE)
SPAN = re.compile(r"`(stoker [^`\n]+)`")
SEPARATORS = {"&&", "||", "|", ";", ">", "<", "(", ")", "&"}
GENERATED = {"docs/reference/clients.md"}
"""Pages whose commands come from the program itself, and are tested there."""


class Command(NamedTuple):
    """One command as a page shows it: joined where a backslash continues it, without its comment."""

    page: str
    line: int
    text: str


def pages(root: Path = ROOT) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def commands(root: Path = ROOT) -> Iterator[Command]:
    """Every command in a block of `sh`, and those after `$` in a block of `console` or an indented one."""
    for page in pages(root):
        name, text = page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
        if name in GENERATED:
            continue
        for block in BLOCK.finditer(text):
            first = text.count("\n", 0, block.start(4)) + 1
            for offset, line in of_block(block[3], block[4]):
                yield Command(name, first + offset, line)
        text = BLOCK.sub(lambda m: "\n" * m[0].count("\n"), text)
        for found in PROMPT.finditer(text):
            yield Command(name, text.count("\n", 0, found.start()) + 1, _without_comment(found[1]))


def of_block(language: str, block: str) -> Iterator[tuple[int, str]]:
    """The line in the block, from 0, and the command."""
    if language not in ("sh", "bash", "shell", "console"):
        return
    begun: list[str] = []
    for number, line in enumerate(block.splitlines()):
        if language == "console" and not begun and not line.lstrip().startswith("$ "):
            continue
        begun.append(line.strip().removeprefix("$ ") if not begun else line.strip())
        if begun[-1].endswith("\\"):
            begun[-1] = begun[-1][:-1].rstrip()
            continue
        if command := _without_comment(" ".join(begun)):
            yield number + 1 - len(begun), command
        begun = []


def _without_comment(line: str) -> str:
    return re.sub(r"(?:^|\s+)#(?: .*)?$", "", line)


def examples(root: Path = ROOT) -> Iterator[Command]:
    """The indented calls of `stoker` in the reference; what stands after three blanks explains them."""
    for page in pages(root):
        name, text = page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
        text = BLOCK.sub(lambda m: "\n" * m[0].count("\n"), text)
        for found in INDENTED.finditer(text):
            yield Command(name, text.count("\n", 0, found.start()) + 1, re.sub(r" {3,}.*|\s+#.*", "", found[1]))


def mentions(root: Path = ROOT) -> Iterator[Command]:
    """`stoker ...` in the text of the pages that people write."""
    for page in pages(root):
        name, text = page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
        for found in SPAN.finditer(text) if name not in GENERATED else ():
            yield Command(name, text.count("\n", 0, found.start()) + 1, found[1])


def calls(text: str) -> list[list[str]]:
    """The words after `stoker` of each call of it in a shell line, also in `$(...)` and after other programs."""
    inner = [part for nested in re.findall(r"\$\(([^()]*)\)", text) for part in calls(nested)]
    lexer = shlex.shlex(re.sub(r"\$\([^()]*\)", "SUBSTITUTED", text), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = []
    simple: list[str] = []
    for word in [*lexer, ";"]:
        if word not in SEPARATORS:
            simple.append(word)
            continue
        if simple[:1] == ["stoker"]:
            found.append(simple[1:])
        elif simple[:1] in (["sudo"], ["docker"]) and "stoker" in simple[:-1]:
            words = simple[len(simple) - simple[::-1].index("stoker") :]
            found += [] if words[0].startswith("-") else [words]  # the name of a container, before other options
        simple = []
    return inner + found
