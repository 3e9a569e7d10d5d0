"""Where an address leads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import ClientError
from stoker.request.relay.image_fetcher import LONGEST, ImageAddress, parse_image_address


@pytest.mark.parametrize(
    ("url", "expected", "authority"),
    [
        ("http://a.example", ImageAddress("http", "a.example", 80, "/"), "a.example"),
        ("HTTPS://A.Example./x?k=1#f", ImageAddress("https", "a.example", 443, "/x?k=1"), "a.example"),
        ("https://a.example:8443?k", ImageAddress("https", "a.example", 8443, "/?k"), "a.example:8443"),
        ("http://a.example:443/%20", ImageAddress("http", "a.example", 443, "/%20"), "a.example:443"),
        (
            "http://bücher.example/ü",
            ImageAddress("http", "xn--bcher-kva.example", 80, "/%C3%BC"),
            "xn--bcher-kva.example",
        ),
        ("http://[2606:4700:0:0::1]:8080/", ImageAddress("http", "2606:4700::1", 8080, "/"), "[2606:4700::1]:8080"),
        ("http://127.0.0.1/", ImageAddress("http", "127.0.0.1", 80, "/"), "127.0.0.1"),
    ],
)
def test_an_address_is_read_as_it_is_meant(url: str, expected: ImageAddress, authority: str) -> None:
    assert parse_image_address(url, ()) == expected
    assert expected.authority() == authority
    assert parse_image_address(expected.address(), ()) == expected


def test_a_redirect_is_relative_to_where_it_came_from() -> None:
    origin = parse_image_address("https://a.example:8443/x/y?k=1", ())
    assert parse_image_address("z?j", (), origin) == ImageAddress("https", "a.example", 8443, "/x/z?j")
    assert parse_image_address("//b.example/z", (), origin) == ImageAddress("https", "b.example", 443, "/z")
    assert parse_image_address("http://b.example/z", (), origin) == ImageAddress("http", "b.example", 80, "/z")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "an image is not fetched: its URL is not valid"),
        ("http:///path", "is not valid"),
        ("http:a.example", "is not valid"),
        ("//[", "is not valid"),
        ("http://[::1", "is not valid"),
        ("http://[zz:1]/", "is not valid"),
        ("http://a..b/", "is not valid"),
        ("http://" + "ü" * 70 + "/", "is not valid"),
        ("http://a%2eb/", "is not valid"),
        ("http://evil.example\\.good.example/", "is not valid"),
        ("http://a.example:99999/", "is not valid"),
        ("http://a.example:x/", "is not valid"),
        (" http://a.example/", "is not valid"),
        ("http://a.example/\r\nx: y", "is not valid"),
        ("ht\ntp://a.example/", "is not valid"),
        ("http://a.example/" + "x" * LONGEST, "is not valid"),
        ("ftp://a.example/?SECRET", "'a.example' is not fetched: its URL is neither http nor https"),
        ("file://a.example/", "neither http nor https"),
        ("http://SECRET:SECRET@a.example/", "contains a user or a password"),
        ("http://@a.example/", "contains a user or a password"),
        ("http://a.example:22/?SECRET", "port 22 is not one of 80, 443, 8080, 8443"),
        ("http://a.example:0/", "port 0 is not one of"),
    ],
)
def test_what_is_no_good_address_is_refused(url: str, why: str) -> None:
    with pytest.raises(ClientError, match=r"an image|the image") as error:
        parse_image_address(url, ())
    assert error.value.code == "image_url_refused"
    assert why in error.value.message
    assert "SECRET" not in error.value.message


def test_only_listed_hosts_where_there_is_a_list() -> None:
    hosts = ("a.example", "*.b.example")
    for host in ("a.example", "A.EXAMPLE.", "x.b.example", "y.x.b.example"):
        assert parse_image_address(f"http://{host}/", hosts).host in host.lower()
    for host in ("b.example", "x.a.example", "xb.example", "a.example.evil.example", "1.1.1.1"):
        with pytest.raises(ClientError, match=r"not in \[media\] hosts"):
            parse_image_address(f"http://{host}/", hosts)


@given(st.text() | st.text().map("http://".__add__) | st.text().map("http://a.example/".__add__), st.text())
def test_any_text_is_a_site_or_a_refusal(url: str, moved: str) -> None:
    for text, origin in ((url, None), (moved, parse_image_address("https://a.example/x", ()))):
        try:
            found = parse_image_address(text, (), origin)
        except ClientError:
            continue
        assert found.address().isascii()
        assert not set(found.address()) & set(" \r\n\t\x00")
