"""What somebody else wrote is shown as it is, and obeyed by no terminal and no reader of a log."""

from __future__ import annotations

import json
import unicodedata

import pytest

from stoker.domain.printable import one_line, printable, without_colours


@pytest.mark.parametrize(
    ("given", "shown"),
    [("\x1b[31mred", "\\u001b[31mred"), ("a\x07b", "a\\u0007b"), ("a\rb", "a\\u000db"), ("\x9b2J", "\\u009b2J"),
     ("\x7f", "\\u007f"), ("a\u202eb", "a\\u202eb"), ("\u2066x\u2069", "\\u2066x\\u2069"), ("a\u2028b", "a\\u2028b"),
     ("\ud800", "\\ud800"), ("a\nb\tc", "a\nb\tc"),
     ("[red]x[/red]", "[red]x[/red]"), ("größe 漢字 👩‍💻", "größe 漢字 👩‍💻")],
)  # fmt: skip
def test_what_a_terminal_would_obey_is_written_out(given: str, shown: str) -> None:
    assert printable(given) == shown
    assert one_line(given) == shown.replace("\n", "\\u000a").replace("\t", "\\u0009")


def test_no_control_and_no_direction_mark_is_left() -> None:
    every = "".join(chr(n) for n in range(0x10000))
    left = {c for c in one_line(every) if unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs")}
    assert not left
    assert not {c for c in one_line(every) if unicodedata.bidirectional(c) in
                {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}}  # fmt: skip


def test_a_json_document_stays_the_same_document() -> None:
    text = "a\x1b\x7f\x9b\u202e\n\u2028"
    written = printable(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(written) == {text: text}
    assert printable(written) == written


def test_colours_of_an_engine_are_taken_out_and_nothing_else() -> None:
    assert without_colours("\x1b[1;32mok\x1b[0m \x1b[2J\x1b]0;t\x07") == "ok \x1b[2J\x1b]0;t\x07"
