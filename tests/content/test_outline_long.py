"""Long requests: only the ends of a text are read, and what is only counted is not read at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from stoker.domain.dialect import Dialect
from stoker.domain.task import MAX_TEXT, Outline
from stoker_content.outline import outline


def seen(content: object, ascii_only: bool = True) -> Outline:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": content}]}
    return outline(Dialect.CHAT, json.dumps(body, ensure_ascii=ascii_only).encode())[0]


def ends(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"


KINDS = ["word ", 'a "quoted" \\ path\t\n', "日本語", "😀 ", "é", "no-blank-at-all", "\x01", " "]


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_long_text_the_ends_are_seen_whatever_it_is_written_in(kind: str, ascii_only: bool) -> None:
    text = f"begin {kind * (200_000 // len(kind))} end"
    assert seen(text, ascii_only).text == ends(text)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([1, 700, 5000, 20_000])), max_size=4), st.booleans())
def test_several_texts_are_cut_as_one(pieces: list[tuple[str, int]], ascii_only: bool) -> None:
    texts = [kind * times for kind, times in pieces]
    parts = [{"type": "text", "text": text} for text in texts]
    assert seen(parts, ascii_only).text.strip() == ends("\n".join([text for text in texts if text.strip()])).strip()


@pytest.mark.parametrize("blanks", [0, 4090, 30_000, 60_000])
def test_a_long_reminder_is_the_harnesss_text_behind_any_number_of_blanks(blanks: int) -> None:
    reminder = " " * blanks + "<system-reminder>" + "word " * 20_000
    parts = [{"type": "text", "text": reminder}, {"type": "text", "text": "do it"}]
    assert seen(parts).text == "do it"


@pytest.mark.parametrize("kind", ["image", "image_url", "input_image"])
def test_an_image_counts_whatever_its_size(kind: str) -> None:
    parts = [{"type": kind, "source": {"data": "A" * 100_000}}, {"type": "text", "text": "what is it?"}]
    found = seen(parts)
    assert (found.images, found.text) == (1, "what is it?")


def test_a_result_counts_whatever_its_size() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "x" * 100_000}
    assert seen([result]).has_results


def test_a_bare_text_among_parts_counts_and_what_is_no_part_does_not() -> None:
    assert (
        seen(["bare", 5, None, {"type": "text", "text": "part"}, [], {"type": ["text"], "text": 5}]).text
        == "bare\npart"
    )
