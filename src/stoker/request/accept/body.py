"""The request's body, bounded before it is read."""

from __future__ import annotations

from stoker.domain.errors import ClientError, ClientLeft
from stoker.request.accept.wire import Wire


async def read_body(wire: Wire, limit: int) -> bytes:
    """The whole body. Raises as `wait_for_body`."""
    await wait_for_body(wire, limit)
    return wire.take_body()


async def wait_for_body(wire: Wire, limit: int) -> None:
    """Wait until the whole body has arrived. Raises

    ClientError 413    it is too large: before the first byte if its length is declared, else as soon as it is exceeded
    CapacityError 503  the budget for all bodies has no room for it: at the same time
    ClientError 408    it arrives too slowly
    ClientLeft         the client is gone
    """
    declared = wire.headers.get(b"content-length")
    if declared is not None:
        if int(declared) > limit:
            raise _too_large(limit)
        wire.expect(int(declared))
    while not wire.is_whole and wire.received <= limit and wire.body_error is None:
        await wire.wait_for_more()
        if wire.is_lost:
            raise ClientLeft
    if wire.body_error is not None:
        raise wire.body_error
    if wire.received > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> ClientError:
    text = f"the request body is larger than {limit} bytes (front_door.body_limit)"
    return ClientError(text, code="body_too_large", status=413)
