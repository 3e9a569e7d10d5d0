"""The checks as a reader meets them: each in the docs, with what it proves and what it cannot see."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker_lab.preflight.check import PreflightCheck
from stoker_lab.preflight.table import CHECKS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "preflight.md").read_text()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_page_says_of_each_check_what_it_proves_and_what_it_cannot_see(check: PreflightCheck) -> None:
    assert f"| `{check.name}` | {check.proves} | {check.cannot_see} |" in PAGE
