"""Programs: what of an answer is the code, and what its run in the sandbox means. Pure; `run` is handed in."""

from __future__ import annotations

import re
from collections.abc import Callable

from stoker.domain.answer import Answer
from stoker_lab.suites.check_kinds import CodeCheck
from stoker_lab.suites.checkers.plain_text import PASSED, Grade, answer_text
from stoker_lab.suites.sandbox.sandbox import SandboxOutcome, SandboxResult

RunProgram = Callable[[str, str], SandboxResult]
"""(code, tests): `sandbox.run_program`."""
_FENCE = re.compile(r"^[ \t]*```([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


class CheckBroken(Exception):
    """The check could not be made: it says nothing about the model."""


def find_program(check: CodeCheck, text: str) -> str:
    """1. the first fence that defines what was asked for  2. the longest fence  3. the whole text."""
    found: list[str] = [
        body for language, body in _FENCE.findall(text) if language.lower() in ("", "python", "py", "python3")
    ]
    wanted = re.compile(rf"^\s*(?:async\s+def|def|class)\s+{re.escape(check.entry)}\b", re.MULTILINE)
    defining = [body for body in found if wanted.search(body)]
    return (defining or sorted(found, key=len, reverse=True) or [text])[0]


def check_code(check: CodeCheck, answer: Answer, run: RunProgram) -> Grade:
    """Raises CheckBroken: the sandbox could not run it."""
    ran = run(find_program(check, answer_text(answer)), check.tests)
    if ran.end is SandboxOutcome.BROKEN:
        raise CheckBroken(ran.message)
    return PASSED if ran.end is SandboxOutcome.PASSED else Grade(False, ran.message)
