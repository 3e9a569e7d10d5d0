"""What tests/slow.py and tests/order.py list exists, and CI runs the slow tests."""

from __future__ import annotations

from pathlib import Path

from tests.order import LONGEST
from tests.slow import HEAVY, SLOW, is_slow

ROOT = Path(__file__).parents[1]


def test_what_is_listed_exists() -> None:
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []
    files = [str(file.relative_to(ROOT)) for file in ROOT.glob("tests/**/test_*.py")]
    for beginning in (*SLOW, *HEAVY):
        path, _, test = beginning.partition("::")
        assert any(f"def {test}" in (ROOT / file).read_text() for file in files if file.startswith(path)), beginning


def test_ci_runs_slow_tests_and_the_default_run_does_not() -> None:
    assert "scripts/test --slow" in (ROOT / ".ci" / "tests").read_text()
    assert 'selected="not heavy and not slow"' in (ROOT / "scripts" / "test").read_text()
    assert is_slow("tests/scenarios/test_web_page.py::test_anything")
    assert not is_slow("tests/test_slow.py::test_ci_runs_slow_tests_and_the_default_run_does_not")
