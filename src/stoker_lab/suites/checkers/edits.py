"""Search/replace blocks: found in an answer, applied to a text. Pure.

A block is a line `<<<<<<< SEARCH`, the lines to be replaced, `=======`, the new lines, `>>>>>>> REPLACE`: the form
that Aider made known (https://aider.chat/docs/more/edit-formats.html).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stoker.domain.answer import Answer
from stoker_lab.suites.check_kinds import EditBlocksCheck
from stoker_lab.suites.checkers.plain_text import PASSED, Grade, answer_text

_MARKS = {
    "search": re.compile(r"<{5,9} SEARCH\s*"),
    "replace": re.compile(r"={5,9}\s*"),
    "end": re.compile(r">{5,9} REPLACE\s*"),
}
_NEXT = {"": "search", "search": "replace", "replace": "end"}


class EditBlock(NamedTuple):
    search: str
    replace: str


class EditError(Exception):
    """The blocks cannot be read, or do not apply."""


def parse_blocks(text: str) -> list[EditBlock]:
    """Raises EditError: the last block is not closed, or there is no block."""
    found: list[EditBlock] = []
    parts: dict[str, list[str]] = {}
    state = ""
    for line in text.splitlines():
        following = _NEXT[state]
        if _MARKS[following].fullmatch(line):
            state = "" if following == "end" else following
            if state == "search":
                parts = {"search": [], "replace": []}
            elif not state:
                found.append(EditBlock("\n".join(parts["search"]), "\n".join(parts["replace"])))
        elif state:
            parts[state].append(line)
    if state:
        raise EditError(f"block {len(found) + 1} does not end")
    if not found:
        raise EditError("no search/replace block")
    return found


def apply_blocks(source: str, found: list[EditBlock]) -> str:
    """One after the other. Raises EditError: the search text is empty, missing, or found more than once."""
    lines = source.splitlines()
    for number, block in enumerate(found, 1):
        search = block.search.splitlines()
        places = [at for at in range(len(lines)) if _same(lines[at : at + len(search)], search)] if search else []
        if len(places) != 1:
            raise EditError(f"block {number} is found {len(places)} times")
        lines[places[0] : places[0] + len(search)] = block.replace.splitlines()
    return "\n".join(lines)


def _same(one: list[str], other: list[str]) -> bool:
    return [line.rstrip() for line in one] == [line.rstrip() for line in other]


def check_edit(check: EditBlocksCheck, answer: Answer) -> Grade:
    """1. does not apply  2. gives something else."""
    try:
        result = apply_blocks(check.source, parse_blocks(answer_text(answer)))
    except EditError as error:  # 1
        return Grade(False, str(error))
    same = _same(result.strip("\n").splitlines(), check.wanted.strip("\n").splitlines())
    return PASSED if same else Grade(False, "applies, but gives another text")  # 2
