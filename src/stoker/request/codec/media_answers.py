"""What a serve may answer to a request for speech, a transcription or an image.

Stoker passes these answers on unread: audio, images, text and JSON of many shapes. It refuses only what is certainly
not an answer: a web page, an error with status 200, and an empty body.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.request.codec.upstream_errors import no_answer, with_reason

_BINARY = (b"audio/", b"image/", b"video/", b"application/octet-stream", b"application/ogg")
_PAGE = re.compile(rb"\s*<(?:!doctype\s|!--|\?xml\s|(?:html|head|title|body|center|h1)[\s>])", re.IGNORECASE)
_JSON = re.compile(rb"\s*\{")
_EXCERPT = 512


class _Answer(msgspec.Struct):
    error: Any = None


_decode = msgspec.json.Decoder(_Answer).decode


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
            error = _decode(body).error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if error:
            raise with_reason(no_answer("is an error"), error)  # 3
