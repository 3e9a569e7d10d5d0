"""What a request for speech or images asks for, and how long the audio of an answer is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.usage import MediaUnits
from stoker.request.codec.media import seconds_of_answer, seconds_of_usage, units_of_body, units_of_form

SPEECH, IMAGE, TRANSCRIPTION = Dialect.SPEECH, Dialect.IMAGE, Dialect.TRANSCRIPTION


@pytest.mark.parametrize(
    ("dialect", "body", "units"),
    [
        (SPEECH, {"input": "größer"}, MediaUnits(characters=6)),
        (SPEECH, {"input": ["a"]}, MediaUnits()),
        (IMAGE, {"prompt": "a cat"}, MediaUnits(images=1)),
        (IMAGE, {"n": 3}, MediaUnits(images=3)),
        (IMAGE, {"batch_size": 2, "n_iter": 4}, MediaUnits(images=8)),
        (IMAGE, {"n": True, "batch_size": "2", "n_iter": -4}, MediaUnits(images=1)),
        (IMAGE, {"n": 10**9}, MediaUnits(images=1)),
    ],
)
def test_what_a_body_asks_for(dialect: Dialect, body: dict[str, Any], units: MediaUnits) -> None:
    assert units_of_body(dialect, json.dumps(body).encode()) == units


@pytest.mark.parametrize(("n", "images"), [("2", 2), ("", 1), ("x", 1), ("\u0663", 1), ("9" * 5000, 1)])
def test_how_many_images_a_form_asks_for(n: str, images: int) -> None:
    assert units_of_form(IMAGE, {"model": "a", "n": n}) == MediaUnits(images=images)
    assert units_of_form(TRANSCRIPTION, {"model": "a", "n": n}) == MediaUnits()


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ({"text": "x", "usage": {"type": "duration", "seconds": 3}}, 3.0),
        ({"text": "x", "duration": 2.5, "segments": []}, 2.5),
        ({"text": "x", "duration": "2.5"}, 2.5),
        ({"text": "x", "duration": 1, "usage": {"type": "duration", "seconds": 2}}, 2.0),
        ({"text": '"duration"'}, None),
        ({"duration": "long"}, None),
        ({"duration": True}, None),
        ({"duration": -1}, None),
        (["duration"], None),
    ],
)
def test_how_long_the_audio_of_an_answer_is(answer: object, seconds: float | None) -> None:
    assert seconds_of_answer(json.dumps(answer).encode()) == seconds


def test_usage_in_tokens_says_nothing_of_seconds() -> None:
    assert seconds_of_usage({"type": "tokens", "input_tokens": 14}) is None
    assert seconds_of_usage(None) is None
    assert seconds_of_answer(b'"duration" 1') is None
