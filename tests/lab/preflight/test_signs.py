"""Damage is seen, and plain text is left alone."""

from __future__ import annotations

import pytest

from stoker_lab.preflight import text_damage

PLAIN = (
    "Bread is made from flour, water, salt and yeast. The dough is kneaded until it is smooth, rests until it has "
    "doubled, is shaped, rests again, and then bakes in a hot oven. A good crust needs steam. The café's loaf — “pain "
    "de campagne” — costs 4 € (naïve, but 100 % true): it keeps for a week.\n\n1. Mix.\n2. Wait.\n3. Bake."
)


def test_plain_text_has_no_sign_of_damage() -> None:
    assert text_damage.damage(PLAIN) == ("", "")
    assert text_damage.damage(" ".join(str(n) for n in range(200))) == ("", "")
    assert text_damage.leaked_token(PLAIN) == ""
    assert text_damage.damage("Привет, как дела сегодня?", is_english=False) == ("", "")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" \n", "empty"),
        (PLAIN[:80] + "�" + PLAIN[80:], "replacement"),
        (PLAIN[:80] + "\x00\x01\x02" + PLAIN[80:], "control"),
        (PLAIN[:80] + " 你好 " + PLAIN[80:], "script"),
        (PLAIN[:80] + " ครับ " + PLAIN[80:], "script"),
        ("So it goes. " + "one two three " * 6, "loop"),
        ("well " * 30, "loop"),
        ("ab" * 400, "entropy"),
    ],
)
def test_damage_has_a_kind(text: str, kind: str) -> None:
    assert text_damage.damage(text)[0] == kind


@pytest.mark.parametrize(
    "text", ["Hi<|im_end|>", "a</think>b", "<tool_call>", "[INST] x", "<end_of_turn>", "<|eot_id|>", "◁think▷", "x</s>"]
)
def test_what_a_client_must_not_see_is_found(text: str) -> None:
    assert text_damage.leaked_token(text)


def test_a_list_that_begins_alike_is_no_loop() -> None:
    assert (
        text_damage.repeated_words("The cat sat. The cat ran. The cat ate. The dog slept on the mat for a while.")
        is None
    )
