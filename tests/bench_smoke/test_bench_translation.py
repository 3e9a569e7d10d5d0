"""The bench of the translation measures what it says, and says so if something was lost."""

from __future__ import annotations

from pathlib import Path

from bench.translation import codec, door


def test_every_pair_is_measured_and_comes_to_its_end() -> None:
    pairs = codec.pairs(1, pieces=500)
    assert len(pairs) == len(codec.SERVES) * (len(codec.CLIENTS) - 1)
    assert all(min(pair.small, pair.large, pair.event, pair.growth) > 0 for pair in pairs)


def test_no_event_is_lost_through_the_door(tmp_path: Path) -> None:
    rows = door.measure(tmp_path, 1, 3, 10)
    assert [row.client for row in rows] == list(door.CLIENTS)
    assert [(row.lost, row.events) for row in rows] == [(0, 64 * 11)] * len(rows)
