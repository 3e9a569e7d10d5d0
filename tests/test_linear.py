from __future__ import annotations

import pytest
from tests.linear import assert_linear


def _concatenate(pieces: list[bytes]) -> bytes:
    whole = b""
    for piece in pieces:
        whole += piece  # a copy of all that came before
    return whole


def test_linear_work_passes_and_quadratic_work_does_not() -> None:
    assert_linear(lambda count: [b"x" * 500] * count, b"".join, 2_000)
    with pytest.raises(AssertionError, match="8 times the input costs"):
        assert_linear(lambda count: [b"x" * 500] * count, _concatenate, 2_000)
