"""The commands that the program itself proposes: in its messages (the texts of src), in what it prints, on its page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.commands import ROOT

SOURCE = ROOT / "src"
STATIC = SOURCE / "stoker" / "gateway" / "web" / "static"
COMMAND = re.compile(r"(?<![\w/.-])(?<!--command )(?<!keys set )stoker (?=[a-z-])")
END = re.compile(r"\n|[,;:.)] |[;)]|:(?![/\d])|,$|\.$| \(| - |`|, or | or (?=stoker)|<|\[|$")
PLACE = "\0"
"""Stands for the options that lead to the same Stoker, where a text of the source has them filled in."""
PLACES = re.compile(r"([\w.]+\.)?((file_)?place|same_place\(.*\))")
NO_COMMAND = re.compile(r"stoker embedded engine")
"""What begins like a command and is none: the first word of a log line."""


class Proposal(NamedTuple):
    """`is_whole`: it stands behind a colon, or begins the text, and is to be typed as it is. Others may leave arguments
    out. `has_place`: the options follow that lead to the same Stoker, if such were given.
    """

    place: str
    text: str
    is_whole: bool
    has_place: bool = False


def in_text(text: str, place: str = "") -> Iterator[Proposal]:
    """Every command in a message. A backtick before it is matched by the one behind it; else it ends where the sentence
    goes on.
    """
    for found in COMMAND.finditer(text):
        rest = text[found.start() :]
        if NO_COMMAND.match(rest):
            continue
        before = text[: found.start()]
        is_quoted = before.endswith("`")
        end = rest.find("`") if is_quoted else -1
        if end < 0:
            end = _end(rest)
        is_whole = before.strip("` ").endswith((":", ": ")) or not before.strip("` ")
        is_whole = is_whole and bool(re.match(r"`?[.,;)\n]|$", rest[end:]))
        shown = rest[:end].rstrip(" .,")
        yield Proposal(place, shown.replace(PLACE, ""), is_whole, PLACE in shown)


def _end(rest: str) -> int:
    found = END.search(rest)
    return found.start() if found is not None else len(rest)


def in_source(root: Path = SOURCE) -> Iterator[Proposal]:
    """Of all texts of the program but docstrings, with `1` for what is filled in. See `Proposal.has_place`."""
    for path in sorted(root.rglob("*.py")):
        if "stoker " in (source := path.read_text(encoding="utf-8")):  # parsing the others takes long
            for line, text in _texts(ast.parse(source)):
                yield from in_text(text, f"{path.relative_to(root)}:{line}")


def on_the_page(root: Path = STATIC) -> Iterator[Proposal]:
    for path in sorted(root.glob("*.js")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for code in re.findall(r"<code>(stoker [^<]*)</code>", line):
                yield Proposal(f"{path.name}:{number}", re.sub(r"\$\{[^}]*\}", "1", code), True)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    nodes = list(ast.walk(tree))
    parts = {id(value) for node in nodes if isinstance(node, ast.JoinedStr) for value in node.values}
    parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(_shown, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def _shown(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return PLACE if PLACES.fullmatch(ast.unparse(part.value)) else "1"
    return str(part.value) if isinstance(part, ast.Constant) else ""
