"""An image is what its bytes say; what is none is refused with its place."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import ClientError
from stoker.domain.prompt import Document, Image
from stoker.request.translate.neutral import media

BYTES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/bmp": b"BM",
    "image/webp": b"RIFF\x10\0\0\0WEBPVP8 ",
    "application/pdf": b"%PDF-1.7",
}


def spelt(head: bytes, length: int = 60) -> str:
    return base64.b64encode(head.ljust(length, b"\0")).decode()


PNG = spelt(BYTES["image/png"])


@pytest.mark.parametrize("kind", BYTES)
def test_the_first_bytes_tell_what_it_is(kind: str) -> None:
    assert media.sniff(spelt(BYTES[kind])) == kind
    assert media.sniff(spelt(BYTES[kind], 18)) == kind


@pytest.mark.parametrize("data", ["", "AAAA", "not base64 at all", "ääää", "A=AA" * 20, spelt(b"RIFF....WAVE")])
def test_other_bytes_tell_nothing(data: str) -> None:
    assert media.sniff(data) is None


@given(st.text(max_size=100) | st.text(alphabet="ABab09+/=", max_size=100))
def test_whatever_is_looked_at_nothing_is_raised(data: str) -> None:
    media.sniff(data)
    assert media.text_of(Document("text/plain", data=data)) is not None or not media.is_base64(data)


def test_the_label_of_an_image_is_not_believed() -> None:
    assert media.from_url(f"data:image/jpeg;base64,{PNG}", "x") == Image("image/png", PNG)


@pytest.mark.parametrize("head", ["DATA:;BASE64,", "data:image/png;charset=utf-8;name=a.png;base64,", ""])
def test_an_image_may_come_as_a_data_uri_or_as_bare_base64(head: str) -> None:
    assert media.from_url(head + PNG, "x") == Image("image/png", PNG)


@pytest.mark.parametrize("url", ["https://a.b/c.png", "HTTP://a.b/c.png"])
def test_an_address_stays_one(url: str) -> None:
    assert media.from_url(url, "x") == Image(url=url)


@pytest.mark.parametrize(
    "url",
    [
        "", "file:///etc/passwd", "ftp://x/y", "iVBORw0KGgo=", "x" * 63, "data:image/png,raw", "data:image/png;base64",
        f"data:image/png;base64,{PNG}\n", "data:image/png;base64,", f"data:;base64,{spelt(b'%PDF-1.7')}",
        spelt(b"plain text"), "data:" + ";a" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused(url: str) -> None:
    with pytest.raises(ClientError) as caught:
        media.from_url(url, "messages[0].content[1].image_url.url")
    error = caught.value
    assert (error.status, error.code, error.param) == (400, "bad_image", "messages[0].content[1].image_url.url")


def test_a_data_uri_says_what_it_claims_to_be() -> None:
    assert media.data_uri("data:Application/PDF;base64,QUJD", "x") == ("application/pdf", "QUJD")


def test_an_image_is_written_as_it_came() -> None:
    assert media.to_url(Image("image/png", "QUJD")) == "data:image/png;base64,QUJD"
    assert media.to_url(Image(url="https://a.b/c")) == "https://a.b/c"


@pytest.mark.parametrize(
    ("data", "is_so"),
    [("QUJD", True), ("QUI=", True), ("QQ==", True), ("", False), ("QUJ", False), ("A===", False), ("QU=D", False),
     ("QU D", False), ("QUJD\n", False), ("QU-_", False)],
)  # fmt: skip
def test_base64_has_no_blanks_and_is_padded(data: str, is_so: bool) -> None:
    assert media.is_base64(data) is is_so


@pytest.mark.parametrize("size", [256 * 1024, 256 * 1024 + 4, 512 * 1024, 1024 * 1024])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_base64_of_any_size_is_looked_at_whole(size: int, place: str) -> None:
    data = "A" * size
    at = {"first": 0, "middle": size // 2, "last": size - 1}[place]
    assert media.is_base64(data)
    assert media.is_base64(f"{data[:-2]}==")
    assert not media.is_base64(f"{data[:at]} {data[at + 1 :]}")
    assert not media.is_base64(f"{data[: at - 4]}===={data[at:]}" if at else f"===={data[4:]}")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (Document(text="hi"), "hi"),
        (Document("text/csv", data=base64.b64encode("ä,b\xff".encode()).decode()), "ä,bÿ"),
        (Document("text/plain", data="/w=="), "\ufffd"),
        (Document("text/plain", text=""), ""),
        (Document("text/plain", data="no base64"), None),
        (Document("application/pdf", data="QUJD"), None),
        (Document(url="https://a.b/c.pdf"), None),
    ],
)
def test_a_document_that_is_text_gives_it(document: Document, text: str | None) -> None:
    assert media.text_of(document) == text
