"""How much a request for speech or images asks for, and how long the audio of a transcription is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.usage import MediaUnits

MOST_IMAGES = 1000
"""A larger number in a request is ignored."""


class _Asked(msgspec.Struct):
    input: Any = None
    n: Any = None
    batch_size: Any = None
    n_iter: Any = None


class _Answer(msgspec.Struct):
    usage: Any = None
    duration: Any = None


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode


def units_of_body(dialect: Dialect, body: bytes) -> MediaUnits:
    """What a JSON body asks for. The body was read before."""
    asked = _decode_asked(body)
    if dialect is Dialect.SPEECH:
        return MediaUnits(characters=len(asked.input) if isinstance(asked.input, str) else None)
    return MediaUnits(images=_count(asked.n) * _count(asked.batch_size) * _count(asked.n_iter))


def units_of_form(dialect: Dialect, fields: Mapping[str, str]) -> MediaUnits:
    """What the fields of a form ask for."""
    if dialect is not Dialect.IMAGE:
        return MediaUnits()
    n = fields.get("n", "")
    return MediaUnits(images=_count(int(n) if n.isascii() and n.isdecimal() and len(n) < 5 else None))


def seconds_of_usage(usage: object) -> float | None:
    """Seconds of audio, from a `usage` of type `duration`."""
    if not isinstance(usage, dict) or usage.get("type") != "duration":
        return None
    return _seconds(usage.get("seconds"))


def seconds_of_answer(body: bytes) -> float | None:
    """Seconds of audio, from a transcription in the format `json` or `verbose_json`; None if it does not say."""
    if b'"duration"' not in body:
        return None
    try:
        answer = _decode_answer(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = seconds_of_usage(answer.usage)
    return _seconds(answer.duration) if found is None else found


def _seconds(value: object) -> float | None:
    if isinstance(value, str):  # verbose_json of OpenAI and vLLM
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e7:
        return None
    return float(value)


def _count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_IMAGES
    return value if is_count else 1  # type: ignore[return-value]
