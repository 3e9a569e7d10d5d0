"""A serve's request parameters in a form: whole parts are removed or added, every other byte stays."""

from __future__ import annotations

import pytest
from tests.request.codec.test_multipart import FILE, MODEL, form, part

from stoker.domain.errors import ClientError
from stoker.domain.request_parameters import RequestParameters
from stoker.request.codec.form_parameters import edit_form
from stoker.request.codec.multipart import MultipartScanner

LANGUAGE, SEED = part("language", b"en"), part("seed", b"7")


def edited(body: bytes, parameters: RequestParameters) -> tuple[bytes, tuple[str, ...]]:
    scanner = MultipartScanner(b"xyz")
    for at in range(0, len(body), 7):
        scanner.feed(body[at : at + 7])
    scanner.finish()
    edits, changes = edit_form(scanner.parts, b"xyz", parameters)
    for start, end, replacement in reversed(edits):
        body = body[:start] + replacement + body[end:]
    MultipartScanner(b"xyz").feed(body)
    return body, changes


@pytest.mark.parametrize(
    ("parts", "parameters", "expected", "changes"),
    [
        ((LANGUAGE, FILE, MODEL), {"drop": ("language",)}, (FILE, MODEL), ("dropped:language",)),
        ((FILE, LANGUAGE, MODEL, LANGUAGE), {"drop": ("language",)}, (FILE, MODEL), ("dropped:language",)),
        ((FILE, MODEL), {"drop": ("language",)}, (FILE, MODEL), ()),
        ((FILE, MODEL), {"default": {"language": "en"}}, (LANGUAGE, FILE, MODEL), ("default:language",)),
        ((FILE, MODEL, LANGUAGE), {"default": {"language": "de"}}, (FILE, MODEL, LANGUAGE), ()),
        ((SEED, FILE, MODEL), {"set": {"seed": 7, "language": "en"}}, (SEED, LANGUAGE, FILE, MODEL),
         ("set:seed", "set:language")),
        ((FILE, part("seed", b"1"), MODEL), {"drop": ("seed",), "default": {"seed": 7}}, (SEED, FILE, MODEL),
         ("default:seed",)),
        ((part("mask", b"\x00\r\n", '; filename="m.png"'), MODEL), {"drop": ("mask",)}, (MODEL,), ("dropped:mask",)),
        ((MODEL,), {"set": {"vad": True, "opts": {"a": [1, 0.5]}, "words": "zwölf\r\n"}},
         (part("vad", b"true"), part("opts", b'{"a":[1,0.5]}'), part("words", "zwölf\r\n".encode()), MODEL),
         ("set:vad", "set:opts", "set:words")),
        ((part("x" * 65, b"1"), part("é", b"2"), MODEL), {"drop": ("x" * 64, "e")},
         (part("x" * 65, b"1"), part("é", b"2"), MODEL), ()),
    ],
)  # fmt: skip
def test_only_the_parts_that_are_named_change(
    parts: tuple[bytes, ...], parameters: dict[str, object], expected: tuple[bytes, ...], changes: tuple[str, ...]
) -> None:
    assert edited(form(*parts), RequestParameters(**parameters)) == (form(*expected), changes)  # type: ignore[arg-type]


def test_a_value_that_would_end_its_part_is_refused() -> None:
    with pytest.raises(ClientError) as caught:
        edited(form(MODEL), RequestParameters(set={"words": "a\r\n--xyz--"}))
    assert (caught.value.status, caught.value.code) == (400, "bad_form")
    assert "'words'" in caught.value.message
