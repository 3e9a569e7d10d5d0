"""Asks search services. Forms by their documentation: https://docs.searxng.org/dev/search_api.html,
https://api-dashboard.search.brave.com, https://docs.tavily.com, https://docs.exa.ai, https://docs.ollama.com.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from stoker.domain.host_port import host_port
from stoker.domain.server_tools import WebPage
from stoker.http.response import ResponseReader
from stoker.http.tls_contexts import tls_contexts
from stoker.request.codec import tolerant_json
from stoker_tools.tables import ADDRESSES, Tool, ToolService

CONNECT_WITHIN = 5.0
MOST_SITES = 5
"""Hosts that go into a query as `site:`."""
MOST_READ = 1000
"""Results of one answer that are looked at."""
SMALL = 32 * 1024
"""Bytes of text that are read without a thread, which would take longer than the work."""
Result = TypeVar("Result")


class ToolFailed(Exception):
    """A call failed. `error`: the word for clients. The text is for the operator: it has nothing of the request."""

    def __init__(self, error: str, why: str, words: str = "") -> None:
        """`words`: what a program said before it ended. It may hold secrets: only for who tries the tool by hand."""
        super().__init__(why)
        self.error = error
        self.why = why
        self.words = words


class NotBegun(ToolFailed):
    """Nothing was sent to the tool."""


class SearchQuery(NamedTuple):
    """What is searched."""

    text: str
    results: int
    allowed: Sequence[str] = ()
    """Hosts, with or without a path; empty: all."""
    blocked: Sequence[str] = ()
    hosts: Sequence[str] = ()
    """Those that the operator allows, besides; empty: all."""


class _Form(NamedTuple):
    """How one service is asked, and what it answers."""

    path: str
    request: Callable[[SearchQuery], dict[str, Any]]
    key: str
    """The header for its key; empty: it has none."""
    results: tuple[str, ...]
    """Where its results are."""
    text: str
    age: str = ""
    is_get: bool = False


def _with_sites(query: SearchQuery) -> str:
    """The lists as search engines know them; what goes beyond is filtered afterwards."""
    sites = [entry.partition("/")[0] for entry in query.allowed][:MOST_SITES]
    allowed = " OR ".join(f"site:{site}" for site in sites)
    blocked = "".join(f" -site:{entry.partition('/')[0]}" for entry in query.blocked[:MOST_SITES] if "/" not in entry)
    return " ".join(part for part in (query.text, f"({allowed})" if len(sites) > 1 else allowed) if part) + blocked


def _hosts(entries: Sequence[str]) -> list[str]:
    return [entry.partition("/")[0] for entry in entries]


def _tavily(query: SearchQuery) -> dict[str, Any]:
    lists = {"include_domains": _hosts(query.allowed), "exclude_domains": [e for e in query.blocked if "/" not in e]}
    return {"query": query.text, "max_results": query.results} | {name: hosts for name, hosts in lists.items() if hosts}


def _exa(query: SearchQuery) -> dict[str, Any]:
    lists = {"includeDomains": _hosts(query.allowed), "excludeDomains": [e for e in query.blocked if "/" not in e]}
    contents = {"text": {"maxCharacters": 2000}}
    asked = {"query": query.text, "numResults": query.results, "contents": contents}
    return asked | {name: hosts for name, hosts in lists.items() if hosts}


_FORMS = {
    ToolService.SEARXNG: _Form(
        "/search", lambda query: {"q": _with_sites(query), "format": "json"}, "", ("results",), "content",
        "publishedDate", is_get=True,
    ),
    ToolService.BRAVE: _Form(
        "/res/v1/web/search", lambda query: {"q": _with_sites(query), "count": min(query.results, 20)},
        "x-subscription-token", ("web", "results"), "description", "page_age", is_get=True,
    ),
    ToolService.TAVILY: _Form("/search", _tavily, "authorization", ("results",), "content"),
    ToolService.EXA: _Form("/search", _exa, "x-api-key", ("results",), "text", "publishedDate"),
    ToolService.OLLAMA: _Form(
        "/api/web_search", lambda query: {"query": _with_sites(query), "max_results": min(query.results, 10)},
        "authorization", ("results",), "content",
    ),
}  # fmt: skip


async def search(tool: Tool, query: SearchQuery) -> list[WebPage]:
    """What the service found, those that are allowed first come first. Raises ToolFailed. The caller bounds the time;
    on cancel no connection stays open.
    """
    assert tool.kind is not None
    form = _FORMS[tool.kind]
    answer = await _ask(tool, form, query)
    if answer.status != 200:
        raise _refused(tool, answer.status)
    if answer.is_cut:
        raise ToolFailed("unavailable", f"it answered with more than {tool.max_bytes} bytes: see `max_bytes`")
    return await off_the_loop(len(answer.body), _pages_in, bytes(answer.body), form, query)


async def off_the_loop(size: int, work: Callable[..., Result], *args: Any) -> Result:
    """`work(*args)`, on a thread if it reads so much text that other requests would wait for it."""
    return work(*args) if size <= SMALL else await asyncio.to_thread(work, *args)


def _pages_in(body: bytes, form: _Form, query: SearchQuery) -> list[WebPage]:
    """Raises ToolFailed: there are no results in it."""
    found = tolerant_json.read(body)
    if found is None:
        raise ToolFailed("unavailable", "it answered with something else than JSON")
    for name in form.results:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, list):
        raise ToolFailed("unavailable", "its answer has no list of results")
    return allowed_pages(found, form.text, form.age, query)


def allowed_pages(found: list[Any], text: str, age: str, query: SearchQuery) -> list[WebPage]:
    """Those that the lists allow, each once. `text`, `age`: the names of those fields; the latter may be empty."""
    pages: dict[str, WebPage] = {}
    for one in found[:MOST_READ]:
        page = _page(one, text, age)
        if page is not None and is_listed(page.url, query):
            pages[page.url] = page
            if len(pages) == query.results:
                break
    return list(pages.values())


def _page(given: Any, text_field: str, age: str) -> WebPage | None:
    if not isinstance(given, dict) or not isinstance(given.get("url"), str):
        return None
    text = {name: given[name] for name in ("title", text_field, age) if isinstance(given.get(name), str)}
    url: str = given["url"]
    if not url.startswith(("http://", "https://")) or len(url) > 2048 or not _can_be_read(url):
        return None
    return WebPage(url, text.get("title", ""), text.get(text_field, ""), text.get(age, ""))


def _can_be_read(url: str) -> bool:
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True


def is_listed(url: str, query: SearchQuery) -> bool:
    """Whether the lists allow this address. Raises ValueError: it is none."""
    if query.hosts and not any(_is_host(url, host) for host in query.hosts):
        return False
    if query.allowed and not any(matches(url, entry) for entry in query.allowed):
        return False
    return not any(matches(url, entry) for entry in query.blocked)


def _is_host(url: str, host: str) -> bool:
    """Whether an address is of this host, or with `*.` of a subdomain of it."""
    own = urlsplit(url).hostname or ""
    return own == host or (host[:2] == "*." and own.endswith(host[1:]))


def matches(url: str, entry: str) -> bool:
    """Whether an address is of this host, of a subdomain of it, and below its path. `*.` before the host changes
    nothing.
    """
    parts = urlsplit(url)
    host, slash, path = entry.partition("/")
    known, own = host.removeprefix("*.").lower(), (parts.hostname or "").removesuffix(".")
    if own != known and not own.endswith(f".{known}"):
        return False
    wanted = f"/{path}".rstrip("/")
    return not slash or parts.path == wanted or parts.path.startswith(f"{wanted}/") or wanted == ""


async def _ask(tool: Tool, form: _Form, query: SearchQuery) -> ResponseReader:
    assert tool.kind is not None
    base = urlsplit(tool.base_url or ADDRESSES[tool.kind])
    is_tls = base.scheme == "https"
    host, port = base.hostname or "", base.port or (443 if is_tls else 80)
    asked = form.request(query)
    path, body = base.path.rstrip("/") + form.path, b""
    if form.is_get:
        path += f"?{urlencode(asked)}"
    else:
        body = msgspec.json.encode(asked)
    head = [
        f"{'GET' if form.is_get else 'POST'} {path} HTTP/1.1", f"host: {host_port(host, port)}", "connection: close",
        "accept: application/json", "accept-encoding: identity", "user-agent: stoker",
    ]  # fmt: skip
    if form.key and tool.key is not None:
        secret = tool.key.reveal()
        head.append(f"{form.key}: {f'Bearer {secret}' if form.key == 'authorization' else secret}")
    if not form.is_get:
        head += ["content-type: application/json", f"content-length: {len(body)}"]
    answer, writer = ResponseReader(), None
    try:
        context = await tls_contexts.get() if is_tls else None
        async with asyncio.timeout(min(CONNECT_WITHIN, tool.timeout)):
            name = host if is_tls else None
            reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
        writer.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        await answer.read(reader, tool.max_bytes, only_success=True)
    except TimeoutError:
        raise ToolFailed("unavailable", f"no connection within {CONNECT_WITHIN:g} s") from None
    except OSError as error:
        raise ToolFailed("unavailable", f"it cannot be reached ({error.strerror or 'the connection broke'})") from None
    except ValueError as error:
        raise ToolFailed("unavailable", str(error)) from None
    finally:
        if writer is not None:
            writer.transport.abort()
    return answer


def _refused(tool: Tool, status: int) -> ToolFailed:
    why = f"it answered HTTP {status}"
    if status == 429:
        return ToolFailed("too_many_requests", why)
    if tool.kind is ToolService.SEARXNG and status == 403:
        why += ": add `json` to `search.formats` in its settings.yml, and switch its limiter off"
    elif status in (401, 403):
        why += f": check `key` of [tools.{tool.name}]"
    return ToolFailed("unavailable", why)
