"""The page of requests in a real browser: the list, its filters, the explanation of one, and cancelling."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import PATIENCE, Plane, poll, running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened

from stoker.domain.decision import Attempt, Candidate, Decision, Routed
from stoker.store.decisions import DecisionLog
from stoker_lab.testing.script.script import Script

pytestmark = needs_browser

MARKUP = '<img src="x" onerror="document.title=1"><script>document.title=2</script>'
LOOK_KEY, ACT_KEY, APP_KEY = "key-that-may-only-look", "key-that-may-act-too", "key-of-an-application"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe" },
  { name = "boss", value = "env:ACT", scope = "admin" }, { name = "app", value = "env:APP" }]
"""
KEPT = 10_000
LONG_AGO = 1_700_000_000.0


def past(number: int) -> Decision:
    """One of the records that are there before the first start: every tenth failed, every hundredth was slow."""
    found = Decision(
        f"old-{number}", LONG_AGO + number, "/v1/chat/completions", "a", "app", "a", candidates=[Candidate("a")],
        attempts=1, stream=True, status=200, outcome="served", ttft=0.2, latency=1.0, input_tokens=9, output_tokens=20,
    )  # fmt: skip
    if number % 10 == 0:
        found.outcome, found.reason, found.status = "upstream_failed", "upstream_broke", 502
    if number % 100 == 1:
        found.queued, found.ttft, found.latency = 55.0, 56.0, 61.0
    if number == KEPT - 1:
        found.model, found.key = MARKUP, "app"
        found.routed = Routed(
            "chat", "learned", [MARKUP], "small", "allow", "observe", [f"small: allow, {MARKUP}"],
            [Attempt("big", "upstream_busy", seconds=0.4), Attempt("small", "served", 9, 20, 0.0, 0.6)],
        )  # fmt: skip
    return found


def write_history(directory: Path) -> None:
    directory.mkdir(parents=True, mode=0o700)
    for start in range(0, KEPT, 2000):
        log = DecisionLog(directory / "decisions.db", KEPT)
        for number in range(start, start + 2000):
            log.record(past(number))
        log.close(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    environment = {"LOOK": LOOK_KEY, "ACT": ACT_KEY, "APP": APP_KEY}
    given = (serve("a"), serve("b", Script(ready_after=0.3)))
    with running(*given, front_door=KEYS, environment=environment, started=False) as found:
        write_history(found.state)
        found.start()
        assert found.admin("switch", serve="a")[0] == 200
        yield found


def sign_in(page: Page, key: str = ACT_KEY) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


class Asking:
    """A request of the application, on a thread."""

    def __init__(self, plane: Plane, model: str, request_id: str, text: str = "hello") -> None:
        self._thread = threading.Thread(target=self._ask, args=(plane.port, model, request_id, text))
        self._thread.start()

    def _ask(self, port: int, model: str, request_id: str, text: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": text}]}
        headers = {
            "content-type": "application/json", "authorization": f"Bearer {APP_KEY}", "x-request-id": request_id,
        }  # fmt: skip
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        connection.getresponse().read()
        connection.close()

    def ended(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def test_the_list_and_one_request_are_accessible_and_fit(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "requests", may_say="404 ", bypass_csp=True) as page:
        sign_in(page)
        expect(page.get_by_role("table", name="Requests")).to_be_visible()
        for route, title in ((None, "Requests"), ("requests/old-1", "a"), ("requests/nobody", "No request “nobody”")):
            if route is not None:
                page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}")
            expect(page.get_by_role("heading", level=1)).to_have_text(title)
            assert faults(page) == [], route


def test_ten_thousand_requests_are_scrolled_with_the_keyboard_and_few_rows_exist(
    browser: Browser, plane: Plane
) -> None:
    with opened(browser, plane, "requests") as page:
        sign_in(page)
        table = page.get_by_role("table", name="Requests")
        rows = table.locator("[data-row]")
        rows.first.get_by_role("link").focus()
        page.keyboard.press("ArrowDown")
        expect(rows.nth(1).get_by_role("link")).to_be_focused()
        page.keyboard.press("End")
        expect(table).to_have_attribute("aria-rowcount", str(KEPT + 1))
        page.keyboard.press("End")
        last = table.locator('[data-row="old-0"]')
        expect(last.get_by_role("link")).to_be_focused()
        expect(last).to_have_attribute("aria-rowindex", str(KEPT + 1))
        assert rows.count() < 80
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("a")
        expect(page.locator("main")).to_contain_text("upstream_broke (the engine closed the connection)")
        page.go_back()
        expect(last.get_by_role("link")).to_be_focused()


def test_the_filter_is_in_the_address_and_a_link_with_one_shows_the_same(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "requests") as page:
        sign_in(page)
        table = page.get_by_role("table", name="Requests")
        page.get_by_label("Time").select_option(label="A minute or longer")
        expect(table).to_have_attribute("aria-rowcount", str(KEPT // 100 + 1))
        page.get_by_label("Serve", exact=True).select_option("a")
        page.get_by_label("Key", exact=True).select_option("app")
        page.get_by_role("searchbox").fill("OLD-99")
        expect(table).to_have_attribute("aria-rowcount", "2")  # old-9901
        assert page.url.endswith("#/requests?slow=whole60&serve=a&key=app&q=OLD-99")
        page.get_by_label("Outcome").select_option(label="Engine failed")
        expect(page.locator("main")).to_contain_text("No request is like that")
        page.get_by_role("button", name="Show all").last.click()
        expect(table).to_have_attribute("aria-rowcount", str(KEPT + 1))
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/requests?outcome=not_served&class=&q=old-12")
        expect(table.locator("[data-row]").first).to_contain_text("engine failed")
        expect(page.get_by_role("searchbox")).to_have_value("old-12")
        expect(page.get_by_label("Outcome")).to_have_value("not_served")


def test_a_request_that_waited_for_a_swap_is_explained_by_it(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "requests") as page:
        sign_in(page)
        table = page.get_by_role("table", name="Requests")
        slow = Asking(plane, "a", "slow-a", "script: gap=0.05 tokens=40")
        expect(table.locator('[data-row="slow-a"]')).to_contain_text("answering")
        waits = Asking(plane, "b", "waits-b")
        row = table.locator('[data-row="waits-b"]')
        expect(row).to_contain_text("waiting")
        row.get_by_role("link").click()
        expect(page.locator(".lead")).to_contain_text("It waits for b: a ends its requests first")
        expect(page.locator(".lead")).to_contain_text("Answered after")
        slow.ended(), waits.ended()
        words = page.locator(".waterfall .what").all_inner_texts()
        assert words[0] == "waited until b was loaded"
        assert [word for word in words if word.startswith("a ended its requests (swap")], words
        assert [word for word in words if word.startswith("b started")], words
        page.get_by_text("As a table").click()
        expect(page.get_by_role("table")).to_contain_text("waited until b was loaded")
        told = plane.run("explain", "waits-b").stdout
        assert "until b was loaded" in told
        assert "a ended its requests (swap" in told
        page.get_by_role("link", name="Other requests with key app").click()
        expect(page.get_by_label("Key", exact=True)).to_have_value("app")


def test_a_request_is_cancelled_by_who_may_and_nobody_else(browser: Browser, plane: Plane) -> None:
    asked = Asking(plane, "a", "too-long", "script: gap=0.05 tokens=2000")
    with opened(browser, plane, "requests?outcome=in_flight") as page:
        sign_in(page, LOOK_KEY)
        expect(page.locator('[data-row="too-long"]')).to_contain_text("answering")
        assert page.get_by_role("button", name="Cancel").count() == 0
    with opened(browser, plane, "requests?outcome=in_flight") as page:
        sign_in(page)
        page.get_by_role("button", name="Cancel the request to a").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("POST /admin/cancel")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("The request has ended")
        page.keyboard.press("Escape")
        expect(page.locator("main")).to_contain_text("No request is like that")
    asked.ended()
    assert plane.decision("too-long")["outcome"] == "cut"


def test_rows_in_view_stay_in_view_when_requests_come_in(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "requests") as page:
        sign_in(page)
        table = page.get_by_role("table", name="Requests")
        table.evaluate("one => { one.scrollTop = 4000; }")
        row = table.locator('[data-row="old-9900"]')
        expect(row).to_be_visible()
        before = row.bounding_box()
        count = table.get_attribute("aria-rowcount")
        Asking(plane, "a", "comes-in").ended()
        poll(lambda: table.get_attribute("aria-rowcount") != count, "the new request is in the list")
        assert row.bounding_box() == before


def test_markup_in_names_and_reasons_of_requests_stays_text(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, f"requests?q=old-{KEPT - 1}") as page:
        sign_in(page)
        row = page.locator(f'[data-row="old-{KEPT - 1}"]')
        expect(row).to_contain_text("<img src=")
        row.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(MARKUP)
        expect(page.locator(".reasons")).to_contain_text(f"small: allow, {MARKUP}")
        expect(page.locator(".waterfall")).to_contain_text("big: upstream_busy (the engine had too much to do)")
        assert page.locator("main img, main script").count() == 0
        assert page.title().endswith("Stoker")
