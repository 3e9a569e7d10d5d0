"""The gates as a reader meets them: each in the docs, with what it proves and what it cannot see."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.measure.preflight.check import PreflightCheck
from stoker.measure.preflight.table import CHECKS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "preflight.md").read_text()


@pytest.mark.parametrize("gate", CHECKS, ids=lambda gate: gate.name)
def test_the_page_says_of_each_gate_what_it_proves_and_what_it_cannot_see(gate: PreflightCheck) -> None:
    assert f"| `{gate.name}` | {gate.proves} | {gate.cannot_see} |" in PAGE
