"""Reads a form with files: finds its fields while it comes, and keeps it so that it can be sent as it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

from stoker.domain.errors import ClientError, ClientLeft
from stoker.domain.request_parameters import RequestParameters
from stoker.request.accept.spool import MEMORY, Spool
from stoker.request.accept.wire import Wire
from stoker.request.codec.form_parameters import FormEdit, edit_form
from stoker.request.codec.multipart import FormField, FormPart, MultipartScanner, boundary_of

BATCH = 256 * 1024
"""Bytes that are scanned and stored at a time."""

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

    async def receive(self, wire: Wire, limit: int, run: Run, check_model: Callable[[str], None]) -> None:
        """Read the body of a request. `run(work, *arguments)` does work that may block. `check_model(name)` is called
        once, as soon as the model is known; what it raises ends the upload.

        Raises as `body.wait_for_body`, and ClientError 400 or 415 as `MultipartScanner`.
        """
        self._boundary = _boundary(wire)
        scanner = MultipartScanner(self._boundary)
        declared = wire.headers.get(b"content-length")
        if declared is not None and int(declared) > limit:
            raise _too_large(limit)
        seen, is_checked = 0, False
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
                if not is_checked and (model := scanner.fields.get("model")) is not None:
                    is_checked = True
                    check_model(model.text)
            if wire.is_whole and wire.received == seen:
                break
            if not wire.is_whole:
                await wire.wait_for_more()
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


def _boundary(wire: Wire) -> bytes:
    given = [value for name, value in wire.raw_headers if name == b"content-type"]
    if len(given) > 1:
        raise ClientError("the request has two 'content-type' headers: send one", code="repeated_header")
    return boundary_of(given[0] if given else b"")


def _too_large(limit: int) -> ClientError:
    text = f"the request body is larger than {limit} bytes (front_door.upload_limit)"
    return ClientError(text, code="body_too_large", status=413)
