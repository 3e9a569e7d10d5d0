"""The fixtures in the package: enough of them, made by their script, and each can be passed and failed."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run

import pytest
from tests.lab.suites.answering import right, text

from stoker.domain.task import CLASSES
from stoker_lab.canary.questions import TINY
from stoker_lab.suites import check_kinds, fixture
from stoker_lab.suites.checkers.table import check_answer
from stoker_lab.suites.sandbox import sandbox
from stoker_lab.suites.sandbox.sandbox import SandboxOutcome

ROOT = Path(__file__).resolve().parents[3]
UNCHECKABLE = {"creative", "multi-file-refactor", "vision"}
EVERY = fixture.all_shipped_fixtures()
sys.path.append(str(ROOT / "scripts"))


def test_the_files_are_what_the_script_makes() -> None:
    done = run([sys.executable, ROOT / "scripts" / "suites.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("wording", ["assistant", "tiny"])
def test_each_class_that_a_machine_can_check_has_sixty_different_questions(wording: str) -> None:
    found = fixture.by_class(fixture.shipped_fixtures(wording))
    assert list(found) == [name for name in CLASSES if name not in UNCHECKABLE]
    assert {len({str(one.request) for one in own}) for own in found.values()} == {60}


def test_the_models_in_the_package_are_asked_in_the_words_that_they_know() -> None:
    assert {fixture.wording_for(model) for model in TINY} == {"tiny"}
    assert fixture.wording_for("sha256:0") == "assistant"
    own = {one.task_class for one in fixture.shipped_fixtures("tiny") if one.id.startswith("tiny-")}
    assert own == {"chat", "planning", "tool-use", "json-extract", "long-context", "math-short"}


def test_texts_fit_a_context_of_two_thousand_tokens() -> None:
    """A token is hardly ever less than three characters of English for a usual tokenizer; ember's has its own test."""
    sizes = [len(one.request["messages"][-1].get("content") or "") for one in fixture.shipped_fixtures()]
    assert max(sizes) < 3 * 2048


SAYABLE = fixture.by_class(one for one in EVERY if not isinstance(one.check, check_kinds.CodeCheck))


@pytest.mark.parametrize("task_class", SAYABLE)
def test_each_fixture_passes_a_right_answer_and_fails_others(task_class: str) -> None:
    """A refusal is well formed where only the form counts, and no call where none is wanted."""
    for one in SAYABLE[task_class]:
        grade = check_answer(one.check, right(one.check), sandbox.run_program)
        assert grade.passed, (one.id, grade.reason)
        assert not check_answer(one.check, text(""), sandbox.run_program).passed, one.id
        refusal = check_answer(one.check, text("Sorry, I do not know that."), sandbox.run_program)
        assert not refusal.passed or isinstance(one.check, check_kinds.AbstainCheck | check_kinds.FormatCheck), one.id


def test_the_functions_that_code_is_asked_for_pass_their_tests_and_their_bugs_do_not() -> None:
    """In groups, so that a few programs do for all: each bug has to be found by the tests of its function."""
    from fixtures.coding import filled, tests
    from fixtures.programs import ROWS

    right_ones, bugs = [], []
    for row in ROWS:
        for number in row.numbers:
            code, asked = filled(row.code, number), tests(row, number)
            right_ones.append(code + asked)
            bugs.append((f"{row.name}, the other number", filled(row.code, sum(row.numbers) - number) + asked))
            for good, bad in row.bugs:
                good, bad = filled(good, number), filled(bad, number)
                assert code.count(good) == 1, (row.name, good)
                bugs.append((row.name, code.replace(good, bad) + asked))
    for at in range(0, len(right_ones), 12):
        ran = sandbox.run_program("\n".join(right_ones[at : at + 12]), "")
        assert ran.end is SandboxOutcome.PASSED, ran.message
    finding = (
        "import sys\nclass Late(Exception): pass\nlate = []\ndef watch(frame, event, arg):\n    late.append(1)\n"
        "    if len(late) > 20000: raise Late\n    return watch\nsurvivors = []\nfor name, text in BUGS:\n"
        "    late.clear()\n    sys.settrace(watch)\n    try: exec(text, {})\n    except Exception: pass\n"
        "    else: survivors.append(name)\n    finally: sys.settrace(None)\nassert not survivors, survivors\n"
    )
    for at in range(0, len(bugs), 15):
        ran = sandbox.run_program(finding.replace("BUGS", repr(bugs[at : at + 15])), "")
        assert ran.end is SandboxOutcome.PASSED, ran.message


def test_written_code_is_graded_by_running_it() -> None:
    from fixtures.coding import filled
    from fixtures.programs import ROWS

    asked = {(one.check.entry, one.check.tests): one for one in EVERY if isinstance(one.check, check_kinds.CodeCheck)}
    assert len(asked) == 60
    row = ROWS[0]
    entry, check = next((entry, one.check) for (entry, _), one in asked.items() if entry == row.name)
    programs = [filled(row.code, number) for number in row.numbers]
    passed = [
        check_answer(check, text(f"Here it is:\n```python\n{program}```\n"), sandbox.run_program).passed
        for program in programs
    ]
    assert (entry, sorted(passed)) == ("sum_above", [False, True])
