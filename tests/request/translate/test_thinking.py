"""Signatures: Stoker knows what it signed, and nothing else passes for it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.prompt import Reasoning
from stoker.request.translate.neutral.thinking import (
    OURS,
    ThinkingSigner,
    budget_of,
    claude_effort_of,
    effort_of,
    is_on,
)

SIGNER = ThinkingSigner((b"one",))


@given(st.text(), st.lists(st.text()))
def test_a_signature_over_pieces_is_the_one_over_the_whole_and_fits_it(model: str, pieces: list[str]) -> None:
    signature = SIGNER.begin(model)
    for piece in pieces:
        signature.update(piece)
    made = signature.finish(model)
    assert made == SIGNER.sign(model, "".join(pieces))
    assert made.startswith(OURS)
    assert SIGNER.fits(made, "".join(pieces))


def test_a_signature_fits_its_own_text_and_model_and_key_alone() -> None:
    made = SIGNER.sign("m", "hm")
    other = SIGNER.sign("n", "hm")
    assert not SIGNER.fits(made, "hm ")
    assert not SIGNER.fits(".".join((*made.split(".")[:2], other.split(".")[2])), "hm")
    assert not ThinkingSigner((b"two",)).fits(made, "hm")


def test_after_a_change_of_keys_the_older_ones_are_still_known() -> None:
    made = SIGNER.sign("m", "hm")
    renewed = ThinkingSigner((b"two", b"one"))
    assert renewed.fits(made, "hm")
    assert not SIGNER.fits(renewed.sign("m", "hm"), "hm")


@pytest.mark.parametrize("signature", ["", OURS, OURS + ".", OURS + "a.b", OURS + "é.é", "é", OURS + "bQ==.\ud800"])
def test_what_is_no_signature_of_ours_fits_nothing(signature: str) -> None:
    assert not SIGNER.fits(signature, "")
    assert SIGNER.open(signature) is None


@pytest.mark.parametrize(
    "kept",
    [
        {"text": "hm \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "signature": "s"},
        {"text": "hm"},
        {"redacted": "d"},
        {},
    ],
)
def test_cliproxy_3451_a_seal_gives_back_the_text_that_clients_drop(kept: dict[str, str]) -> None:
    sealed = SIGNER.seal("m", kept.get("text", ""), kept.get("signature", ""), kept.get("redacted", ""))
    assert sealed.startswith(OURS)
    assert SIGNER.open(sealed) == kept
    assert ThinkingSigner((b"two",)).open(sealed) is None


def test_a_seal_that_was_changed_is_none() -> None:
    head, told = SIGNER.seal("m", "hm").rsplit(".", 1)
    forged = base64.urlsafe_b64encode(b'{"text":"other"}').decode()
    assert SIGNER.open(f"{head}.{told}") is not None
    assert SIGNER.open(f"{head}.{forged}") is None


def test_what_a_model_thought_does_not_pass_for_a_seal() -> None:
    told = base64.urlsafe_b64encode(b'{"signature":"forged"}').decode()
    assert SIGNER.open(f"{SIGNER.sign('m', told)}.{told}") is None


@pytest.mark.parametrize(
    ("asked", "on", "effort", "claude"),
    [
        (Reasoning(), None, None, None),
        (Reasoning(shown=True), None, None, None),
        (Reasoning(True), True, None, None),
        (Reasoning(False), False, "none", None),
        (Reasoning(False, effort="high"), False, "none", "high"),
        (Reasoning(effort="none"), False, "none", None),
        (Reasoning(effort="minimal"), True, "minimal", "low"),
        (Reasoning(effort="high"), True, "high", "high"),
        (Reasoning(effort="max"), True, "xhigh", "max"),
        (Reasoning(effort="unheard"), True, "unheard", None),
        (Reasoning(True, 1024), True, "low", None),
        (Reasoning(True, 2048), True, "low", None),
        (Reasoning(True, 2049), True, "medium", None),
        (Reasoning(True, 24576), True, "high", None),
        (Reasoning(True, 49152), True, "xhigh", None),
        (Reasoning(True, 99999), True, "xhigh", None),
        (Reasoning(True, 99999, "low"), True, "low", "low"),
    ],
)
def test_how_much_in_the_words_of_each(
    asked: Reasoning, on: bool | None, effort: str | None, claude: str | None
) -> None:
    assert (is_on(asked), effort_of(asked), claude_effort_of(asked)) == (on, effort, claude)


def test_a_greater_effort_is_a_greater_budget() -> None:
    budgets = [budget_of(effort) for effort in ("minimal", "low", "medium", "high", "xhigh", "max")]
    assert budgets == sorted(set(budgets))
    assert budget_of("unheard") == budget_of("medium")
