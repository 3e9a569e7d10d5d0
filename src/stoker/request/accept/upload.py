"""Reads a form with files: finds its fields while it comes, and keeps it so that it can be sent as it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from stoker.domain.errors import ClientError, ClientLeft
from stoker.request.accept.spool import MEMORY, Spool
from stoker.request.accept.wire import Wire
from stoker.request.codec.multipart import FormField, MultipartScanner, boundary_of

BATCH = 256 * 1024
"""Bytes that are scanned and stored at a time."""

Run = Callable[..., Awaitable[None]]


class Upload:
    """A form, and its fields once `receive` has returned. `close` has to be called in the end."""

    def __init__(self, directory: str) -> None:
        self.fields: dict[str, FormField] = {}
        self._spool = Spool(directory)

    @property
    def size(self) -> int:
        return self._spool.size

    @property
    def held(self) -> int:
        """Bytes of memory."""
        return min(self._spool.size, MEMORY)

    async def receive(self, wire: Wire, limit: int, run: Run) -> None:
        """Read the body of a request. `run(work, *arguments)` does work that may block.

        Raises as `body.wait_for_body`, and ClientError 400 or 415 as `MultipartScanner`.
        """
        scanner = MultipartScanner(_boundary(wire))
        declared = wire.headers.get(b"content-length")
        if declared is not None and int(declared) > limit:
            raise _too_large(limit)
        seen = 0
        while True:
            if wire.is_lost:
                raise ClientLeft
            if wire.body_error is not None:
                raise wire.body_error
            if wire.received > limit:
                raise _too_large(limit)
            if wire.is_whole or wire.received - seen >= BATCH:
                seen = wire.received
                await self._keep(wire, scanner, run)
            if wire.is_whole and wire.received == seen:
                break
            if not wire.is_whole:
                await wire.wait_for_more()
        self.fields = scanner.finish()

    def model_replaced(self, model: str | None) -> UploadBody:
        """The form with another model's name; None: as it came."""
        field = self.fields["model"]
        return UploadBody(self._spool, field.start, field.end, None if model is None else model.encode())

    def close(self) -> None:
        """Drop the form."""
        self._spool.close()

    async def _keep(self, wire: Wire, scanner: MultipartScanner, run: Run) -> None:
        """Scan and store what has come; meanwhile nothing more is read, so that memory stays bounded."""
        data = wire.take_body()
        wire.pause_body()
        try:
            await run(_store, scanner, self._spool, data)
        finally:
            wire.resume_body()
        if self._spool.is_on_disk:
            wire.give_back_body()


class UploadBody:
    """What is sent to a serve. `pieces` may be called again, if the request has to be sent again."""

    def __init__(self, spool: Spool, start: int, end: int, replacement: bytes | None) -> None:
        self._spool = spool
        self._start = start
        self._end = end
        self._replacement = replacement

    @property
    def size(self) -> int:
        if self._replacement is None:
            return self._spool.size
        return self._spool.size - (self._end - self._start) + len(self._replacement)

    def pieces(self) -> Iterator[bytes]:
        if self._replacement is None:
            yield from self._spool.read(0, self._spool.size)
            return
        yield from self._spool.read(0, self._start)
        yield self._replacement
        yield from self._spool.read(self._end, self._spool.size)


def _store(scanner: MultipartScanner, spool: Spool, data: bytes) -> None:
    scanner.feed(data)
    spool.write(data)


def _boundary(wire: Wire) -> bytes:
    given = [value for name, value in wire.raw_headers if name == b"content-type"]
    if len(given) > 1:
        raise ClientError("the request has two 'content-type' headers: send one", code="repeated_header")
    return boundary_of(given[0] if given else b"")


def _too_large(limit: int) -> ClientError:
    text = f"the request body is larger than {limit} bytes (front_door.upload_limit)"
    return ClientError(text, code="body_too_large", status=413)
