"""The list of slow tests names tests that exist, and the command for them is the one that CI types."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.order import LONGEST
from tests.slow import SLOW, is_slow

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("beginning", SLOW)
def test_what_is_listed_as_slow_exists(beginning: str) -> None:
    path, _, test = beginning.partition("::")
    found = [file for file in ROOT.glob("tests/**/test_*.py") if str(file.relative_to(ROOT)).startswith(path)]
    assert found, "no file begins so"
    assert any(f"def {test}" in file.read_text() for file in found)


@pytest.mark.parametrize("name", LONGEST)
def test_what_begins_first_exists(name: str) -> None:
    assert (ROOT / "tests" / name).is_file()


def test_ci_runs_slow_tests_and_the_default_run_does_not() -> None:
    assert "scripts/test --slow" in (ROOT / ".ci" / "tests").read_text()
    assert 'selected="not heavy and not slow"' in (ROOT / "scripts" / "test").read_text()
    assert is_slow("tests/scenarios/test_web_page.py::test_anything")
    assert not is_slow("tests/test_slow.py::test_ci_runs_slow_tests_and_the_default_run_does_not")
