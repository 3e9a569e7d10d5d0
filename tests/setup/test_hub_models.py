"""Which of a repository's files is recommended."""

from __future__ import annotations

import pytest

from stoker_setup.hub_models import Choice, Verdict, best, why_best

GIB = 2**30


def choice(precision: str, size: int, context: int | None, verdict: Verdict = Verdict.FITS) -> Choice:
    return Choice(f"m-{precision}.gguf", size * GIB, precision, verdict, context)


EXPERTS, LAYERS = Verdict.EXPERTS, Verdict.LAYERS


@pytest.mark.parametrize(
    ("choices", "chosen", "why"),
    [
        pytest.param(
            [choice("Q4_K_M", 5, 131_072), choice("Q6_K", 8, 35_840), choice("Q8_0", 11, 6_400)],
            "Q6_K", "at least 32,768 tokens", id="context before bits",
        ),
        pytest.param(
            [choice("Q4_K_M", 5, 131_072), choice("Q8_0", 9, 65_536), choice("F16", 16, 40_000)],
            "Q8_0", "16 bits cost speed", id="16 bits add nothing",
        ),
        pytest.param([choice("Q4_K_M", 5, 40_000), choice("F16", 9, 40_000)], "F16", "the largest", id="no Q8_0"),
        pytest.param([choice("Q4_0", 1, 8192), choice("Q8_0", 2, 8192)], "Q8_0", "the largest", id="a short model"),
        pytest.param(
            [choice("Q2_K", 9, 5_000), choice("Q3_K_S", 10, 2_000), choice("Q6_K", 20, 40_000, LAYERS)],
            "Q2_K", "with the most context", id="layers in main memory are slow",
        ),
        pytest.param(
            [choice("Q4_0", 9, 5_000), choice("Q8_0", 30, 60_000, EXPERTS)],
            "Q8_0", "the largest", id="experts in main memory rather than no context",
        ),
        pytest.param([choice("Q6_K", 20, 9_000, LAYERS)], "Q6_K", "the largest", id="layers where nothing else fits"),
    ],
)  # fmt: skip
def test_the_largest_file_with_enough_context_is_recommended(choices: list[Choice], chosen: str, why: str) -> None:
    found = best(choices)
    assert found is not None
    assert found.precision == chosen
    assert why in why_best(found, choices)


def test_where_nothing_fits_nothing_is_recommended() -> None:
    assert best([]) is None
    assert best([choice("Q8_0", 99, None, Verdict.TOO_LARGE)]) is None
