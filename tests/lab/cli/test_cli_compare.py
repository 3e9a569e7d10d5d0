"""`stoker eval compare`: what cannot be compared is said, with what to type instead, and nothing is loaded for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker

from stoker.cli.console import options
from stoker.cli.main import run

TIERS = """
[[tier]]
name = "small"
serve = "fast"

[alias.clever]
serve = "slow"

[alias.any]
serves = ["fast", "slow"]

[alias.writer]
serve = "auto:code-write"
"""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("fast", "small"), "are the same serve, 'fast': name two different models"),
        (("fast", "any"), "are the same serve, 'fast': name two different models"),
        (("fast", "slo"), "did you mean 'slow'?"),
        (("fast", "slow", "--for", "colour"), "--for colour: unknown class; known classes: chat"),
        (
            ("fast", "slow", "--for", "chat,vision"),
            "--for vision: it has no fixtures; give some with --suites",
        ),
        (("small", "clever", "--stored"), "there are no stored results of 'fast': drop --stored to measure it"),
    ],
)
def test_what_cannot_be_is_said(
    stoker: FakeStoker, config: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    config.write_text(config.read_text() + TIERS)
    assert run(["eval", "compare", *words]) == 2
    assert why in capsys.readouterr().err
    assert stoker.posts() == []


def test_serves_tiers_and_aliases_of_serves_are_completed(config: Path) -> None:
    config.write_text(config.read_text() + TIERS)
    context: Any = SimpleNamespace(params={"config": str(config)})
    assert options.compared_names(context, "") == ["fast", "slow", "odd", "small", "clever", "any"]
    assert options.compared_names(context, "s") == ["slow", "small"]
