"""The gates as a reader meets them: each in the docs, with what it proves and what it cannot see."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.measure.preflight.check import Gate
from stoker.measure.preflight.table import GATES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "preflight.md").read_text()


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_the_page_says_of_each_gate_what_it_proves_and_what_it_cannot_see(gate: Gate) -> None:
    assert f"| `{gate.name}` | {gate.proves} | {gate.cannot_see} |" in PAGE
