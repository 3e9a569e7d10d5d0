"""Fetches pages of the public web, by the rules of `stoker.request.relay.public_fetcher`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from stoker.domain.server_tools import WebPage
from stoker.http.response import ResponseReader
from stoker.request.relay.public_fetcher import FetchFailed, FetchRefused, FetchRules, PublicAddress, PublicFetcher
from stoker_tools.page_text import page_text
from stoker_tools.search import SearchQuery, ToolFailed, is_listed
from stoker_tools.tables import Tool

_ACCEPT = "text/html, text/plain;q=0.9, application/json;q=0.8, */*;q=0.1"
_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("application/json", "application/xml", "application/javascript", "application/x-yaml", "application/toml")
_CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9._:-]{1,40})", re.ASCII)
_CHARSETS = frozenset((
    "utf-8", "utf8", "utf-16", "utf-16le", "utf-16be", "us-ascii", "ascii", "latin1", "macintosh", "gbk", "gb2312",
    "gb18030", "big5", "big5-hkscs", "euc-jp", "shift-jis", "iso-2022-jp", "euc-kr", "koi8-r", "koi8-u", "ibm866",
    "ks-c-5601-1987", "tis-620", "cp874", *(f"iso-8859-{at}" for at in (*range(1, 12), *range(13, 17))),
    *(f"{name}125{at}" for at in range(9) for name in ("windows-", "cp")),
))  # fmt: skip
"""Those of the web. Python knows more, of which some take quadratic time, and some make halves of characters."""
_URL = re.compile(r"https?://[^\s<>\"'`\\^{|}\x00-\x20]+", re.IGNORECASE)
_TRAILING = ".,;:!?)]}*_"


async def fetch(tool: Tool, url: str, lists: SearchQuery, fetcher: PublicFetcher) -> WebPage:
    """The page, as text. `lists`: the hosts that the client allows and blocks, which hold for each redirect. Raises
    ToolFailed. The caller bounds the time; on cancel no connection stays open.
    """
    with _failures():
        at, answer = await fetcher.get(url, _rules(tool, lists))
    if answer.status != 200:
        raise ToolFailed("too_many_requests" if answer.status == 429 else "url_not_accessible",
                         f"it answered HTTP {answer.status}")  # fmt: skip
    if answer.headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        raise ToolFailed("unsupported_content_type", "it is compressed, although that was not asked for")
    title, text = await asyncio.to_thread(_text, at.address(), answer)
    return WebPage(at.address(), title, text, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


async def check_address(tool: Tool, url: str, lists: SearchQuery, fetcher: PublicFetcher) -> None:
    """That `fetch` would ask for it. Raises ToolFailed."""
    with _failures():
        await fetcher.check(url, _rules(tool, lists))


def _rules(tool: Tool, lists: SearchQuery) -> FetchRules:
    def check(at: PublicAddress) -> None:
        if not is_listed(at.address(), lists):
            raise FetchRefused(at.host, "the client's lists do not allow the host")

    return FetchRules(tool.hosts, tool.max_bytes, _ACCEPT, check)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except FetchRefused as error:
        raise ToolFailed("url_not_allowed", error.why) from None
    except FetchFailed as error:
        raise ToolFailed("url_not_accessible", error.why) from None


def _text(url: str, answer: ResponseReader) -> tuple[str, str]:
    """Raises ToolFailed: it is no text."""
    header = answer.headers.get(b"content-type", b"").decode("latin-1").lower()
    kind = header.partition(";")[0].strip()
    found = _CHARSET.search(header)
    text = decoded(bytes(answer.body), found.group(1) if found else "utf-8")
    if kind in _HTML or (not kind and "<html" in text[:1000].lower()):
        return page_text(text, url)
    if kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml")) or not kind:
        return "", text
    raise ToolFailed("unsupported_content_type", "it is neither a web page nor text")


def decoded(data: bytes, charset: str) -> str:
    """The text. An encoding that is none of the web's is read as UTF-8."""
    return data.decode(charset if charset.replace("_", "-") in _CHARSETS else "utf-8", "replace")


def addresses_in(text: str) -> set[str]:
    """The URLs that stand in a text, as `same_address` compares them. Linear in the text."""
    return {same_address(one) for found in _URL.findall(text) for one in (found, found.rstrip(_TRAILING))}


def same_address(url: str) -> str:
    """What two ways of writing an address have in common."""
    scheme, colon, rest = url.partition("://")
    host, _, path = rest.partition("#")[0].partition("/")
    return f"{scheme.lower()}{colon}{host.lower()}/{path}".removesuffix("/") if colon else url
