"""The bench of the verification rejects next to nothing that is clean, and catches next to every fault."""

from __future__ import annotations

import json

import pytest
from bench.verifier.__main__ import main
from bench.verifier.clean import KINDS, cases
from bench.verifier.faults import FAULTS
from bench.verifier.report import measure


def test_every_kind_and_every_fault_is_measured_and_within_its_bound() -> None:
    report = measure(3, 4 * len(KINDS), 4)
    assert [row.kind for row in report.clean] == list(KINDS)
    assert [(row.kind, row.n) for row in report.faults] == [(name, 4) for name in FAULTS]
    assert report.rejected[0] == 0
    assert report.caught[0] >= report.caught[1] - 1


def test_the_same_seed_gives_the_same_cases() -> None:
    assert cases(5, 60) == cases(5, 60)
    assert cases(5, 60) != cases(6, 60)


def test_it_prints_tables_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--n", "28", "--each", "1", "--missed"]) == 0
    assert "| clean" in capsys.readouterr().out
    assert main(["--n", "28", "--each", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 1
