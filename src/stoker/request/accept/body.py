"""The request's body, bounded before it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from stoker.domain.errors import ClientError, ClientLeft


async def read_body(
    receive: Callable[[], Awaitable[Mapping[str, Any]]], headers: Mapping[bytes, bytes], limit: int
) -> bytes:
    """All of the body. Raises ClientError 413 before the first byte is read where its length is declared, else as soon
    as the limit is passed; ClientLeft when the client goes. On cancel nothing is kept.
    """
    declared = headers.get(b"content-length")
    if declared is not None and int(declared) > limit:
        raise _too_large(limit)
    message = await receive()
    if message["type"] != "http.disconnect" and not message.get("more_body"):
        return _bounded(message["body"], limit)
    parts: list[bytes] = []
    size = 0
    while message["type"] != "http.disconnect":
        parts.append(message["body"])
        size += len(message["body"])
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise ClientLeft


def _bounded(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> ClientError:
    text = f"the request body is larger than {limit} bytes (front_door.body_limit)"
    return ClientError(text, code="body_too_large", status=413)
