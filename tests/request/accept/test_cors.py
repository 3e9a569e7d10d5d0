"""What a browser is told about pages of other origins, and what such a page cannot make it do."""

from __future__ import annotations

import pytest

from stoker.domain.errors import ClientError
from stoker.request.accept.cors import Cors

PAGE = b"https://chat.example.com"
PAGES = Cors(("https://Chat.example.com",))
ASKS = {b"origin": PAGE, b"access-control-request-method": b"POST"}


def test_an_allowed_page_is_named_and_may_read_what_stoker_says() -> None:
    told = PAGES.reply_headers({b"origin": PAGE})
    assert told[b"access-control-allow-origin"] == PAGE
    assert b"x-request-id" in told[b"access-control-expose-headers"]
    assert told[b"vary"] == b"Origin"


@pytest.mark.parametrize(
    "origin", [b"https://evil.example", b"null", b"*", b"", b"https://chat.example.com.evil.example"]
)
def test_another_page_is_told_nothing_and_caches_keep_the_two_apart(origin: bytes) -> None:
    assert PAGES.reply_headers({b"origin": origin}) == {b"vary": b"Origin"}
    assert PAGES.preflight("OPTIONS", {**ASKS, b"origin": origin}) is None
    assert PAGES.reply_headers({}) == {b"vary": b"Origin"}


def test_a_preflight_allows_the_headers_that_are_asked_for() -> None:
    told = PAGES.preflight("OPTIONS", {**ASKS, b"access-control-request-headers": b"authorization,x-stainless-os"})
    assert told is not None
    assert told[b"access-control-allow-headers"] == b"authorization,x-stainless-os"
    assert told[b"access-control-allow-methods"] == b"GET, HEAD, POST"
    assert int(told[b"access-control-max-age"]) > 0
    assert b"access-control-allow-private-network" not in told


@pytest.mark.parametrize("wanted", [b"", b"a\x01b", b"x" * 2001, b"a: b"])
def test_headers_that_are_none_are_not_repeated(wanted: bytes) -> None:
    told = PAGES.preflight("OPTIONS", {**ASKS, b"access-control-request-headers": wanted})
    assert told is not None
    assert b"access-control-allow-headers" not in told


def test_a_page_that_asks_for_a_private_network_gets_it() -> None:
    told = PAGES.preflight("OPTIONS", {**ASKS, b"access-control-request-private-network": b"true"})
    assert told is not None
    assert told[b"access-control-allow-private-network"] == b"true"


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_what_asks_nothing_is_no_preflight(method: str) -> None:
    assert PAGES.preflight(method, ASKS) is None
    assert PAGES.preflight("OPTIONS", {b"origin": PAGE}) is None
    assert PAGES.preflight("OPTIONS", {b"access-control-request-method": b"POST"}) is None


@pytest.mark.parametrize("site", [b"cross-site", b"same-site", b"", b"x"])
def test_an_image_of_another_page_is_refused(site: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        PAGES.refuse_embedding({b"sec-fetch-site": site})
    assert (caught.value.status, caught.value.code) == (403, "foreign_page")


@pytest.mark.parametrize(
    "headers",
    [{}, {b"sec-fetch-site": b"none"}, {b"sec-fetch-site": b"same-origin"},
     {b"sec-fetch-site": b"cross-site", b"origin": PAGE}],
)  # fmt: skip
def test_programs_people_and_allowed_pages_come_in(headers: dict[bytes, bytes]) -> None:
    PAGES.refuse_embedding(headers)
