"""The bench of large forms runs, and finds that they arrive whole."""

from __future__ import annotations

from bench import uploading


def test_forms_arrive_as_they_should() -> None:
    text, is_reached = uploading.run(8, (1, 2))
    assert text.count("yes") == 2
    assert is_reached
