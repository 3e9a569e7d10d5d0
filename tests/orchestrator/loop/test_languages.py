"""In which language a block is written: its file's name decides, then its fence, then what it looks like."""

from __future__ import annotations

import pytest

from stoker_orchestrator.checks.structure import is_complete
from stoker_orchestrator.loop.cutter import Cutter
from stoker_orchestrator.loop.languages import PLAIN, language_of

BROKEN = "import os\n\ndef total(values:\n    result = 0\n    for value in values:\n        result += value\n"
SENTENCES = "Here is what I did.\nThe function sums its values. It returns zero for none.\n- It is short."


@pytest.mark.parametrize(
    ("path", "info", "text", "language"),
    [
        ("app/x.py", "text", BROKEN, "python"),
        ("app/x.py", "", "", "python"),
        ("x.PY", "javascript", "", "python"),
        ("README.md", "python", BROKEN, "markdown"),
        ("Makefile", "", "all:", "makefile"),
        (".env", "", "A=1", PLAIN),
        ("", "python title=x", "", "python"),
        ("", "pyhton", BROKEN, "python"),
        ("", "javascrpt", "", "javascript"),
        ("", "latex", "", "latex"),
        ("", "erlang", "", "erlang"),
        ("", "jsonl", "", "jsonl"),
        ("", "crystal", "", "crystal"),
        ("", "text", BROKEN, "python"),
        ("", "", BROKEN, "python"),
        ("", "text", SENTENCES, "text"),
        ("", "", SENTENCES, PLAIN),
        ("", "sql", "", "sql"),
        ("", "", "SELECT name FROM users\nWHERE id = 1;", "sql"),
        ("", "text", "function f(x) {\n  return x;\n}", "code"),
        ("", "brainfuck", "++[>+<-]", "brainfuck"),
    ],
)
def test_a_block_has_the_language_of_its_file_its_fence_or_its_looks(
    path: str, info: str, text: str, language: str
) -> None:
    assert language_of(path, info, text.split("\n")) == language


def test_bare_code_that_does_not_parse_is_code_and_sentences_are_not() -> None:
    cutter = Cutter(is_complete)
    [bare] = [*cutter.feed(BROKEN + "\n"), *cutter.finish()]
    assert (bare.is_code, bare.language) == (True, "python")
    cutter = Cutter(is_complete)
    [said] = [*cutter.feed(SENTENCES + "\n"), *cutter.finish()]
    assert not said.is_code
