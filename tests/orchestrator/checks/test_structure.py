"""The structure layer: what does not parse fails with its line; what cannot be judged passes; nothing hangs."""

from __future__ import annotations

import asyncio
import time

import pytest

from stoker_orchestrator.checks.checker import StructureChecker
from stoker_orchestrator.checks.structure import is_complete
from stoker_orchestrator.checks.syntax_tree import SHORT
from stoker_orchestrator.loop.blocks import LayerResult, WorkerBlock
from stoker_orchestrator.orchestrator import Unchecked


def structure_of(text: str, language: str = "", *, is_code: bool = True) -> LayerResult:
    return asyncio.run(StructureChecker(Unchecked.COMMIT).check(WorkerBlock(text, is_code, language), ()))


RIGHT = [
    ("python", "def f():\n    return 1\n"),
    ("javascript", "export function f(a) {\n  return a.map((x) => `${x}`);\n}\n"),
    ("ts", "interface A {\n  x: number;\n}\n"),
    ("tsx", "export const A = () => <b>x</b>;\n"),
    ("go", "func f() int { return 1 }\n"),
    ("rust", "fn f() -> i32 { 1 }\n"),
    ("java", "public int f() { return 1; }\n"),
    ("csharp", "public int F() { return 1; }\n"),
    ("c", "int f(void) { return 1; }\n"),
    ("cpp", "template <typename T> T f(T x) { return x; }\n"),
    ("ruby", "def f\n  1\nend\n"),
    ("php", "function f() { return 1; }\n"),
    ("bash", "f() { echo hi; }\n"),
]


@pytest.mark.parametrize(("language", "text"), RIGHT)
def test_what_parses_passes_and_is_complete(language: str, text: str) -> None:
    assert structure_of(text, language).passed
    assert is_complete(language, text)


@pytest.mark.parametrize(
    ("language", "text", "line"),
    [
        ("python", "def f():\n    return (1\n", 2),
        ("javascript", "function f() {\n  return 1\n", 2),
        ("go", "func f( int { return 1 }\n", 1),
        ("rust", "fn f() -> i32 {\n    let x = ;\n    1\n}\n", 2),
        ("php", "function f() {\n  return 1 }\n", 2),
        ("bash", "if true; then\n  echo\n", 3),
        ("json", '{"a": 1,\n"b" 2}\n', 2),
    ],
)
def test_what_does_not_parse_fails_with_its_line(language: str, text: str, line: int) -> None:
    result = structure_of(text, language)
    assert not result.passed
    assert result.reason.startswith(f"line {line}: ")
    assert result.correction.startswith(result.reason)
    assert not is_complete(language, text)


def test_a_language_without_a_grammar_is_not_judged() -> None:
    assert structure_of("][ ( anything", "brainfuck").passed
    assert not is_complete("brainfuck", "][")


def test_a_statement_alone_is_no_complete_block() -> None:
    assert not is_complete("javascript", "const x = 1;\n")
    assert not is_complete("go", "package main\n")


def test_an_empty_block_and_one_that_is_too_long_fail() -> None:
    assert not structure_of("  \n", "javascript").passed
    assert not structure_of("x = 1\n" * 20_000, "python").passed


@pytest.mark.parametrize("language", ["c", "javascript", "php"])
@pytest.mark.parametrize("unit", ["x=>", "(", "`${", "a ? "])
def test_hostile_text_is_bounded_in_time(language: str, unit: str) -> None:
    began = time.monotonic()
    assert not structure_of(unit * (20_000 // len(unit)), language).passed
    assert time.monotonic() - began < 7


def test_only_short_texts_are_parsed_where_the_loop_runs() -> None:
    text = "int f(void) { return 1; }\n"
    assert not is_complete("c", text * (SHORT // len(text) + 1))


def test_prose_fails_if_it_repeats_itself_or_says_nothing() -> None:
    assert structure_of("Here is the plan.\n", is_code=False).passed
    assert structure_of("---\n", is_code=False).passed
    looping = structure_of("First.\n" + "and so on, and so on, and again " * 20, is_code=False)
    assert not looping.passed
    assert "repeats itself" in looping.reason
    assert not structure_of("\ufffd\ufffd ?!\n", is_code=False).passed


def test_a_cancelled_check_leaves_no_process() -> None:
    async def story() -> None:
        check = asyncio.get_running_loop().create_task(
            StructureChecker(Unchecked.COMMIT).check(WorkerBlock("x=>" * 20_000, True, "c"), ())
        )
        await asyncio.sleep(0.05)
        check.cancel()
        with pytest.raises(asyncio.CancelledError):
            await check

    asyncio.run(story())


# -- what nothing understands ----------------------------------------------------------------------------------------


def checked(language: str, unchecked: Unchecked) -> LayerResult:
    block = WorkerBlock("SELEKT * FORM users;\n", True, language)
    return asyncio.run(StructureChecker(unchecked).check(block, ()))


@pytest.mark.parametrize("language", ["sql", "kotlin", "code", "made-up"])
def test_code_that_no_check_understands_is_refused_and_called_unchecked(language: str) -> None:
    result = checked(language, Unchecked.REFUSE)
    assert not result.passed
    assert result.reason.startswith("unchecked: ")
    allowed = checked(language, Unchecked.COMMIT)
    assert allowed.passed
    assert allowed.reason.startswith("unchecked: ")


@pytest.mark.parametrize("language", ["", "markdown", "csv", "yaml"])
def test_documents_need_nobody_who_understands_them(language: str) -> None:
    assert checked(language, Unchecked.REFUSE).passed
