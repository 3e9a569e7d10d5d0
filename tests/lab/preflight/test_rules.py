"""The rules behind the checks: damage is told from another answer, a rhythm from noise."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stoker.domain.answer import Answer
from stoker.domain.prompt import Text
from stoker_lab.preflight.checks.chunks import damage
from stoker_lab.preflight.checks.determinism import part_early
from stoker_lab.preflight.checks.embeddings import has_near, order_flaw
from stoker_lab.preflight.checks.identity import is_same
from stoker_lab.preflight.checks.limits import always_off
from stoker_lab.preflight.checks.logprobs import logprob_flaw
from stoker_lab.preflight.checks.repeat import period_of, strangers
from stoker_lab.preflight.checks.text import is_copied
from stoker_lab.preflight.checks.unicode import mangled, was_cut
from stoker_lab.requests.client import ModelReply
from stoker_lab.requests.timing import RequestTiming

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
    ("flow", "cut"),
    [("Gr��e naïve", True), ("Größe naïve", False), ("Grau wie �", False), ("�", True), ("Größe naïve�", False)],
)
def test_a_letter_that_was_cut_is_told_from_one_that_the_model_broke(flow: str, cut: bool) -> None:
    assert was_cut(flow, "Größe naïve") is cut


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


# -- log probabilities -----------------------------------------------------------------------------------------------


def entry(token: str, logprob: float = -0.1, others: Mapping[str, float] | None = None) -> dict[str, Any]:
    top = {token: logprob} | ({"other": -3.0, "third": -4.0} if others is None else dict(others))
    return {"token": token, "logprob": logprob,
            "top_logprobs": [{"token": name, "logprob": value} for name, value in top.items()]}  # fmt: skip


def with_logprobs(entries: Sequence[dict[str, Any]], text: str = "The sky is blue.", counted: int = 4) -> ModelReply:
    body = {"choices": [{"message": {"content": text}, "logprobs": {"content": list(entries)}}]}
    timing = RequestTiming(0, 0, 0)
    timing.tokens.output = counted
    return ModelReply(timing, Answer("", "", blocks=[Text(text)]), body, [])


TOKENS = ("The", " sky", " is", " blue.")


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([entry(token) for token in TOKENS], ""),
        ([entry(token.replace(" ", "Ġ")) for token in TOKENS], ""),
        ([entry(token, -0.0, {"other": -8.0}) for token in TOKENS], ""),
        ([entry(token, -0.7, {"near": -0.69}) for token in TOKENS], ""),
        ([entry(TOKENS[0], -3.0, {"likelier": -0.1}), *map(entry, TOKENS[1:])], ""),  # a penalty moved one
        ([*map(entry, TOKENS), entry("<|im_end|>")], ""),
        ([entry(token) | {"logprob": None} for token in TOKENS], "form"),
        ([entry(token) | {"logprob": float("nan")} for token in TOKENS], "form"),
        ([entry(token, 0.9) for token in TOKENS], "positive"),
        ([entry(token) | {"top_logprobs": []} for token in TOKENS], "alternatives"),
        ([entry(token) | {"logprob": -2.0} for token in TOKENS], "values"),
        ([entry(token, -0.1, {"other": -0.1, "third": -0.2}) for token in TOKENS], "values"),
        ([entry(token, -3.0, {"likelier": -0.1}) for token in TOKENS], "values"),
        ([entry(TOKENS[0]), *map(entry, TOKENS[:3])], "text"),
        ([entry(TOKENS[0])], "few"),
    ],
)
def test_log_probabilities_that_cannot_be_right_are_told_from_those_that_can(
    entries: Sequence[dict[str, Any]], why: str
) -> None:
    assert logprob_flaw(with_logprobs(entries))[0] == why


def test_equal_log_probabilities_of_a_model_that_is_sure_are_no_fault() -> None:
    for logprob, why in ((0.0, ""), (-0.5, "values")):
        entries = [entry("a", logprob, {"b": -7.0}) for _ in range(8)]
        assert logprob_flaw(with_logprobs(entries, "a" * 8, 8))[0] == why


# -- counts, temperature, thoughts, vectors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("differences", "by"),
    [
        ([0, 0, 0, 0], 0),
        ([1, 1, 1, 1], 1),
        ([-1] * 6, -1),
        ([1, 0, 1, 1], 0),
        ([1, 1, 1], 0),
        ([], 0),
        ([1, 2, 3, 1], 0),
    ],
)
def test_counts_are_off_only_if_all_are_off_alike(differences: Sequence[int], by: int) -> None:
    assert always_off(differences) == by


@pytest.mark.parametrize(
    ("texts", "early"),
    [
        ([TEXT, TEXT, TEXT], False),
        ([TEXT, TEXT, OTHER], False),
        ([TEXT, TEXT[:60] + "another end", TEXT[:50] + "a third end of it"], False),
        ([TEXT, OTHER[::-1], TEXT[::-1]], True),
        ([TEXT[:10] + OTHER, TEXT, TEXT[:6] + TEXT[::-1]], True),
    ],
)
def test_answers_that_all_part_early_are_sampled_and_rounding_parts_late(texts: Sequence[str], early: bool) -> None:
    assert part_early(texts) is early


@pytest.mark.parametrize(
    ("thought", "text", "copied"),
    [
        ("They ask for the sum of 4 and 6.", "They ask for the sum of 4 and 6.\n\n10", True),
        ("They ask for\n the sum of 4 and 6.", "They ask for the sum of 4 and 6. 10", True),
        ("They ask for the sum of 4 and 6.", "10", False),
        ("The answer is 10, I am sure.", "The answer is 10, I am sure.", False),
        ("It is 10.", "It is 10. Anything else?", False),
        ("", "10", False),
    ],
)
def test_a_thought_that_is_said_again_is_told_from_a_short_one(thought: str, text: str, copied: bool) -> None:
    assert is_copied(thought, text) is copied


def test_vectors_of_another_text_are_told_from_vectors_that_vary() -> None:
    axes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert order_flaw(axes, axes) == ("", "")
    assert order_flaw(axes, [axes[1], axes[0], axes[2]])[0] == "order"
    assert order_flaw(axes, [[0.9, 0.4, 0.0], *axes[1:]])[0] == "same"
    assert order_flaw([axes[0]] * 3, [axes[0]] * 3)[0] == "constant"
    rounded = [[value + 1e-4 for value in axis] for axis in axes]
    assert order_flaw(axes, rounded) == ("", "")


def test_a_near_text_is_nearer_than_all_others() -> None:
    assert has_near([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], 0)
    assert not has_near([[1.0, 0.0], [0.5, 0.5], [0.9, 0.2]], 0)
