"""Images and files in requests: what the bytes are is looked at, not believed."""

from __future__ import annotations

import base64
import binascii
import re

from stoker.domain.errors import ClientError
from stoker.domain.prompt import Document, Image

_DATA = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?)(;base64)?,", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*")
_WINDOW = 256 * 1024
"""Characters that are looked at in one search. Other threads run between two."""
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"), (b"BM", "image/bmp"),
)  # fmt: skip
_HEAD = 64
"""Characters of base64 that are looked at: 48 bytes."""


def sniff(data: str) -> str | None:
    """The media type of base64 data by its first bytes: an image's, `application/pdf`, or None."""
    try:
        head = base64.b64decode(data[:_HEAD][: len(data[:_HEAD]) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return None
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head.startswith(b"%PDF-"):
        return "application/pdf"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def image(data: str, where: str) -> Image:
    """An image of base64 data, by what it is. Raises ClientError 400 `bad_image`."""
    kind = sniff(data) if is_base64(data) else None
    if kind is None or not kind.startswith("image/"):
        text = f"'{where}' is not an image: base64 of PNG, JPEG, GIF, WebP or BMP is expected"
        raise ClientError(text, code="bad_image", param=where)
    return Image(media_type=kind, data=data)


def from_url(url: str, where: str) -> Image:
    """An image by what `image_url` says: a data URI, an address, or bare base64 (which some clients send).

    Raises ClientError 400 `bad_image`.
    """
    if url[:5].lower() == "data:":
        return image(data_uri(url, where)[1], where)
    if url[:8].lower().startswith(("http://", "https://")):
        return Image(url=url)
    if len(url) >= _HEAD and is_base64(url):
        return image(url, where)
    text = f"'{where}' is neither a data URI nor an http(s) URL"
    raise ClientError(text, code="bad_image", param=where)


def data_uri(url: str, where: str) -> tuple[str, str]:
    """(media type as it claims, base64 data). Raises ClientError 400 `bad_image`."""
    head = _DATA.match(url)
    if head is None or not head[3]:
        raise ClientError(f"'{where}' is not a base64 data URI", code="bad_image", param=where)
    return head[1].lower(), url[head.end() :]


def to_url(picture: Image) -> str:
    """A data URI, or the address that the image has."""
    return picture.url or f"data:{picture.media_type};base64,{picture.data}"


def is_base64(data: str) -> bool:
    """Whether it is base64 without blanks. Linear."""
    if not data or len(data) % 4:
        return False
    end = len(data) - (data[-1] == "=") - data.endswith("==")
    windows = ((at, min(at + _WINDOW, end)) for at in range(0, end, _WINDOW))
    return all(_BASE64.fullmatch(data, begin, end) for begin, end in windows)


def text_of(document: Document) -> str | None:
    """The text of a document that is text; None: it is not."""
    if document.text or not (document.data or document.url):
        return document.text
    if document.data and document.media_type.startswith("text/") and is_base64(document.data):
        return base64.b64decode(document.data).decode("utf-8", "replace")
    return None
