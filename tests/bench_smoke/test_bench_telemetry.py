"""The bench of telemetry runs, and a request costs nearly nothing more with telemetry off."""

from __future__ import annotations

import pytest
from bench import telemetry


def test_the_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert telemetry.main(["--rounds", "1"]) == 0
    said = capsys.readouterr().out
    assert all(way in said for way in telemetry.WAYS)
    assert "\u00b5s of CPU per request" in said
