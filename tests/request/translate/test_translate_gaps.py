"""Every code that is told is in the table, and a strict translation refuses with the table's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stoker
from stoker.domain.dialect import TARGETS, Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import SETTINGS, Prompt, Role, Text, Turn
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import LOSSLESS, LOSSY, Losses
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import write_prompt

SOURCES = sorted(Path(stoker.__file__).parent.rglob("*.py"))
ADDED = {code for path in SOURCES for code in re.findall(r'losses\.add\(\s*"(\w+)"', path.read_text("utf-8"))}
VALUES = st.dictionaries(st.sampled_from(SETTINGS), st.integers(0, 2), max_size=6)


@given(st.sampled_from(sorted(ADDED)))
def test_every_code_in_the_sources_is_in_the_table(code: str) -> None:
    assert code in LOSSY


def test_there_are_such_codes() -> None:
    assert {"result_error", "thinking", "order", "cache_control"} <= ADDED


def test_a_corner_is_lost_or_kept_and_says_all_of_it() -> None:
    assert not LOSSY.keys() & LOSSLESS.keys()
    assert all(all(corner) for corner in (*LOSSY.values(), *LOSSLESS.values()))


@given(VALUES, st.sampled_from(sorted(TARGETS)), st.booleans())
def test_a_setting_that_cannot_be_said_is_in_the_table(settings: dict[str, int], dialect: Dialect, local: bool) -> None:
    prompt = Prompt(Dialect.CHAT, "m", [Turn(Role.USER, [Text("hi")])], settings=settings)
    written = write_prompt(prompt, Losses(), Capabilities(dialect, local=local), ThinkingSigner((b"k",)))
    assert set(written.losses.codes) <= set(LOSSY)


def test_codes_are_told_once_in_the_order_in_which_they_were_met() -> None:
    losses = Losses()
    for code in ("n", "audio", "n"):
        losses.add(code)
    assert list(losses.codes) == ["n", "audio"]


def test_where_nothing_is_lost_nothing_is_refused() -> None:
    losses = Losses()
    losses.refuse()
    assert not losses.codes


@pytest.mark.parametrize("code", LOSSY)
def test_a_strict_translation_refuses_any_loss_in_words(code: str) -> None:
    losses = Losses()
    losses.add(code)
    losses.add("audio")
    with pytest.raises(ClientError, match=re.escape(LOSSY[code].what)) as caught:
        losses.refuse()
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "would_lose", code)
    assert LOSSY["audio"].why in caught.value.message
