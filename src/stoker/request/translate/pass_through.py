"""The few changes to a request that otherwise passes through byte for byte. Each change has a word.

dropped:billing_header    Messages to a local model: the system block that differs with each request
dropped:thinking          to Anthropic: thinking that it did not sign; to OpenAI: reasoning that it did not encrypt

A body is parsed only if a search of its bytes finds that a change may be needed; all other fields keep their bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.json_text import Raw, encode, loose
from stoker.request.translate.neutral.thinking import OURS
from stoker.request.translate.prepare import BILLING, refused_url, unbilled
from stoker.request.translate.remote_images import files_elsewhere, image_parts, may_hold, remote_in

_BILLING = BILLING.encode()
_OURS = OURS.encode()
_fields = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])
_SIGNED = {Dialect.MESSAGES: ("messages", "signature"), Dialect.RESPONSES: ("input", "encrypted_content")}
"""Where signed thinking is: the list of turns or items, and the field with the signature."""


def adapt_body(body: bytes, traits: Capabilities, may_name_images: bool = True) -> tuple[bytes, tuple[str, ...]]:
    """The body to send, and what was changed. `body` is valid JSON; `may_name_images` is from its `BodyFields`.

    Raises ClientError 400 `image_url_refused`.
    """
    changes: list[str] = []
    if traits.local:
        if traits.dialect is Dialect.MESSAGES and _BILLING in body:
            body = _without_billing(body, changes)
        if may_name_images and not traits.takes_image_urls and may_hold(body):
            refuse_remote(loose(body))
    elif traits.dialect in _SIGNED and _OURS in body:
        body = _without_ours(body, *_SIGNED[traits.dialect], changes)
    return body, tuple(changes)


def is_plain(traits: Capabilities) -> bool:
    """Whether no body is ever changed for this serve. A body may still be refused for the URLs of images."""
    return traits.dialect is not Dialect.MESSAGES if traits.local else traits.dialect not in _SIGNED


def _without_billing(body: bytes, changes: list[str]) -> bytes:
    fields = _fields.decode(body)
    try:
        blocks = _list.decode(fields.get("system", Raw(b"null")))
    except msgspec.DecodeError:
        return body
    kept: list[Any] = []
    has_changed = False
    for raw in blocks:
        block = loose(raw)
        text = block.get("text") if isinstance(block, dict) else None
        if not isinstance(text, str) or not text.startswith(BILLING):
            kept.append(raw)
            continue
        has_changed = True
        if rest := unbilled(text):
            kept.append({**block, "text": rest})
    if not has_changed:
        return body
    changes.append("dropped:billing_header")
    if kept:
        fields["system"] = Raw(encode(kept))
    else:
        del fields["system"]
    return encode(fields)


def _without_ours(body: bytes, list_name: str, field: str, changes: list[str]) -> bytes:
    fields = _fields.decode(body)
    try:
        turns = _list.decode(fields.get(list_name, Raw(b"null")))
    except msgspec.DecodeError:
        return body
    kept: list[Any] = []
    for raw in turns:
        turn = loose(raw) if _OURS in bytes(raw) else None
        if not isinstance(turn, dict):
            kept.append(raw)
        elif _is_ours(turn, field):
            changes.append("dropped:thinking")
        elif isinstance(turn.get("content"), list) and any(_is_ours(block, field) for block in turn["content"]):
            changes.append("dropped:thinking")
            kept.append(_without_blocks(raw, field))
        else:
            kept.append(raw)
    if changes:
        fields[list_name] = Raw(encode(kept))
    changes[:] = dict.fromkeys(changes)
    return encode(fields) if changes else body


def _without_blocks(raw: Raw, field: str) -> dict[str, Any]:
    turn: dict[str, Any] = dict(_fields.decode(raw))
    blocks = [block for block in _list.decode(turn["content"]) if not _is_ours(loose(block), field)]
    turn["content"] = blocks or "(no content)"
    return turn


def _is_ours(block: Any, field: str) -> bool:
    return isinstance(block, dict) and isinstance(block.get(field), str) and block[field].startswith(OURS)


def refuse_remote(value: Any) -> None:
    """Raises ClientError 400 if an image or another file in the document is given by its address."""
    for part in image_parts(value):
        for name, _ in remote_in(part):
            raise refused_url(f"{name}.url" if isinstance(part[name], dict) else name)
    for name in files_elsewhere(value):
        raise refused_url(name)
