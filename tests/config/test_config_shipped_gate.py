"""The gate `production` ships: an alias may name it, and a file that has its own keeps that."""

from __future__ import annotations

from collections.abc import Callable

from stoker.domain.access import Settings
from stoker.domain.gate import PRODUCTION

BASE = '[[serve]]\nname = "a"\nmodel = "x.gguf"\n[alias.coder]\nserve = "a"\n'


def test_an_alias_may_name_the_shipped_gate_which_has_seven_conditions(loaded: Callable[[str], Settings]) -> None:
    assert loaded(BASE + 'gate = "production"\n').gates == (PRODUCTION,)
    assert len(PRODUCTION.conditions) == 7
    assert loaded(BASE).gates == (), "nobody asked for it"


def test_a_gate_of_that_name_in_the_file_is_the_one(loaded: Callable[[str], Settings]) -> None:
    [gate] = loaded(BASE + 'gate = "production"\n[gate.production]\nconditions = ["preflight"]\n').gates
    assert [one.text for one in gate.conditions] == ["preflight"]
