"""The page of tools in a real browser: whether each works, what it did, who may use it, and one call by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from bench.agents.search_site import BROKEN, SearchSite
from playwright.sync_api import Browser, Locator, Page, expect
from tests.scenarios.plane import Plane, running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened, signed_in

from stoker_lab.testing.script.script import Script

pytestmark = needs_browser

LOOK_KEY, ACT_KEY, BOT_KEY = "key-that-may-only-look", "key-that-may-act-too", "key-of-an-application"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe" },
  { name = "boss", value = "env:ACT", scope = "admin" }, { name = "bot", value = "env:BOT", app = "agents" }]
"""
AGENTS = '[app.agents]\ntools = ["web", "desk"]'
PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "tools" / "mcp_server.py")]
TOOLS = f"""
[tools.pages]
kind = "fetch"

[tools.desk]
kind = "mcp"
command = {json.dumps(PROGRAM)}
allow = ["add", "forget"]

[tools.gone]
kind = "mcp"
url = "http://127.0.0.1:9/mcp"
allow = ["*"]
"""
ANSWERS = (
    {"blocks": [{"type": "call", "name": "web_search", "arguments": {"query": "tower"}}]},
    {"blocks": [{"type": "text", "text": "It is 330 m tall."}]},
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Its MCP server described `add` otherwise when it was first seen."""
    values = {"LOOK": LOOK_KEY, "ACT": ACT_KEY, "BOT": BOT_KEY}
    model = serve("a", Script(answers=ANSWERS), dialects=["chat"])
    with (
        SearchSite() as site,
        running(
            f"{site.configuration}\ncost = 0.25",
            TOOLS,
            AGENTS,
            model,
            front_door=KEYS,
            environment=values,
            started=False,
        ) as found,
    ):
        seen = found.state / "tools" / "mcp-tools.json"
        seen.parent.mkdir(parents=True)
        seen.write_text(json.dumps({"desk": {"add": "another"}}))
        found.start()
        yield found
        found.config.write_text(found.config.read_text().replace(TOOLS, ""))
        assert found.admin("reload")[0] == 200  # which ends the program of the MCP server


def attempt(plane: Plane, tool: str, argument: str, **more: Any) -> tuple[int, Any]:
    return plane.ask("POST", f"/admin/tools/{tool}", {"argument": argument, **more})


def card(page: Page, tool: str) -> Locator:
    return page.get_by_role("region", name=tool, exact=True)


def test_each_tool_has_its_state_and_the_next_command_on_a_failure(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "tools", before=signed_in(plane, ACT_KEY)) as page:
        web = card(page, "web")
        expect(web).to_contain_text("never used")
        assert attempt(plane, "web", BROKEN)[1]["error"] == "unavailable"
        expect(web).to_contain_text("the last call failed")
        expect(web).to_contain_text("HTTP 500")
        expect(web.get_by_role("button", name="Copy the command stoker tools try web weather")).to_be_visible()
        assert attempt(plane, "web", "tower")[0] == 200
        expect(web).to_contain_text("ready")
        expect(web.locator(".figures")).to_contain_text("Failed1")
        expect(web.locator(".figures")).to_contain_text("Cost0.25")
        expect(web.locator(".facts")).to_contain_text("Last failure")
        assert attempt(plane, "gone", "any")[1]["error"] == "unavailable"
        expect(card(page, "gone")).to_contain_text("cannot be reached")
        expect(card(page, "gone")).to_contain_text("stoker tools list gone")
        expect(card(page, "pages")).to_contain_text("never used")


def test_administrators_see_which_keys_may_use_a_tool_by_what_these_inherit(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "tools", before=signed_in(plane, ACT_KEY)) as page:
        for tool, keys in {"web": ["looker", "boss", "bot"], "pages": ["looker", "boss"], "desk": ["bot"]}.items():
            expect(card(page, tool).locator(".facts").get_by_role("link")).to_have_text(keys)
        expect(card(page, "gone")).to_contain_text("no key: none names it")


def test_who_may_only_look_sees_no_names_of_keys_and_may_not_try(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "tools", before=signed_in(plane, LOOK_KEY)) as page:
        expect(card(page, "desk")).to_contain_text("keys that name it in tools")
        expect(page.locator("main")).not_to_contain_text("bot")
        expect(page.locator("summary", has_text="Try")).to_have_count(0)
    base, looker = f"http://127.0.0.1:{plane.port}/admin/tools", {"authorization": f"Bearer {LOOK_KEY}"}
    assert httpx.get(base, headers=looker).status_code == 403
    assert httpx.post(f"{base}/web", headers=looker, json={"argument": "tower"}).status_code == 403


def test_a_tool_of_an_mcp_server_is_tried_and_one_that_changed_is_marked(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "tools", may_say=" 400 ", before=signed_in(plane, ACT_KEY)) as page:
        desk = card(page, "desk")
        desk.locator("summary", has_text="Try").click()
        desk.get_by_label("Arguments, as JSON").fill("[")
        desk.get_by_label("Tool", exact=True).fill("flood")
        desk.get_by_role("button", name="Try desk").click()
        expect(desk.get_by_role("alert")).to_contain_text("no JSON object")
        desk.get_by_label("Arguments, as JSON").fill('{"a": 1, "b": 2}')
        desk.get_by_role("button", name="Try desk").click()
        expect(desk.get_by_role("alert")).to_contain_text("`allow` of [tools.desk] has no tool 'flood'")
        desk.get_by_label("Tool", exact=True).fill("add")
        desk.get_by_role("button", name="Try desk").click()
        expect(desk.get_by_role("status")).to_contain_text("the sum is 3")
        listed = desk.locator(".listed").get_by_role("listitem")
        expect(listed).to_have_count(0)  # a call needs no list
        assert mcp_request(plane) == 200
        expect(listed).to_have_count(2)
        expect(listed.filter(has_text="add")).to_contain_text("described otherwise")
        expect(listed.filter(has_text="forget")).to_contain_text("may change things")
        expect(desk.locator(".note.warn")).to_contain_text("stoker tools list desk")


def mcp_request(plane: Plane) -> int:
    """With it Stoker asks the MCP server for its tools."""
    body = {
        "model": "a",
        "input": "hello",
        "tools": [{"type": "mcp", "server_label": "desk", "server_url": "http://x"}],
    }
    return ask(plane, "responses", body, "lists")


def ask(plane: Plane, path: str, body: dict[str, Any], request_id: str) -> int:
    headers = {"authorization": f"Bearer {BOT_KEY}", "x-request-id": request_id}
    return httpx.post(f"http://127.0.0.1:{plane.port}/v1/{path}", json=body, headers=headers, timeout=30).status_code


def test_a_request_says_which_tools_ran_for_it_and_leads_to_them(browser: Browser, plane: Plane) -> None:
    asked = {"model": "a", "messages": [{"role": "user", "content": "How tall?"}], "web_search_options": {}}
    assert ask(plane, "chat/completions", asked, "searched") == 200
    plane.decision("searched")
    with opened(browser, plane, "requests/searched", before=signed_in(plane, ACT_KEY)) as page:
        expect(page.locator(".reasons")).to_contain_text("web (web_search): 1 call")
        page.get_by_role("link", name="The tools that ran for it").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Tools")


def test_on_a_phone_the_tab_is_in_view(browser: Browser, plane: Plane) -> None:
    """Though it comes with the first answer, later than the page."""
    with opened(browser, plane, "tools", look="phone", before=signed_in(plane, ACT_KEY)) as page:
        expect(page.get_by_role("navigation").get_by_role("link", name="Tools")).to_be_in_viewport(ratio=1)


def test_the_page_of_tools_is_accessible_and_fits(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "tools", bypass_csp=True, before=signed_in(plane, ACT_KEY)) as page:
        web = card(page, "web")
        web.locator("summary", has_text="Try").click()
        web.get_by_label("What to search for").fill("tower")
        web.get_by_role("button", name="Try web").click()
        expect(web.get_by_role("status")).to_contain_text("excerpt-tower")
        assert faults(page) == []
