"""The worker's stream is cut into blocks: by markers, by fences, and by structure where both are forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker_orchestrator.checks.structure import is_complete
from stoker_orchestrator.loop.blocks import MARKER, WorkerBlock, joined
from stoker_orchestrator.loop.cutter import MAX_CHARACTERS, MAX_LINES, Cutter


def cut(*pieces: str) -> list[WorkerBlock]:
    cutter = Cutter(is_complete)
    return [block for piece in pieces for block in cutter.feed(piece)] + cutter.finish()


def test_a_block_ends_at_the_marker() -> None:
    blocks = cut(f"```python\nx = 1\n{MARKER}\ny = 2\n# {MARKER}\n```\n")
    assert [block.text for block in blocks] == ["x = 1\n", "y = 2\n"]
    assert [block.opens_fence for block in blocks] == [True, False]


def test_a_definition_ends_the_one_before_and_takes_its_comments_along() -> None:
    text = "```python\nimport os\n\ndef a():\n    return 1\n\n# about b\n@cache\ndef b():\n    return 2\n```\n"
    assert [block.text for block in cut(text)] == [
        "import os\n\ndef a():\n    return 1\n\n", "# about b\n@cache\ndef b():\n    return 2\n"
    ]  # fmt: skip


def test_a_definition_within_something_that_is_not_complete_ends_nothing() -> None:
    text = '```python\ndef a():\n    return """\ndef b():\n"""\n```\n'
    assert len(cut(text)) == 1


def test_prose_and_code_are_blocks_of_their_own() -> None:
    blocks = cut("Here it is:\n```python\nx = 1\n```\nDone.\n")
    assert [(block.is_code, block.text) for block in blocks] == [
        (False, "Here it is:\n"), (True, "x = 1\n"), (False, "Done.\n")
    ]  # fmt: skip
    assert joined(blocks) == "Here it is:\n```python\nx = 1\n```\nDone.\n"


def test_code_without_a_fence_is_code() -> None:
    blocks = cut(f"def a():\n    return 1\n{MARKER}\ndef b():\n    return 2\n")
    assert [block.is_code for block in blocks] == [True, True]
    assert joined(blocks) == "def a():\n    return 1\ndef b():\n    return 2\n"


def test_a_fence_that_was_never_closed_gives_way_to_the_next_one() -> None:
    blocks = cut(f"```python\nx = 1\n{MARKER}\n```python\ny = 2\n{MARKER}\n```\n")
    assert [block.opens_fence for block in blocks] == [True, True]


def test_a_block_names_its_file_in_the_fence_or_in_its_first_line() -> None:
    assert [block.path for block in cut("```python app/x.py\nx = 1\n```\n")] == ["app/x.py"]
    assert [block.path for block in cut('```python title="app/x.py"\nx = 1\n```\n')] == ["app/x.py"]
    assert [block.path for block in cut("```python:app/x.py\nx = 1\n```\n")] == ["app/x.py"]
    assert [block.path for block in cut("```python\n# file: app/x.py\nx = 1\n```\n")] == ["app/x.py"]
    assert [block.path for block in cut("```python\nx = 1\n```\n")] == [""]


def test_code_that_is_too_long_is_cut_off_and_prose_is_divided() -> None:
    (block,) = cut("```python\n" + "x = 1\n" * (MAX_LINES + 50) + "```\n")
    assert block.is_too_long
    assert cut("```python\n" + "x" * (MAX_CHARACTERS + 1))[0].is_too_long
    prose = cut("a word\n" * (MAX_LINES + 50))
    assert len(prose) == 2
    assert not any(block.is_too_long for block in prose)


LINES = st.sampled_from(
    [
        "```python",
        "```",
        "```js",
        MARKER,
        f"# {MARKER}",
        "x = 1",
        "def f():",
        "    return 1",
        "",
        "class A:",
        "text",
        "~~~",
    ]
)


@given(st.lists(LINES, max_size=30), st.lists(st.integers(1, 12), min_size=1, max_size=40))
def test_how_the_text_arrives_does_not_matter(lines: list[str], sizes: list[int]) -> None:
    text = "\n".join(lines)
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    assert cut(*pieces, text[at:]) == cut(text)
