"""Finds `model` in a multipart/form-data body that comes in pieces, without holding more of it than short fields.

The serve parses the body again, and must not find other fields in it. So the scanner accepts only what every parser
reads alike (RFC 7578, RFC 2046 5.1), and refuses what only some tolerate: text before the first boundary or after the
last one, lines that end without CR, the boundary anywhere but at the beginning of a line, continued header lines,
parameters that occur twice, and fields in another encoding.

No library does that: of 21 such forms, `multipart` accepts 11 in its strict mode and `python-multipart` 13 (versions
2.0.1 and 0.0.34), and neither says where in the body a field stands.

Time is linear in the size of the body, however it is cut into pieces; memory is bounded by the limits below.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from stoker.domain.errors import ClientError

MAX_PARTS = 128
MAX_PART_HEADERS = 8 * 1024
"""Bytes of the headers of one part."""
MAX_VALUE = 1024
"""Bytes of a field that is read."""
READ = ("model", "stream", "n")
"""The fields that are read; each may occur once."""

LONGEST_NAME = 64
"""Characters of the name of a part that is found again."""

_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_PARAMETER = re.compile(
    rb"[ \t]*;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:([!#$%&'+\-.^_`|~0-9A-Za-z*/:@{}]+)"
    rb'|"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*+)")'
)
_REST = re.compile(rb"[ \t]*;?[ \t]*")
_PLAIN_ENCODINGS = (b"7bit", b"8bit", b"binary")
_PLAIN_CHARSETS = (b"utf-8", b"utf8", b"us-ascii", b"ascii")


class FormField(msgspec.Struct, frozen=True, gc=False):
    """The text of a short field, and the offsets of its first byte and its end in the body."""

    text: str
    start: int
    end: int


class FormPart(msgspec.Struct, frozen=True, gc=False):
    """The name of a part, and the offsets of the boundary that begins it and of the next boundary."""

    name: str
    begin: int
    end: int


def boundary_of(content_type: bytes) -> bytes:
    """The boundary in a Content-Type. Raises ClientError: 415 for another type, 400 without a valid boundary."""
    kind, parameters = _split(content_type, "the Content-Type")
    if kind != b"multipart/form-data":
        shown = content_type[:60].decode("latin-1")
        text = f"this path takes multipart/form-data, and the Content-Type is {shown!r}"
        raise ClientError(text, code="content_type", status=415)
    boundary = parameters.get(b"boundary")
    if boundary is None:
        raise _bad("the Content-Type has no boundary: let the HTTP library set the header")
    if not _BOUNDARY.fullmatch(boundary):
        raise _bad("the boundary in the Content-Type is not 1 to 70 of the characters that RFC 2046 allows")
    return boundary


class MultipartScanner:
    """`feed` it the body, piece by piece, then `finish`. Both raise ClientError 400, which says what is wrong."""

    def __init__(self, boundary: bytes) -> None:
        self._mark = b"--" + boundary
        self._buffer = b""
        self._at = 0
        """Offset of the buffer in the body."""
        self.parts: list[FormPart] = []
        """Those so far, without those that have longer names."""
        self._count = 0
        self._name = ""
        """The field whose content is read now; empty: it is skipped."""
        self._part_name = ""
        self._begin = 0
        """Where the boundary of the part begins."""
        self._start = 0
        """Offset at which that content begins."""
        self._value = b""
        self.fields: dict[str, FormField] = {}
        """The fields that were read so far."""
        self._step: Callable[[], bool] = self._opening

    def feed(self, data: bytes) -> None:
        """Read another piece of the body."""
        self._buffer += data
        while self._step():
            pass

    def finish(self) -> dict[str, FormField]:
        """The fields that were read, `model` among them."""
        if self._step != self._end or self._buffer not in (b"", b"\r\n"):
            raise _bad("it is cut off: the boundary that ends it has not come")
        if "model" not in self.fields:
            text = "'model' is missing in the form; see GET /v1/models for the names"
            raise ClientError(text, code="bad_model", param="model")
        if not self.fields["model"].text:
            text = "'model' is empty in the form; see GET /v1/models for the names"
            raise ClientError(text, code="bad_model", param="model")
        return self.fields

    # -- steps: each consumes what it understands, and returns False if it needs more ----------------------------------

    def _opening(self) -> bool:
        given, mark = self._buffer[: len(self._mark)], self._mark
        if not mark.startswith(given):
            raise _bad("it does not begin with the boundary that the Content-Type names")
        if len(given) < len(mark):
            return False
        self._consume(len(mark))
        self._step = self._delimiter
        return True

    def _delimiter(self) -> bool:
        """Reads what follows a boundary: a line end, or two dashes."""
        following = self._buffer[:2]
        if following == b"\r\n":
            self._count += 1
            if self._count > MAX_PARTS:
                raise _bad(f"it has more than {MAX_PARTS} parts")
            self._step = self._headers
        elif following == b"--":
            self._step = self._end
        elif len(following) < 2 and following in (b"", b"\r", b"-"):
            return False
        else:
            raise _bad("a boundary is followed by neither a line's end nor '--'")
        self._consume(2)
        return True

    def _headers(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_PART_HEADERS + 4)
        if end < 0:
            if len(self._buffer) >= MAX_PART_HEADERS + 4:
                raise _bad(f"the headers of part {self._count} are longer than {MAX_PART_HEADERS} bytes")
            return False
        name = self._read_headers(self._buffer[:end])
        self._consume(end + 4)
        self._name, self._start, self._value = name, self._at, b""
        self._step = self._content
        return True

    def _content(self) -> bool:
        found = self._buffer.find(self._mark)
        if found < 0:
            # A boundary, with the line end before it, may begin in the rest of the buffer.
            self._take(max(0, len(self._buffer) - len(self._mark) - 1))
            return False
        if found < 2 or self._buffer[found - 2 : found] != b"\r\n":
            raise _bad(f"part {self._count} has the boundary in its content, where no new line begins")
        end = self._at + found - 2
        self._take(found - 2)
        if len(self._part_name) <= LONGEST_NAME:
            self.parts.append(FormPart(self._part_name, self._begin, end + 2))
        self._begin = end + 2
        if self._name:
            self.fields[self._name] = FormField(_text(self._name, self._value), self._start, end)
        self._consume(2 + len(self._mark))
        self._step = self._delimiter
        return True

    def _end(self) -> bool:
        if not b"\r\n".startswith(self._buffer[:3]):
            raise _bad("there is more after its end")
        return False

    # ------------------------------------------------------------------------------------------------------------------

    def _consume(self, size: int) -> None:
        self._buffer = self._buffer[size:]
        self._at += size

    def _take(self, size: int) -> None:
        """Consumes content, and keeps it if the field is one of READ."""
        if self._name:
            self._value += self._buffer[:size]
            if len(self._value) > MAX_VALUE:
                text = f"'{self._name}' in the form is longer than {MAX_VALUE} bytes"
                raise ClientError(text, code="bad_field", param=self._name)
        self._consume(size)

    def _read_headers(self, block: bytes) -> str:
        """The field's name if it is one of READ; else empty."""
        headers: dict[bytes, bytes] = {}
        for line in block.split(b"\r\n"):
            header = _HEADER.fullmatch(line)
            if header is None:
                raise _bad(f"part {self._count} has a header line that is none")
            key = header[1].lower()
            if key in headers:
                raise _bad(f"part {self._count} has two headers {header[1][:40].decode('latin-1')!r}")
            headers[key] = header[2]
        given = headers.get(b"content-disposition")
        if given is None:
            raise _bad(f"part {self._count} has no Content-Disposition")
        kind, parameters = _split(given, f"the Content-Disposition of part {self._count}")
        if kind != b"form-data" or b"name*" in parameters or b"name" not in parameters:
            raise _bad(f"the Content-Disposition of part {self._count} is not 'form-data; name=\"...\"'")
        if headers.get(b"content-transfer-encoding", b"binary").strip().lower() not in _PLAIN_ENCODINGS:
            raise _bad(f"part {self._count} has a Content-Transfer-Encoding (RFC 7578, 4.7)")
        raw = parameters[b"name"]
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            raise _bad(f"the name of part {self._count} is not UTF-8") from None
        if b"\\" in raw:
            raise _bad(f"the name of part {self._count} has a backslash")
        self._part_name = name
        if name not in READ:
            return ""
        if name in self.fields:
            text = f"'{name}' appears twice in the form: send it once"
            raise ClientError(text, code="duplicate_field", param=name)
        is_file = b"filename" in parameters or b"filename*" in parameters
        if is_file or not _is_plain_text(headers.get(b"content-type"), self._count):
            text = f"'{name}' in the form is not plain text in UTF-8, or has a file name"
            raise ClientError(text, code="bad_field", param=name)
        return name


def _split(value: bytes, where: str) -> tuple[bytes, dict[bytes, bytes]]:
    """A header's first word in lower case, and its parameters. A quoted value keeps its backslashes."""
    word, at = value.partition(b";")[0], 0
    at = len(word)
    parameters: dict[bytes, bytes] = {}
    while found := _PARAMETER.match(value, at):
        name = found[1].lower()
        if name in parameters:
            raise _bad(f"{where} has the parameter {name[:40].decode('latin-1')!r} twice")
        parameters[name] = found[2] if found[2] is not None else found[3]
        at = found.end()
    if not _REST.fullmatch(value, at):
        raise _bad(f"{where} cannot be read")
    return word.strip().lower(), parameters


def _is_plain_text(content_type: bytes | None, part: int) -> bool:
    if content_type is None:
        return True
    kind, parameters = _split(content_type, f"the Content-Type of part {part}")
    return kind == b"text/plain" and parameters.get(b"charset", b"utf-8").lower() in _PLAIN_CHARSETS


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ClientError(f"'{name}' in the form is not UTF-8", code="bad_field", param=name) from None


def _bad(what: str) -> ClientError:
    return ClientError(f"the form in the request body cannot be read: {what}", code="bad_form")
