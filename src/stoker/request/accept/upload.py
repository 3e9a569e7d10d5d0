"""Reads a form with files: finds its fields while it comes, and keeps it so that it can be sent as it was."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence

from stoker.domain import figures
from stoker.domain.errors import CapacityError, ClientError, ClientLeft
from stoker.domain.request_parameters import RequestParameters
from stoker.request.accept.connection import HttpExchange
from stoker.request.codec.form_parameters import FormEdit, edit_form
from stoker.request.codec.multipart import FormField, FormPart, MultipartScanner, boundary_of

BATCH = 256 * 1024
"""Bytes that are scanned and stored at a time."""

MEMORY = 2**20
"""Bytes of one body that are held in memory."""
PIECE = 256 * 1024
RESERVE = 2**30
"""Bytes of the disk that stay free: Stoker's other files, and those of others, need them."""
LOOK_EVERY = 16 * 2**20
"""Bytes that are written before the disk is looked at again."""
RETRY_AFTER = 30.0

Run = Callable[..., Awaitable[None]]


class Upload:
    """A form, and its fields once `receive` has returned. `close` has to be called in the end."""

    def __init__(self, directory: str) -> None:
        self.fields: dict[str, FormField] = {}
        self._parts: list[FormPart] = []
        self._boundary = b""
        self._spool = Spool(directory)

    @property
    def size(self) -> int:
        return self._spool.size

    @property
    def held(self) -> int:
        """Bytes of memory."""
        return min(self._spool.size, MEMORY)

    async def receive(self, exchange: HttpExchange, limit: int, run: Run, check_model: Callable[[str], None]) -> None:
        """Read the body of a request. `run(work, *arguments)` does work that may block. `check_model(name)` is called
        once, as soon as the model is known; what it raises ends the upload.

        Raises as `body.wait_for_body`, and ClientError 400 or 415 as `MultipartScanner`.
        """
        self._boundary = _boundary(exchange)
        scanner = MultipartScanner(self._boundary)
        declared = exchange.headers.get(b"content-length")
        if declared is not None and int(declared) > limit:
            raise _too_large(limit)
        seen, is_checked = 0, False
        while True:
            if exchange.is_lost:
                raise ClientLeft
            if exchange.body_error is not None:
                raise exchange.body_error
            if exchange.received > limit:
                raise _too_large(limit)
            if exchange.is_whole or exchange.received - seen >= BATCH:
                seen = exchange.received
                await self._keep(exchange, scanner, run)
                if not is_checked and (model := scanner.fields.get("model")) is not None:
                    is_checked = True
                    check_model(model.text)
            if exchange.is_whole and exchange.received == seen:
                break
            if not exchange.is_whole:
                await exchange.wait_for_more()
        self.fields, self._parts = scanner.finish(), scanner.parts

    def edited(self, model: str | None, parameters: RequestParameters) -> tuple[UploadBody, tuple[str, ...]]:
        """The form with another model's name (None: as it came) and a serve's parameters, and what these change.

        Raises ClientError 400 as `edit_form`.
        """
        edits, changes = edit_form(self._parts, self._boundary, parameters) if parameters else ([], ())
        if model is not None:
            field = self.fields["model"]
            edits.append(FormEdit(field.start, field.end, model.encode()))
        return UploadBody(self._spool, sorted(edits)), changes

    def close(self) -> None:
        """Drop the form."""
        self._spool.close()

    async def _keep(self, exchange: HttpExchange, scanner: MultipartScanner, run: Run) -> None:
        """Scan and store what has come; meanwhile nothing more is read, so that memory stays bounded."""
        data = exchange.take_body()
        exchange.pause_body()
        try:
            await run(_store, scanner, self._spool, data)
        finally:
            exchange.resume_body()
        if self._spool.is_on_disk:
            exchange.give_back_body()


class UploadBody:
    """What is sent to a serve. `pieces` may be called again, if the request has to be sent again."""

    def __init__(self, spool: Spool, edits: Sequence[FormEdit]) -> None:
        """`edits`: by their offsets, none within another."""
        self._spool = spool
        self._edits = edits
        self.size = spool.size + sum(len(edit.replacement) - (edit.end - edit.start) for edit in edits)

    def pieces(self) -> Iterator[bytes]:
        at = 0
        for edit in self._edits:
            yield from self._spool.read(at, edit.start)
            if edit.replacement:
                yield edit.replacement
            at = edit.end
        yield from self._spool.read(at, self._spool.size)


def _store(scanner: MultipartScanner, spool: Spool, data: bytes) -> None:
    scanner.feed(data)
    spool.write(data)


def _boundary(exchange: HttpExchange) -> bytes:
    given = [value for name, value in exchange.raw_headers if name == b"content-type"]
    if len(given) > 1:
        raise ClientError("the request has two 'content-type' headers: send one", code="repeated_header")
    return boundary_of(given[0] if given else b"")


def _too_large(limit: int) -> ClientError:
    text = f"the request body is larger than {limit} bytes (front_door.upload_limit)"
    return ClientError(text, code="body_too_large", status=413)


class Spool:
    """A body that may be too large for memory: beyond `MEMORY`, it lies in a file without a name.

    Written once, read as often as needed. The file has no name: when it is closed, or Stoker ends in whatever way,
    nothing is left.
    """

    def __init__(self, directory: str) -> None:
        """`directory`: of the file; empty: the system's directory for temporary files."""
        self._file = tempfile.SpooledTemporaryFile(MEMORY, dir=directory or None)  # noqa: SIM115  # until `close`
        self.size = 0
        self.is_on_disk = False
        self._next_look = 0

    def write(self, data: bytes) -> None:
        """Raises CapacityError 503 if the disk does not take it, or is almost full. May block for as long as the disk
        takes.
        """
        try:
            self._file.write(data)
            self.size += len(data)
            self.is_on_disk = self.size > MEMORY
            free = self._free_space()
        except OSError as error:
            text = f"the request body cannot be stored: {error.strerror or error}; retry later"
            raise CapacityError(text, code="spool_failed", retry_after=RETRY_AFTER) from error
        if free < RESERVE:
            text = f"the request body cannot be stored: only {figures.size(free)} of the disk are free; retry later"
            raise CapacityError(text, code="spool_failed", retry_after=RETRY_AFTER)

    def _free_space(self) -> int:
        """Of the disk, if it is time to look at it; else RESERVE."""
        if not self.is_on_disk or self.size < self._next_look:
            return RESERVE
        self._next_look = self.size + LOOK_EVERY
        disk = os.fstatvfs(self._file.fileno())
        return disk.f_bavail * disk.f_frsize

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, in pieces."""
        while start < end:
            self._file.seek(start)
            piece = self._file.read(min(PIECE, end - start))
            if not piece:
                raise EOFError(f"the stored request body ends at {start} bytes")
            start += len(piece)
            yield piece

    def close(self) -> None:
        """Give the space back. May be called twice."""
        self._file.close()
