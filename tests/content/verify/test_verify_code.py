"""Behaviour 46: a snippet is no file. Only what no reading allows is proved wrong."""

from __future__ import annotations

import pytest
from tests.content.verify.expected import proved

from stoker_content.verify.check_code import MAX_NESTING, MAX_PYTHON
from stoker_content.verify.fences import MAX_BLOCK, CodeBlock, Fences


def fenced(label: str, text: str) -> str:
    return f"Here:\n\n```{label}\n{text}\n```\n"


@pytest.mark.parametrize(
    "text",
    [
        "    def f(self):\n        return 1",
        "!pip install x\nimport x\nf(",
        "%matplotlib inline\nimport x\nf(",
        "import x\nf(a, ...\n",
        "import x\nd = {'a': 1, …",
        ">>> import x\n>>> f(",
        "f(1, 2",
        "print 'a'\nimport x",
        "def f(a, b)",
        "def f():\n    # later",
        "import x\n    return 1\nelse:\n  x",
        "def first[T](items: list[T]) -> T:\n    return items[0]",
        "import re\nx = re.compile('\\d')",
        'import x\nv = f"{d["a"]}" + f\'{x["("]}\'',
        "import x\nx = \x00",
        "import a\n" + "x = (\n" * (MAX_NESTING + 2),
        "import a\n" + "x = 1\n" * (MAX_PYTHON // 6) + "f(",
    ],
)
def test_a_snippet_of_python_is_not_failed(text: str) -> None:
    assert proved(fenced("python", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import x\nf(1, 2",
        "import x\nf(1, 2))",
        "import x\nf([1, 2)]",
        "def f():\n    return 'a",
        'def f():\n    """text\n    return 1',
        "def total(self -> int:\n    return 1",
        'import x\ny = f"{label}: {77"',
        'import x\ny = f"label}"',
        "    import x\n    f(1",
    ],
)
def test_python_whose_brackets_or_strings_do_not_end_is_wrong(text: str) -> None:
    assert proved(fenced("python", text)) == ["python"]
    assert proved(fenced("js", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{\n  "a": 1,\n  ...\n}',
        "[1, …]",
        '{"a": 1} // it is "so',
        '{"a": <number>}',
        '{"a": 1,}',
        '{"a": 1}\n\n{"b": 2}',
        '"a": {"b": "}"}',
        "",
        "[" * 5000 + "]" * 5000,
    ],
)
def test_json_that_is_shortened_or_annotated_is_not_failed(text: str) -> None:
    assert proved(fenced("json", text)) == []


@pytest.mark.parametrize(
    "text", ['{"a": {"b": 1}', '{"a: 1}', '{"a": "http://x" "b"}', '"a": 1}', "[1 2]", '{"a": "x}']
)
def test_json_that_no_reading_allows_is_wrong(text: str) -> None:
    assert proved(fenced("json", text)) == ["json_fence"]


HUNK = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@ def f\n a\n-b\n+c\n d"


@pytest.mark.parametrize(
    "text",
    [
        HUNK,
        HUNK + "\n" + HUNK,
        HUNK + "\n\\ No newline at end of file",
        HUNK + "\n\n",
        HUNK + "\n-- \n2.43.0",
        HUNK + "\ndiff --git a/g b/g\nindex 1..2\n" + HUNK,
        "@@ -1 +1 @@\n-a\n+b",
        "@@ -0,0 +1,2 @@\n+a\n+",
        "@@ -1,3 +1,3 @@\n a\n\n-b\n+c",
        "@@ -1,9 +1,9 @@\n a\n ...\n-b\n+c",
        "@@ -1,3 +1,3 @@\n a\n-- b\n+++ c\n d",
        "@@ def f\n-a",
        "- a\n+ b",
        "",
    ],
)
def test_a_hunk_that_is_as_long_as_it_says_passes(text: str) -> None:
    assert proved(fenced("diff", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        HUNK.removesuffix("\n d"),
        HUNK.replace("-b\n", ""),
        HUNK + "\n+e",
        HUNK + "\n e",
        HUNK.replace(" a\n", "") + "\n" + HUNK,
        HUNK.replace("+c\n", "") + "\ndiff --git a/g b/g",
        HUNK.replace("\n d", "\n@@ -9 +9 @@\n-x\n+y"),
    ],
)
def test_a_hunk_that_is_shorter_or_longer_than_its_header_says_is_wrong(text: str) -> None:
    assert proved(fenced("diff", text)) == ["diff"]
    assert proved(fenced("text", text)) == []


def blocks(text: str) -> list[CodeBlock]:
    fences = Fences()
    return [block for line in text.split("\n") if (block := fences.line(line)) is not None]


def test_blocks_know_their_label_and_lose_the_indent_of_their_fence() -> None:
    assert blocks('  ```Python title="x"\n    a\n b\n  ```') == [CodeBlock("python", "  a\nb\n")]
    assert blocks("```\na\n```\n~~~js\nb\n~~~~") == [CodeBlock("", "a\n"), CodeBlock("js", "b\n")]


def test_a_block_with_fences_in_it_or_a_very_long_one_is_not_judged() -> None:
    assert blocks("```markdown\n```python\nx\n```") == []
    assert blocks("````\n```\n````") == []
    assert blocks("```\n" + ("x" * 1000 + "\n") * (MAX_BLOCK // 1000 + 2) + "```") == []


def test_inline_code_opens_no_block() -> None:
    assert blocks("```x``` is code\nb\n```") == []
