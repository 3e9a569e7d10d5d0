"""Images that a request gives by URL: finds the URLs, and replaces them with the images.

The arguments of a call are data that a model wrote, even if they look like an image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.request.codec.tolerant_json import decode_fields
from stoker.request.translate.neutral.json_text import Raw, encode, loose

_IMAGES = frozenset(("image_url", "input_image", "image"))
_HOLDERS = ("image_url", "source")
_FILES = ("video_url", "audio_url", "file_url")
"""Fields of other files that some engines fetch themselves."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_KEYS = (b'"url"', b'"image_url"', b'"source"', b'"video_url"', b'"audio_url"', b'"file_url"')
_TEXT = re.compile(rb'\s*:\s*"(?!data:)', re.IGNORECASE)
"""What follows a key whose value is a string, but not a data URI."""
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
_BLANKS = re.compile(r"[\x00-\x20]+")
_list = msgspec.json.Decoder(list[Raw])


def addresses(dialect: Dialect, body: bytes) -> list[str]:
    """The distinct http(s) URLs of images in a request, in order, exactly as written. Never raises: a body that is not
    a request has none.
    """
    if not may_hold(body):
        return []
    _, _, turns = _split(dialect, body)
    parts = (part for raw in turns if may_hold(bytes(raw)) for part in image_parts(loose(raw)))
    return list(dict.fromkeys(url for part in parts for _, url in remote_in(part)))


def inlined(dialect: Dialect, body: bytes, found: Mapping[str, tuple[str, str]]) -> bytes:
    """The body with images instead of their URLs. `found`: media type and base64 data by URL; a URL that is not in it
    stays. Turns without such an image and all other fields keep their bytes.
    """
    name, fields, turns = _split(dialect, body)
    changed = False
    written: list[Any] = []
    for raw in turns:
        turn = loose(raw) if may_hold(bytes(raw)) else None
        has_changed = _put(turn, found)
        written.append(turn if has_changed else raw)
        changed = changed or has_changed
    if not changed:
        return body
    fields[name] = Raw(encode(written))
    return encode(fields)


def may_hold(text: bytes) -> bool:
    """Whether this JSON may hold URLs of images. False is certain.

    This runs for every request, so it searches for plain bytes: a hundred times as fast as a pattern.
    """
    if b"\\u00" in text and _ESCAPED_LETTER.search(text) is not None:  # an escape may hide any key
        return True
    for key in _KEYS:
        at = text.find(key)
        while at >= 0:
            if _TEXT.match(text, at + len(key)) is not None:
                return True
            at = text.find(key, at + 1)
    return False


def image_parts(value: Any) -> Iterator[dict[str, Any]]:
    """The parts below `value` that are images, in order, at any depth. The caller may change a part once it has it."""
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, list):
            left.extend(reversed(found))
        elif isinstance(found, dict):
            if _is_image(found):
                yield found
            arguments = _arguments(found)
            left.extend(inner for key, inner in reversed(found.items()) if key not in arguments)


def files_elsewhere(value: Any) -> Iterator[str]:
    """Fields below `value` with a URL from which an engine would have to fetch a file: a video, audio, a document, or
    an image with another scheme than http (`file:`). `remote_in` finds images by http.
    """
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, list):
            left.extend(found)
        elif isinstance(found, dict):
            yield from (name for name in _FILES if _is_elsewhere(_url(found.get(name))))
            if found.get("type") == "document" and _is_elsewhere(_url(found.get("source"))):
                yield "source"
            if _is_image(found):
                urls = {name: _url(found.get(name)) for name in _HOLDERS}
                yield from (name for name, url in urls.items() if _is_elsewhere(url) and not _is_remote(url))
            arguments = _arguments(found)
            left.extend(inner for key, inner in found.items() if key not in arguments)


def _url(value: Any) -> str:
    url = value.get("url") if isinstance(value, dict) else value
    return url if isinstance(url, str) else ""


def _is_elsewhere(url: str) -> bool:
    start = _BLANKS.sub("", url[:64]).lower()
    return _SCHEME.match(start) is not None and not start.startswith("data:")


def remote_in(part: dict[str, Any]) -> list[tuple[str, str]]:
    """(field of the part, URL) for each remote URL in the part; empty if it has none, or a data URI."""
    given = ((name, part.get(name)) for name in _HOLDERS)
    urls = ((name, value.get("url") if isinstance(value, dict) else value) for name, value in given)
    return [(name, url) for name, url in urls if isinstance(url, str) and _is_remote(url)]


def _split(dialect: Dialect, body: bytes) -> tuple[str, dict[str, Raw], list[Raw]]:
    """The name of the field that holds the turns, all fields, and the turns; all empty if there are no turns."""
    name = dialect.spec.turns if dialect.spec.is_spoken else ""
    try:
        fields = decode_fields(body)
        return name, fields, _list.decode(fields[name])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", {}, []


def _put(turn: Any, found: Mapping[str, tuple[str, str]]) -> bool:
    changed = False
    for part in image_parts(turn):
        for name, url in remote_in(part):
            if url in found:
                part[name] = _image(part[name], name, *found[url])
                changed = True
    return changed


def _image(given: Any, name: str, media_type: str, data: str) -> Any:
    uri = f"data:{media_type};base64,{data}"
    if not isinstance(given, dict):
        return uri
    return {"type": "base64", "media_type": media_type, "data": data} if name == "source" else {**given, "url": uri}


def _is_image(part: dict[str, Any]) -> bool:
    """Whether a part is an image. vLLM derives the type of a part without one from its fields."""
    kind = part.get("type")
    return kind in _IMAGES if isinstance(kind, str) else kind is None and "image_url" in part


def _arguments(part: dict[str, Any]) -> tuple[str, ...]:
    kind = part.get("type")
    return ("input", "arguments") if isinstance(kind, str) and kind.endswith("tool_use") else ("arguments",)


def _is_remote(url: str) -> bool:
    """Whether it is http(s) to Python's URL parser, which engines use: it ignores leading blanks and all line ends."""
    return url[:5].lower() != "data:" and _BLANKS.sub("", url)[:6].lower().startswith(("http:", "https:"))
