"""The bench of sharing runs, and finds what it measures."""

from __future__ import annotations

import asyncio

from bench import sharing


def test_each_part_gives_its_figures() -> None:
    assert all(figure > 0 for figure in sharing.steps(100).values())
    assert sharing.keys(100, 50)["ratio"] > 0
    found = asyncio.run(sharing.fairness(10))
    assert len(found) == 3
