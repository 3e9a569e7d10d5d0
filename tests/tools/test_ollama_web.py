"""Ollama's web search and web fetch, answered by the configured tools, without a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import ollama
import pytest
from tests.gateway.flow_stage import Stage, a_serve, story
from tests.tools.tool_stage import FOUND, fetcher_for, http, searxng, use, web

from stoker.domain.key import Key
from stoker.domain.serve import Secret
from stoker_lab.testing.client import compose_request
from stoker_tools.tables import Tool, ToolService

PAGES = Tool(name="pages", kind=ToolService.FETCH)
SEARCH, FETCH = "/api/web_search", "/api/web_fetch"


async def ask(stage: Stage, path: str, fields: Mapping[str, Any], key: str | None = None) -> tuple[int, Any]:
    client = await stage.client()
    headers = () if key is None else (("authorization", f"Bearer {key}"),)
    await client.send(compose_request("POST", path, dict(fields), headers))
    reply = await client.reply()
    return reply.status, reply.json()


@pytest.mark.holds("U")
@pytest.mark.parametrize("path", [SEARCH, "/api/experimental/web_search"])
def test_a_search_is_answered_by_the_configured_service(path: str) -> None:
    @story(a_serve())
    async def played(stage: Stage) -> None:
        async with web() as site:
            use(stage, searxng(site))
            status, found = await ask(stage, path, {"query": "tower", "max_results": 1})
            ollama.WebSearchResponse.model_validate(found)
            assert (status, found) == (200, {"results": [
                {"title": "One", "url": FOUND[0]["url"], "content": FOUND[0]["content"]},
            ]})  # fmt: skip
            assert stage.talks.empty()

    played()


@pytest.mark.holds("U")
@pytest.mark.parametrize("path", [FETCH, "/api/experimental/web_fetch"])
def test_a_page_comes_with_its_links(path: str) -> None:
    page = b'<html><title>Tower</title><p>See <a href="/two">two</a> or <a href="https://b.example/">b</a></p></html>'

    @story(a_serve())
    async def played(stage: Stage) -> None:
        async with web() as site:
            site.answer = lambda path: http(page, "text/html")
            use(stage, PAGES)
            status, found = await ask(stage, path, {"url": f"http://site.example:{site.port}/"})
            ollama.WebFetchResponse.model_validate(found)
            assert (status, found["title"]) == (200, "Tower")
            assert found["links"] == [f"http://site.example:{site.port}/two", "https://b.example/"]

    played()


@pytest.mark.holds("U")
@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        (SEARCH, {}, (400, "'query' must")),
        (SEARCH, {"query": " "}, (400, "'query' must")),
        (SEARCH, {"query": "x", "max_results": 0}, (400, "'max_results' must")),
        (SEARCH, {"query": "x" * 1001}, (400, "'query' is too long")),
        (FETCH, {"url": 3}, (400, "'url' must")),
        (FETCH, {"url": "http://127.0.0.2/"}, (400, "web_fetch failed (url_not_allowed)")),
        (FETCH, {"url": "file:///etc/passwd"}, (400, "web_fetch failed (url_not_allowed)")),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused(
    path: str, fields: dict[str, Any], expected: tuple[int, str]
) -> None:
    @story(a_serve())
    async def played(stage: Stage) -> None:
        async with web() as site:
            use(stage, searxng(site), PAGES, fetcher=fetcher_for())
            status, found = await ask(stage, path, fields)
            assert (status, found["error"][: len(expected[1])]) == expected
            assert site.asked == []

    played()


@pytest.mark.parametrize(("answer", "expected"), [("429 Too Many Requests", 429), ("500 Oh", 502)])
def test_a_service_that_fails_is_an_error_of_the_request(answer: str, expected: int) -> None:
    @story(a_serve())
    async def played(stage: Stage) -> None:
        async with web() as site:
            site.answer = lambda path: http(b"", status=answer)
            use(stage, searxng(site))
            status, found = await ask(stage, SEARCH, {"query": "a private question"})
            assert status == expected
            assert "private" not in json.dumps(found)

    played()


@story(a_serve())
async def test_without_a_tool_it_says_what_is_missing(stage: Stage) -> None:
    use(stage)
    status, found = await ask(stage, SEARCH, {"query": "x"})
    assert status == 400
    assert "[tools.NAME]" in found["error"]


@pytest.mark.holds("N")
@story(a_serve(), keys=(Key("all", Secret("k-all", "env:A")), Key("none", Secret("k-none", "env:B"), tools=())))
async def test_a_key_without_the_right_is_told_which_table_gives_it(stage: Stage) -> None:
    async with web() as site:
        use(stage, searxng(site))
        status, found = await ask(stage, SEARCH, {"query": "x"}, "k-none")
        assert (status, "`tools` of the key" in found["error"], site.asked) == (400, True, [])
        assert (await ask(stage, SEARCH, {"query": "x"}, "k-all"))[0] == 200


@story(a_serve())
async def test_a_client_that_leaves_ends_the_call(stage: Stage) -> None:
    async with web() as site:
        site.answer = lambda path: None
        use(stage, searxng(site))
        client = await stage.client()
        await client.send(compose_request("POST", SEARCH, {"query": "x"}))
        await stage.until(lambda: site.open)
        client.abort()
        await stage.until(lambda: not site.open, "the end of the call")
