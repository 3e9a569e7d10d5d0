"""Which layers an orchestrator has, and what an operator is shown at the start."""

from __future__ import annotations

from typing import Any, cast

from stoker_orchestrator.checks.checker import build_checker, check_notes
from stoker_orchestrator.checks.names import Asked
from stoker_orchestrator.orchestrator import CheckLayer, Orchestrator


def test_the_layers_are_those_that_are_configured_cheapest_first() -> None:
    plain = Orchestrator(name="pair", worker="w", check_names=False)
    full = Orchestrator(name="pair", worker="w", checks=("ruff check -",))
    assert build_checker(plain, Asked(), None).layers == (CheckLayer.STRUCTURE,)
    validator = cast(Any, type("Validator", (), {"check": None}))
    assert build_checker(full, Asked(), validator).layers == tuple(CheckLayer)


def test_the_notes_name_commands_that_are_missing_and_what_is_not_judged() -> None:
    notes = check_notes(Orchestrator(name="pair", worker="w", checks=("no-such-linter -",)))
    assert any("no-such-linter" in note for note in notes)
    assert any("`python` is not set" in note for note in notes)
    assert not any("stoker[orchestrator]" in note for note in notes)
