"""The page of what requests said, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.caller import document
from tests.scenarios.plane import PATIENCE, Plane, running, serve
from tests.scenarios.web_page import CHECKED, browsing, faults, needs_browser, opened, signed_in

pytestmark = needs_browser

LOOK, ACT = "key-that-may-look", "key-that-may-act"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe" },
  { name = "boss", value = "env:ACT", scope = "admin" }]
"""
MARKUP = "<img src=x onerror=document.title=1> a prompt of somebody"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    memory = '[capture]\nmemory = "2MiB"'
    environment = {"LOOK": LOOK, "ACT": ACT}
    with running(serve("a", dialects=["chat"]), memory, front_door=KEYS, environment=environment) as found:
        send(found)
        yield found


def send(plane: Plane) -> None:
    base, headers = f"http://127.0.0.1:{plane.port}", {"authorization": f"Bearer {ACT}"}
    for path, dialect, text, stream in (
        ("/v1/chat/completions", "chat", "the first", False),
        ("/v1/chat/completions", "chat", "x" * 200_000, False),
        ("/v1/messages", "messages", f"{MARKUP} script: tokens=3", True),
    ):
        httpx.post(base + path, json=document("a", text, dialect, stream=stream), headers=headers, timeout=PATIENCE)


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("STOKER_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("look", CHECKED)
def test_from_a_row_to_what_the_request_said(browser: Browser, plane: Plane, look: str) -> None:
    with opened(browser, plane, "requests", look, before=signed_in(plane, ACT)) as page:
        expect(page.get_by_text("is kept in memory")).to_be_visible()
        picture(page, f"rows-{look}")
        page.get_by_role("link", name="content", exact=True).first.click()
        expect(page.get_by_role("heading", name="What the client got")).to_be_visible()
        expect(page.get_by_text(MARKUP).first).to_be_visible()
        expect(page.get_by_text("message_stop").first).to_be_visible()
        page.get_by_text("headers").first.click()
        expect(page.get_by_text("[redacted]").first).to_be_visible()
        assert not faults(page)
        picture(page, f"one-{look}")
        page.get_by_role("link", name="Where its time went").click()
        expect(page.get_by_role("link", name="What it and its answer said")).to_be_visible()
        page.goto(page.url.split("#")[0] + "#/content")
        expect(page.get_by_role("row")).to_have_count(4)  # with the head
        assert not faults(page)
        picture(page, f"list-{look}")
        page.locator("tbody tr").nth(1).get_by_role("link").click()
        expect(page.get_by_text("Its body: cut").first).to_be_visible()
        picture(page, f"cut-{look}")


def test_who_may_only_look_is_told_but_sees_nothing_of_it(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "requests", before=signed_in(plane, LOOK)) as page:
        expect(page.get_by_text("is kept in memory")).to_be_visible()
        expect(page.get_by_role("link", name="Overview")).to_be_visible()
        expect(page.get_by_role("link", name="content", exact=True)).to_have_count(0)
        picture(page, "looker-light")
