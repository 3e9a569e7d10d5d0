"""Speech, transcriptions and images: how much a request asks for, how long its audio is, and what may answer it.

Stoker passes these answers on unread: audio, images, text and JSON of many shapes. It refuses only what is certainly
not an answer: a web page, an error with status 200, and an empty body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.usage import MediaUnits
from stoker.request.codec.tolerant_json import NOT_JSON
from stoker.request.codec.upstream_errors import no_answer, with_reason

_BINARY = (b"audio/", b"image/", b"video/", b"application/octet-stream", b"application/ogg")
_PAGE = re.compile(rb"\s*<(?:!doctype\s|!--|\?xml\s|(?:html|head|title|body|center|h1)[\s>])", re.IGNORECASE)
_JSON = re.compile(rb"\s*\{")
_EXCERPT = 512


MOST_IMAGES = 1000
"""A larger number in a request is ignored."""


class _Asked(msgspec.Struct):
    input: Any = None
    n: Any = None
    batch_size: Any = None
    n_iter: Any = None


class _Failure(msgspec.Struct):
    error: Any = None


class _Answer(msgspec.Struct):
    usage: Any = None
    duration: Any = None


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_failure = msgspec.json.Decoder(_Failure).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode


def is_binary(content_type: bytes) -> bool:
    """Whether a reply of this type is streamed to the client, instead of being collected and checked first."""
    return content_type.startswith(_BINARY)


def check_media_answer(dialect: Dialect | None, content_type: bytes, body: bytes) -> None:
    """Raises UpstreamError `upstream_unusable`: 1. there is no body  2. it is a web page  3. it is an error

    The type alone does not make a transcription a page: whisper-server calls its plain text `text/html`.
    """
    if not body:
        raise no_answer("is empty")  # 1
    is_called_page = dialect is not Dialect.TRANSCRIPTION and content_type.startswith(b"text/html")
    if is_called_page or _PAGE.match(body[:_EXCERPT]):
        raise no_answer("is a web page")  # 2
    if b'"error"' in body[: 2 * _EXCERPT] and _JSON.match(body):
        try:
            error = _decode_failure(body).error
        except NOT_JSON:
            return
        if error:
            raise with_reason(no_answer("is an error"), error)  # 3


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
    except NOT_JSON:
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
