"""The table about a kept conversation."""

from __future__ import annotations

import pytest
from bench import weights
from bench.swap import report
from bench.swap.conversation import Case, Round, Seen


def _round(back: float, read: int, file: int | None) -> Round:
    return Round(Seen(6.0, 8000, 8000), Seen(0.4, 8020, 20), Seen(back, 8040, read), 0.02, file)


def test_a_kept_conversation_stands_beside_a_lost_one_and_an_unknown_size_is_no_zero() -> None:
    lost = Case("random", False, [_round(7.0, 8040, None), _round(8.0, 8040, None)])
    kept = Case("random", True, [_round(0.7, 40, 33_000_000)])
    head, *rows = report.render_conversations([lost, kept]).splitlines()[2:]
    assert "after a swap and back ms" in head
    assert [cell.strip() for cell in rows[1].split("|")[1:-1]] == [
        "no", "6000.0", "400.0", "7500.0 (7000.0 to 8000.0)", "8040", "20.0", "-",
    ]  # fmt: skip
    assert [cell.strip() for cell in rows[2].split("|")[1:-1]] == [
        "yes", "6000.0", "400.0", "700.0", "40", "20.0", "33.0",
    ]  # fmt: skip


def test_the_long_weights_hold_sixteen_thousand_tokens(tmp_path: object) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "long.gguf"  # type: ignore[operator]
    weights.write_random(path, 1, weights.LONG)
    field = gguf.GGUFReader(path).get_field("llama.context_length")
    assert field.contents() == 16_384
