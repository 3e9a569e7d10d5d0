"""A form is found the same fields in, however it is cut; what two parsers could read differently is refused."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import ClientError
from stoker.request.codec.multipart import (
    MAX_PART_HEADERS,
    MAX_PARTS,
    MAX_VALUE,
    FormField,
    MultipartScanner,
    boundary_of,
)

MARK = b"--xyz"


def part(name: str, content: bytes = b"", more: str = "", *headers: str) -> bytes:
    """One part with its boundary in front."""
    lines = [f'Content-Disposition: form-data; name="{name}"{more}', *headers]
    return MARK + b"\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + MARK + b"--\r\n"


def scan(body: bytes, cuts: list[int] | None = None) -> dict[str, FormField]:
    scanner = MultipartScanner(b"xyz")
    ends = sorted({min(cut, len(body)) for cut in cuts or []} | {len(body)})
    for start, end in zip([0, *ends], ends, strict=False):
        scanner.feed(body[start:end])
    return scanner.finish()


def refusal(body: bytes, cuts: list[int] | None = None) -> ClientError:
    with pytest.raises(ClientError) as caught:
        scan(body, cuts)
    return caught.value


MODEL = part("model", b"whisper-1")
FILE = part("file", b"RIFF\r\n--xy\r\n-\r\r\n--\x00\xff", '; filename="a \\"b\\".wav"', "Content-Type: audio/wav")
CUTS = st.lists(st.integers(0, 900), max_size=60)
CONTENT = st.lists(st.sampled_from([b"\r", b"\n", b"-", b"--", b"\r\n--xy", b"z", b"x", b"\x00", b"\r\n"])).map(
    b"".join
)


@given(CUTS, CONTENT, st.booleans())
def test_however_it_is_cut_the_same_fields_are_found(cuts: list[int], content: bytes, is_first: bool) -> None:
    if MARK in content:
        return
    file = part("file", content, '; filename="speech.wav"', "Content-Type: audio/wav")
    parts = [MODEL, file] if is_first else [file, MODEL]
    body = form(*parts, part("stream", b"true"), part("language", b"en"))
    found = scan(body, cuts)
    assert found == scan(body)
    assert found.keys() == {"model", "stream"}
    field = found["model"]
    assert (field.text, body[field.start : field.end]) == ("whisper-1", b"whisper-1")


@given(CUTS, st.integers(0, 400))
def test_however_it_is_cut_what_is_cut_off_is_refused(cuts: list[int], length: int) -> None:
    body = form(FILE, MODEL)
    whole = len(body)
    cut = body[: min(length, whole - 3)]  # without the last line's end it is complete
    error = refusal(cut, cuts)
    assert (error.status, error.code) == (400, "bad_form")
    assert "cut off" in error.message


@given(CUTS, st.integers(0, 300), st.binary(min_size=1, max_size=3))
def test_random_damage_is_read_alike_however_it_is_cut(cuts: list[int], at: int, damage: bytes) -> None:
    body = form(FILE, MODEL, part("n", b"2"))
    at = min(at, len(body))
    body = body[:at] + damage + body[at + len(damage) :]

    def outcome(where: list[int]) -> object:
        try:
            return scan(body, where)
        except ClientError as error:
            return error.code

    assert outcome(cuts) == outcome([])


def test_the_end_needs_no_line_of_its_own() -> None:
    assert scan(form(MODEL)[:-2])["model"].text == "whisper-1"


def test_an_empty_file_and_a_long_one_with_other_headers_are_accepted() -> None:
    body = form(
        part("file", b"", '; filename=""', "Content-Type: application/octet-stream"),
        part("image[]", b"x" * 3000, "; filename*=utf-8''gr%C3%BC%C3%9Fe.png", "Content-Length: 3000"),
        part("model", b"m", "", "Content-Type: text/plain; charset=UTF-8", "Content-Transfer-Encoding: 8bit"),
    )
    assert scan(body, [5, 77, 300])["model"].text == "m"


BROKEN = {
    "no model": (form(FILE), "bad_model", "'model' is missing"),
    "an empty model": (form(part("model")), "bad_model", "'model' is empty"),
    "two models": (form(MODEL, FILE, MODEL), "duplicate_field", "'model' appears twice"),
    "a model that is a file": (form(part("model", b"x", '; filename="m"')), "bad_field", "plain text"),
    "a model in UTF-16": (
        form(part("model", b"x", "", "Content-Type: text/plain; charset=utf-16")), "bad_field", "plain text",
    ),
    "a model in base64": (form(part("model", b"eA==", "", "Content-Transfer-Encoding: base64")), "bad_form", "7578"),
    "a model that is no UTF-8": (form(part("model", b"\xff")), "bad_field", "not UTF-8"),
    "a long model": (form(part("model", b"x" * (MAX_VALUE + 1))), "bad_field", "longer than"),
    "another boundary": (form(MODEL).replace(MARK, b"--abc"), "bad_form", "does not begin with the boundary"),
    "a preamble": (b"hello\r\n" + form(MODEL), "bad_form", "does not begin with the boundary"),
    "an epilogue": (form(MODEL) + b"x", "bad_form", "more after its end"),
    "a boundary after LF alone": (
        form(part("file", b"a\n--xyz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nevil")), "bad_form",
        "where no new line begins",
    ),
    "a boundary that goes on": (form(MODEL, part("file", b"a\r\n--xyzz")), "bad_form", "neither a line's end nor"),
    "no line before the boundary": (
        MARK + b"\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + form(MODEL), "bad_form",
        "no new line begins",
    ),
    "no Content-Disposition": (MARK + b"\r\nContent-Type: text/plain\r\n\r\nx\r\n" + form(MODEL), "bad_form", "no Con"),
    "two of them": (
        form(part("a", b"", "", 'Content-Disposition: form-data; name="model"')), "bad_form", "two headers",
    ),
    "two names": (form(part("a", b"x", '; name="model"')), "bad_form", "'name' twice"),
    "an extended name": (form(part("a", b"x", "; name*=utf-8''model")), "bad_form", "is not 'form-data"),
    "an escaped name": (form(part("mod\\el", b"x")), "bad_form", "backslash"),
    "an attachment": (form(MODEL).replace(b"form-data;", b"attachment;"), "bad_form", "is not 'form-data"),
    "a folded header": (form(part("a", b"x", ";\r\n name2=b")), "bad_form", "header line"),
    "a header without a colon": (form(part("a", b"x", "", "Content-Type text/plain")), "bad_form", "header line"),
    "a space before the colon": (form(part("a", b"x", "", "Content-Type : text/plain")), "bad_form", "header line"),
    "a quote that does not end": (form(part("a", b"x", '; filename="b')), "bad_form", "cannot be read"),
    "long headers": (form(part("a", b"x", "", "X-Y: " + "y" * MAX_PART_HEADERS)), "bad_form", "longer than 8192"),
    "headers without an end": (MARK + b"\r\n" + b"A: b\r\n" * 3000, "bad_form", "longer than 8192"),
    "many parts": (form(*[part("a")] * MAX_PARTS, MODEL), "bad_form", "more than 128 parts"),
    "nothing": (b"", "bad_form", "cut off"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_what_two_parsers_could_read_differently_is_refused(what: str) -> None:
    body, code, said = BROKEN[what]
    for cuts in ([], list(range(0, len(body), 7))):
        error = refusal(body, cuts)
        assert (error.status, error.code) == (400, code), error.message
        assert said in error.message


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (b"", 415, "takes multipart/form-data"),
        (b"application/json", 415, "takes multipart/form-data"),
        (b"multipart/mixed; boundary=x", 415, "takes multipart/form-data"),
        (b"multipart/form-data", 400, "has no boundary"),
        (b"multipart/form-data; boundary=", 400, "cannot be read"),
        (b'multipart/form-data; boundary=""', 400, "RFC 2046"),
        (b'multipart/form-data; boundary="a\\b"', 400, "RFC 2046"),
        (b"multipart/form-data; boundary=" + b"x" * 71, 400, "RFC 2046"),
        (b'multipart/form-data; boundary="x "', 400, "RFC 2046"),
        (b"multipart/form-data; boundary=a; boundary=b", 400, "twice"),
    ],
)
def test_a_content_type_without_a_valid_boundary_is_refused(given: bytes, status: int, said: str) -> None:
    with pytest.raises(ClientError, match=said) as caught:
        boundary_of(given)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "given", [b"multipart/form-data; boundary=a-b", b'Multipart/Form-Data ;charset=x; Boundary="a-b";']
)
def test_a_boundary_is_found_in_each_spelling(given: bytes) -> None:
    assert boundary_of(given) == b"a-b"


def test_time_is_linear_and_memory_bounded_even_for_a_body_of_near_boundaries() -> None:
    piece = b"\r\n--xy" * 40_000
    scanner = MultipartScanner(b"xyz")
    scanner.feed(MARK + b'\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n')
    tracemalloc.start()
    began = time.process_time()
    for _ in range(100):
        scanner.feed(piece)
    assert time.process_time() - began < 5.0
    assert tracemalloc.get_traced_memory()[1] < 4 * len(piece)
    tracemalloc.stop()
    scanner.feed(b"\r\n" + form(MODEL))
    assert scanner.finish()["model"].text == "whisper-1"
