"""A prompt that leaves room in the context fits, whatever output is asked for."""

from __future__ import annotations

import pytest

from stoker.domain.errors import ClientError
from stoker.request.decide.context import TEMPLATE_ALLOWANCE, check_context, may_exceed


@pytest.mark.parametrize(
    ("context", "size", "budget", "asks"),
    [(None, 10**9, 10**9, False), (1000, 1000 - TEMPLATE_ALLOWANCE - 1, None, False),
     (1000, 1000 - TEMPLATE_ALLOWANCE, None, True), (1000, 644, 100, False), (1000, 645, 100, True),
     (1000, 744, 0, True), (1000, 10, 10**400, True)],
)  # fmt: skip
def test_the_engine_is_asked_only_when_bytes_leave_room_for_doubt(
    context: int | None, size: int, budget: int | None, asks: bool
) -> None:
    assert may_exceed(context, size, budget) is asks


@pytest.mark.parametrize(("prompt", "budget"), [(90, 10), (91, 10), (99, None), (99, 10**400), (99, -5), (0, 100)])
def test_a_prompt_that_fits_leaves_room_for_the_answer(prompt: int, budget: int | None) -> None:
    assert check_context("serve 's'", 100, prompt, budget) == 100 - prompt


@pytest.mark.parametrize(
    ("prompt", "budget", "text"),
    [
        (100, 10, "100 prompt + 10 output"),
        (100, None, "at least 1 output"),
        (100, 0, "at least 1 output"),
        (101, None, "101"),
    ],
)
def test_a_prompt_that_leaves_no_room_is_refused_with_the_figures(prompt: int, budget: int | None, text: str) -> None:
    with pytest.raises(ClientError, match="context of serve 's'") as caught:
        check_context("serve 's'", 100, prompt, budget)
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    assert text in caught.value.message
