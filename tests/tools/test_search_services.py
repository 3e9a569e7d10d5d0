"""Each search service is asked and read in its own form, and never with another one's key."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from tests.tools.tool_stage import http, web

from stoker.domain.serve import Secret
from stoker_tools import search as search_module
from stoker_tools.search import SearchQuery, ToolFailed, search
from stoker_tools.tables import Tool, ToolService

QUERY = SearchQuery("tall towers", 3, ("a.example", "b.example/docs"), ())
FORMS: list[tuple[ToolService, str, Any, str, dict[str, Any]]] = [
    (ToolService.SEARXNG, "/search?q=tall+towers+%28site%3Aa.example+OR+site%3Ab.example%29&format=json", None, "",
     {"results": [{"url": "https://a.example/", "title": "T", "content": "C", "publishedDate": "2026"}]}),
    (ToolService.BRAVE, "/res/v1/web/search?q=tall+towers+%28site%3Aa.example+OR+site%3Ab.example%29&count=3", None,
     "x-subscription-token: k",
     {"web": {"results": [{"url": "https://a.example/", "title": "T", "description": "C", "page_age": "2026"}]}}),
    (ToolService.TAVILY, "/search",
     {"query": "tall towers", "max_results": 3, "include_domains": ["a.example", "b.example"]},
     "authorization: Bearer k", {"results": [{"url": "https://a.example/", "title": "T", "content": "C"}]}),
    (ToolService.EXA, "/search",
     {"query": "tall towers", "numResults": 3, "contents": {"text": {"maxCharacters": 2000}},
      "includeDomains": ["a.example", "b.example"]},
     "x-api-key: k", {"results": [{"url": "https://a.example/", "title": "T", "text": "C", "publishedDate": "2026"}]}),
    (ToolService.OLLAMA, "/api/web_search",
     {"query": "tall towers (site:a.example OR site:b.example)", "max_results": 3},
     "authorization: Bearer k", {"results": [{"url": "https://a.example/", "title": "T", "content": "C"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "body", "key", "answer"), FORMS, ids=[form[0].value for form in FORMS])
def test_a_service_is_asked_and_read_in_its_form(
    kind: ToolService, path: str, body: Any, key: str, answer: dict[str, Any]
) -> None:
    async def played() -> None:
        async with web() as site:
            more = [{"url": "https://c.example/", "title": "not allowed"}, {"url": "javascript:x"}, 3, {}]
            results = [*answer.get("web", answer)["results"], *more]
            whole = {"web": {"results": results}} if "web" in answer else {"results": results}
            site.answer = lambda asked: http(json.dumps(whole).encode())
            secret = Secret("k", "env:K") if key else None
            tool = Tool(name="t", kind=kind, base_url=f"http://127.0.0.1:{site.port}", key=secret)
            (page,) = await search(tool, QUERY)
            assert (page.url, page.title, page.text) == ("https://a.example/", "T", "C")
            assert site.asked == [path]
            assert (json.loads(site.bodies[0]) if body else None) == body
            assert key in site.heads[0]

    asyncio.run(played())


def test_what_is_wrong_with_searxng_is_said_with_its_setting() -> None:
    async def played() -> None:
        async with web() as site:
            site.answer = lambda path: http(b"", status="403 Forbidden")
            with pytest.raises(ToolFailed) as failed:
                await search(Tool(name="t", kind=ToolService.SEARXNG, base_url=f"http://127.0.0.1:{site.port}"), QUERY)
            assert "search.formats" in failed.value.why

    asyncio.run(played())


@pytest.mark.parametrize("odd", ["half \\ud83d of a character", "bytes \xff"])
def test_one_result_that_is_no_text_does_not_lose_the_others(odd: str) -> None:
    async def played() -> None:
        async with web() as site:
            body = f'{{"results":[{{"url":"https://a.example/","title":"{odd}"}},{{"url":"https://b.example/"}}]}}'
            site.answer = lambda path: http(body.encode("latin-1"))
            tool = Tool(name="t", kind=ToolService.SEARXNG, base_url=f"http://127.0.0.1:{site.port}")
            assert [page.url for page in await search(tool, SearchQuery("x", 8))] == [
                "https://a.example/", "https://b.example/",
            ]  # fmt: skip

    asyncio.run(played())


def test_a_large_answer_is_read_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def listed(url: str, query: SearchQuery) -> bool:
        threads.append(threading.current_thread())
        return True

    monkeypatch.setattr(search_module, "is_listed", listed)

    async def played() -> None:
        async with web() as site:
            found = [{"url": f"https://a.example/{at}", "content": "word " * 1000} for at in range(100)]
            site.answer = lambda path: http(json.dumps({"results": found}).encode())
            tool = Tool(name="t", kind=ToolService.SEARXNG, base_url=f"http://127.0.0.1:{site.port}")
            assert len(await search(tool, SearchQuery("x", 8))) == 8

    asyncio.run(played())
    assert len(threads) == 8
    assert threading.main_thread() not in threads
