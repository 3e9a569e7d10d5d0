# ruff: noqa: E501 - a table of answers reads better unbroken
"""Each kind of check: what passes, what does not, and what is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.suites.answering import block, calls, text

from stoker.domain.answer import Answer, StopReason
from stoker.domain.prompt import ToolCall
from stoker_lab.suites import check_kinds
from stoker_lab.suites.checkers.code import CheckBroken, find_program
from stoker_lab.suites.checkers.table import CHECKERS, check_answer
from stoker_lab.suites.sandbox.sandbox import SandboxOutcome, SandboxResult


def nothing_runs(code: str, tests: str) -> SandboxResult:
    raise AssertionError("no program here")


def made(**fields: Any) -> check_kinds.FixtureCheck:
    return msgspec.convert(fields, check_kinds.FixtureCheck)


def passes(check: check_kinds.FixtureCheck, answer: Answer | str) -> bool:
    return check_answer(check, text(answer) if isinstance(answer, str) else answer, nothing_runs).passed


def told(check: check_kinds.FixtureCheck, answer: Answer | str) -> str:
    return check_answer(check, text(answer) if isinstance(answer, str) else answer, nothing_runs).reason


def test_every_kind_has_its_function() -> None:
    assert set(CHECKERS) == set(check_kinds.PureCheck.__args__)


TOOL = {"kind": "calls", "calls": [{"name": "look", "arguments": {"at": "Rome", "n": 2}}]}
ROWS: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    (
        TOOL,
        [calls(("look", {"n": 2, "at": "Rome"})), calls(("look", {"at": "Rome", "n": 2.0}), said="I look.")],
        [
            calls(), "look(Rome, 2)", calls(("look", {"at": "Rome"})), calls(("look", {"at": "rome", "n": 2})),
            calls(("look", {"at": "Rome", "n": 2, "x": 1})), calls(("see", {"at": "Rome", "n": 2})),
            calls(("look", {"at": "Rome", "n": 2}), ("look", {"at": "Rome", "n": 2})),
            calls(("look", {"at": "Rome", "n": True})), Answer("1", "m", [ToolCall("1", "look", "{oops")]),
        ],
    ),
    (
        {"kind": "calls", "calls": [{"name": "f", "arguments": {"a": "x"}, "subset": True, "fold": True}, {"name": "g"}]},
        [calls(("g", {}), ("f", {"a": "X", "b": 1})), calls(("f", {"a": "x"}), ("g", {}))],
        [calls(("f", {"a": "x"})), calls(("f", {"a": "x"}), ("g", {"y": 1})), calls(("f", {"a": "x"}), ("f", {"a": "x"}))],
    ),
    (
        {"kind": "abstain"},
        ["Hello!"],
        ["", calls(("f", {})), calls(("f", {}), said="Hello!"), '<tool_call>\n{"name": "f"}\n</tool_call>'],
    ),
    (
        {"kind": "json", "values": {"a": 1, "b": [True, None]}},
        ['{"a": 1, "b": [true, null], "c": 2}', '```json\n{"b": [true, null], "a": 1.0}\n```', 'So:\n```\n{"a":1,"b":[true,null]}\n```'],
        ['{"a": 1}', '{"a": true, "b": [true, null]}', '{"a": 1, "b": [true]}', "a is 1", '[1]', '{"a": NaN, "b": []}', ""],
    ),
    (
        {"kind": "json", "values": {"a": {"b": 1}}, "exact": True},
        ['{"a": {"b": 1}}'],
        ['{"a": {"b": 1}, "c": 2}', '{"a": {"b": 1, "c": 2}}', '{"a": 1}'],
    ),
    ({"kind": "json", "schema": {"type": "object", "required": ["x"]}}, ['{"x": null}'], ["{}", "[]"]),
    (
        {"kind": "number", "value": "1234"},
        ["1234", "1,234.", "17 + 1217 = 1234", "It is **1234** (of 2000).", "\\boxed{1,234} and 5", "1234\n\nThat is 5.", "1234.0"],
        ["", "1235", "1234 or 1235", "none", "-1234", "1.234"],
    ),
    ({"kind": "number", "value": "-3"}, ["-3", "The result is \u22123."], ["3", "10-3"]),
    (
        {"kind": "copy", "text": "Zürich 42"},
        ["Zürich 42", " Zürich 42.\n", '"Zürich 42"', "'Zürich 42.'", "Zu\u0308rich 42"],
        ["zürich 42", "Zürich  42", "Sure: Zürich 42", "Zurich 42", ""],
    ),
    (
        {"kind": "exact", "values": ["Anna", "no one"]},
        ["Anna", "**Anna**.", "I think so.\nAnswer: anna", "**Answer:** No one\nBye", "Answer: Bob\nAnswer: Anna"],
        ["Anna or Bob", "Answer: Bob", "", "Answer: Anna and Bob"],
    ),
    (
        {"kind": "contains", "all": ["1", "2", "10"], "none": ["11"], "ordered": True},
        ["1, 2 and 10", "1 2 3 10"],
        ["10 2 1", "1 2", "1 2 10 11", "12 10"],
    ),
    ({"kind": "contains", "any": ["hi", "good day"]}, ["Hi!", "a GOOD  DAY"], ["this", "high", ""]),
    ({"kind": "needle", "value": "elm-7", "decoys": ["oak-1"]}, ["elm-7", "It is Elm-7."], ["elm-77", "oak-1", "elm-7 or oak-1", ""]),
    (
        {"kind": "facts", "facts": [["1200", "1,200"], ["Rome"], ["Ada"]], "least": 2},
        ["Ada had 1,200", "rome 1200 ada"],
        ["Ada", "Ada in Romeo", ""],
    ),
    (
        {"kind": "line", "line": 3, "of": 8},
        ["line 3", "3", "Line 3 has it: `x < 10`.", "**Line: 3**", "line 3, since line 3 is wrong"],
        ["line 4", "line 3 or line 4", "", "30", "line 13"],
    ),
    ({"kind": "format", "bullets": 2, "lines": 2}, ["- a\n- b", "* a\n\n* b"], ["- a", "- a\n- b\nc", "-a\n-b"]),
    ({"kind": "format", "numbered": 2}, ["1. a\n2. b", "1) a\n2) b"], ["1. a", "a\nb"]),
    ({"kind": "format", "case": "upper"}, ["HI, YOU 2"], ["Hi", "", "12"]),
    ({"kind": "format", "case": "lower", "max_words": 2, "min_words": 2}, ["hi you"], ["hi", "hi you all", "Hi you"]),
    ({"kind": "format", "starts": "Well", "ends": "bye."}, ["well, bye."], ["so, bye.", "well, bye"]),
    ({"kind": "format", "sentences": 2, "must": ["cat"], "must_not": ["dog"]}, ["A cat. Ha!"], ["A cat.", "A hat. Ha!", "A cat. A dog."]),
    ({"kind": "format", "paragraphs": 2}, ["a\nb\n\nc"], ["a\n\n \n", "a\n\nb\n\nc"]),
    (
        {"kind": "edit", "source": "a\nb\nc\nb\n", "wanted": "a\nB\nc\nb\n"},
        [block("a\nb", "a\nB"), "Sure:\n```\n" + block("a  \nb", "a\nB") + "```", block("a", "x") + block("x\nb", "a\nB")],
        [block("b", "B"), block("d", "B"), block("", "B"), "a\nB\nc\nb", "<<<<<<< SEARCH\na\n=======\n", block("a", "A"), ""],
    ),
    (
        {"kind": "plan", "least": 2, "most": 3, "mentions": [["disk", "drive"]], "order": [["stop", "start"]]},
        ["1. Stop the disk.\n2. Start it.", "# Plan\n**1. Stop** it\n   1. look at the drive\n**2. Start it**", "Step 1: stop\nStep 2: start the drive"],
        [
            "1. Stop the disk.", "1. Start the disk.\n2. Stop it.", "1. Stop it.\n2. Start it.",
            "1. Stop the disk.\n3. Start it.", "1. The disk.\n2. Stop it.\n3. Start it.", "Stop, then start the disk.",
            "1. Stop the disk.\n2. Stop the disk.\n3. Start it.", "1. stop disk\n2. start\n3. look\n4. end", "",
        ],
    ),
    ({"kind": "plan", "least": 1, "verbs": ["bake"]}, ["1. Baking bread", "1. It is baked"], ["1. Cook it"]),
    (
        {"kind": "all", "checks": [{"kind": "copy", "text": "a"}, {"kind": "format", "max_words": 1}]},
        ["a"],
        ["b", "a a"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "right", "wrong"), ROWS, ids=lambda value: value["kind"] if isinstance(value, dict) else ""
)
def test_a_check_passes_the_right_and_fails_the_wrong(
    check: dict[str, Any], right: list[Any], wrong: list[Any]
) -> None:
    read = made(**check)
    assert [answer for answer in right if not passes(read, answer)] == []
    assert [answer for answer in wrong if passes(read, answer)] == []
    assert all(told(read, answer) for answer in wrong)


def test_an_answer_that_was_cut_off_is_wrong_whatever_it_says() -> None:
    check = made(kind="contains", all=["yes"])
    assert passes(check, text("yes"))
    assert told(check, text("yes", StopReason.LENGTH)) == "the answer was cut off"
    assert told(check, text("yes", StopReason.CONTEXT)) == "the context was full"


@pytest.mark.parametrize("fields", [row[0] for row in ROWS], ids=lambda fields: fields["kind"])
@given(said=st.text(alphabet=st.sampled_from("ab1 2.\n-*`{}[]\"'<>=#:,SEARCH REPLACEstepline\\bxed"), max_size=60))
def test_no_text_breaks_a_check(fields: dict[str, Any], said: str) -> None:
    grade = check_answer(made(**fields), text(said), nothing_runs)
    assert grade.passed or grade.reason


def test_a_check_that_crashes_is_broken_and_no_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(check: check_kinds.CheckKind, answer: Answer) -> Any:
        raise ZeroDivisionError("oh")

    monkeypatch.setitem(CHECKERS, check_kinds.CopyCheck, crash)  # type: ignore[arg-type]
    for check in (made(kind="copy", text="a"), made(kind="all", checks=[{"kind": "copy", "text": "a"}])):
        with pytest.raises(CheckBroken, match="ZeroDivisionError: oh"):
            passes(check, "a")


def test_a_schema_with_a_keyword_that_nobody_knows_is_a_broken_check() -> None:
    with pytest.raises(CheckBroken, match="KeyError"):
        passes(made(kind="json", schema={"type": "odd"}), "{}")


CODE = check_kinds.CodeCheck("f", "assert f() == 1")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("def f(): return 1", "def f(): return 1"),
        ("So:\n```python\ndef f(): return 1\n```\nUse it:\n```python\nprint(f())\n```", "def f(): return 1\n"),
        ("```\nx = 1\n```\n```py\nasync def f():\n    pass\n```", "async def f():\n    pass\n"),
        ("```python\ndef g(): pass\n```\n```\nshort\n```", "def g(): pass\n"),
        ("```json\n{}\n```\n```python\ndef f(): return 1", "def f(): return 1"),
    ],
)
def test_the_program_is_the_fence_that_defines_what_was_asked_for(said: str, wanted: str) -> None:
    assert find_program(CODE, said) == wanted


def test_a_run_is_a_grade_and_a_broken_sandbox_is_none() -> None:
    ends = {SandboxOutcome.PASSED: True, SandboxOutcome.FAILED: False}
    for end, passed in ends.items():
        grade = check_answer(
            CODE, text("def f(): return 1"), lambda code, tests, end=end: SandboxResult(end, "so it is")
        )
        assert (grade.passed, grade.reason) == (passed, "" if passed else "so it is")
    with pytest.raises(CheckBroken, match="no room"):
        check_answer(
            CODE, text("def f(): return 1"), lambda code, tests: SandboxResult(SandboxOutcome.BROKEN, "no room")
        )
