"""The request's body, bounded before it is read."""

from __future__ import annotations

from stoker.domain.errors import ClientError, ClientLeft
from stoker.request.accept.wire import Wire


def whole_body(wire: Wire, limit: int) -> bytes:
    """The body, if all of it came with the head; empty if there is (or was) none. Raises ClientError 413."""
    if wire.received > limit:
        raise _too_large(limit)
    return wire.take_body() if wire.is_whole else b""


async def read_body(wire: Wire, limit: int) -> bytes:
    """All of the body. Raises ClientError 413 before the first byte is read where its length is declared, else as soon
    as the limit is passed; ClientLeft when the client goes.
    """
    declared = wire.headers.get(b"content-length")
    if declared is not None and int(declared) > limit:
        raise _too_large(limit)
    while not wire.is_whole and wire.received <= limit:
        await wire.more()
        if wire.is_lost:
            raise ClientLeft
    return whole_body(wire, limit)


def _too_large(limit: int) -> ClientError:
    text = f"the request body is larger than {limit} bytes (front_door.body_limit)"
    return ClientError(text, code="body_too_large", status=413)
