"""The media type of an image, from its bytes."""

from __future__ import annotations

import base64
import binascii

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
KNOWN = (*dict.fromkeys(_STARTS.values()), "image/webp")


def sniffed(data: object) -> str | None:
    """None for anything but base64 of an image of a known type."""
    try:
        start = base64.b64decode(str(data)[:32], validate=True)  # a multiple of four letters
    except (binascii.Error, ValueError):
        return None
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for sign, kind in _STARTS.items() if start.startswith(sign)), None)
