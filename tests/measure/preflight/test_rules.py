"""The rules behind the checks: damage is told from another answer, a rhythm from noise."""

from __future__ import annotations

import random

import pytest

from stoker.measure.preflight.checks.chunks import damage
from stoker.measure.preflight.checks.identity import is_same
from stoker.measure.preflight.checks.repeat import period_of, strangers
from stoker.measure.preflight.checks.unicode import mangled

TEXT = "The sky is blue because air scatters short waves of light more than long ones."
OTHER = "The sky is blue since small molecules send blue light into all directions at noon."


@pytest.mark.parametrize(
    ("flow", "kind"),
    [
        (TEXT, ""),
        (f"\n\n{TEXT} ", ""),
        (OTHER, ""),
        (TEXT[:40], ""),
        (TEXT.replace(" ", ""), "spaces"),
        (TEXT.replace("because ", ""), "lost"),
        (TEXT.replace("air ", "air air "), "doubled"),
        (TEXT.replace("short waves", "waves short"), "order"),
    ],
)
def test_damage_is_told_from_another_answer(flow: str, kind: str) -> None:
    assert damage(flow, TEXT) == kind


def test_answers_of_another_model_part_early_and_on_several_prompts() -> None:
    usual = [(at % 3, f"{TEXT}{at % 3}") for at in range(24)]
    assert strangers(usual) == []
    routed = [(prompt, OTHER[::-1] if at % 5 == 4 else text) for at, (prompt, text) in enumerate(usual)]
    assert strangers(routed) == [4, 9, 14, 19]
    rounded = [(prompt, text[:60] + "other" if at % 6 == 0 else text) for at, (prompt, text) in enumerate(usual)]
    assert strangers(rounded) == []
    one_prompt = [(prompt, OTHER[::-1] if at in (3, 9, 15) else text) for at, (prompt, text) in enumerate(usual)]
    assert strangers(one_prompt) == []
    assert strangers([(at % 3, str(at)) for at in range(24)]) == []


@pytest.mark.parametrize("period", range(2, 9))
def test_a_rhythm_is_found_and_noise_has_none(period: int) -> None:
    slow = set(range(period - 1, 48, period))
    assert period_of(slow, 48) == period
    assert period_of(slow - {min(slow)} | {0}, 48) in (period, 0)
    dice = random.Random(period)
    noise = [set(dice.sample(range(48), 8)) for _ in range(200)]
    assert sum(bool(period_of(one, 48)) for one in noise) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Größe naïve", ""),
        ("Groesse naive", ""),
        ("I will not repeat that.", ""),
        ("Gr??e na?ve", "Gr??e"),
        ("Gre nave", "Gre"),
        ("GrÃ¶Ã\x9fe", "GrÃ¶Ã\x9fe"),
        ("Gr����e", "Gr����e"),
    ],
)
def test_letters_that_were_lost_on_the_way_are_told_from_other_words(text: str, found: str) -> None:
    assert mangled("Größe naïve", text) == found


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("qwen3-8b", True),
        ("/models/Qwen3-8B.gguf", True),
        ("org/qwen3-8b", True),
        ("qwen3-8b-2026-01-01", True),
        ("mistral-7b", False),
    ],
)
def test_a_model_may_be_called_by_its_file_folder_or_version(name: str, same: bool) -> None:
    assert is_same(name, ["qwen3-8b"]) is same
