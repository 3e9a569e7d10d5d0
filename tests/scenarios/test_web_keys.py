"""The page of keys and usage in a real browser: what each key may use and has used, and taking one away."""

from __future__ import annotations

import csv
import http.client
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import Plane, running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened, signed_in

pytestmark = needs_browser

LOOK_KEY, ACT_KEY, APP_KEY = "key-that-may-only-look", "key-that-may-act-too", "key-of-an-application"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe", tools = [] },
  { name = "boss", value = "env:ACT", scope = "admin" },
  { name = "bot", value = "env:APP", app = "agents", tools = ["web", "desk"], requests_per_minute = 1000, \
    system_prompt = "a secret" }]
"""
AGENTS = """
[app.agents]
tokens_per_month = 1000
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    environment = {"LOOK": LOOK_KEY, "ACT": ACT_KEY, "APP": APP_KEY}
    with running(serve("a"), AGENTS, front_door=KEYS, environment=environment) as found:
        assert [ask(found), ask(found)] == [200, 200]
        yield found


def ask(plane: Plane, key: str = APP_KEY) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=30)
    body = json.dumps({"model": "a", "messages": [{"role": "user", "content": "hello"}]})
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}", "connection": "close"}
    try:
        connection.request("POST", "/v1/chat/completions", body, headers)
        reply = connection.getresponse()
        reply.read()
        return reply.status
    finally:
        connection.close()


def looking(
    browser: Browser, plane: Plane, route: str = "keys", key: str = ACT_KEY, **options: Any
) -> AbstractContextManager[Page]:
    return opened(browser, plane, route, before=signed_in(plane, key), **options)


def cells(text: str) -> list[list[str | float]]:
    """Of a CSV file; a number may be spelt in several ways."""
    return [[float(cell) if cell[:1].isdigit() and "-" not in cell else cell for cell in row] for row in read(text)]


def read(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


def usage(plane: Plane, by: str) -> list[dict[str, Any]]:
    return list(plane.ask("GET", f"/v1/usage?by={by}")[1]["data"])


def test_the_pages_of_keys_are_accessible_fit_and_say_nothing_on_the_console(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane, bypass_csp=True) as page:
        for route, title in {"keys": "Keys and usage", "keys/bot": "bot"}.items():
            page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}")
            expect(page.get_by_role("heading", level=1)).to_have_text(title)
            expect(page.get_by_role("table", name="Usage by day")).to_be_visible()
            assert faults(page) == [], route


def test_each_key_has_what_it_used_and_how_much_of_its_limits_and_never_its_value(
    browser: Browser, plane: Plane
) -> None:
    (used,) = usage(plane, "key")
    tokens = used["input_tokens"] + used["output_tokens"]
    with looking(browser, plane) as page:
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="bot"))
        expect(row).to_contain_text(f"{round(tokens / 10)} % of tokens a month, all keys of the application")
        for figure in (used["requests"], used["input_tokens"], used["output_tokens"]):
            expect(row.get_by_role("cell", name=str(figure), exact=True).first).to_be_visible()
        row.get_by_role("link").click()
        limits = page.get_by_role("listitem")
        expect(limits.filter(has_text="tokens a month")).to_contain_text(f"{tokens} of 1,000")
        meter = limits.filter(has_text="tokens a month").get_by_role("meter")
        expect(meter).to_have_attribute("value", str(tokens))
        expect(page.locator(".facts")).to_contain_text("a secret")
        expect(page.locator(".facts")).to_contain_text("Toolsweb, desk")
    with looking(browser, plane, "keys/looker") as page:
        expect(page.locator(".facts")).to_contain_text("Toolsnone")
        assert APP_KEY not in page.content()


def test_who_used_stoker_without_a_key_is_not_called_a_deleted_key(browser: Browser, plane: Plane) -> None:
    (used,) = usage(plane, "key")
    names = {"": "Without a key", "local": "On this machine", "gone": "gone deleted"}
    rows = [{**used, "key": name} for name in names]

    def used_by_all(page: Page) -> None:
        signed_in(plane, ACT_KEY)(page)
        page.route("**/v1/usage?by=key*", lambda route: route.fulfill(json={"data": rows, "total": used}))

    with opened(browser, plane, "keys", before=used_by_all) as page:
        table = page.get_by_role("region", name="All keys").get_by_role("rowheader")
        for name in names.values():
            expect(table.filter(has_text=name)).to_have_count(1)
        expect(table.filter(has_text="deleted")).to_have_count(1)


def test_what_is_used_meanwhile_appears_by_itself(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane) as page:
        expect(page.locator(".figures dd").first).to_have_text(str(usage(plane, "key")[0]["requests"]))
        assert ask(plane) == 200
        expect(page.locator(".figures dd").first).to_have_text(str(usage(plane, "key")[0]["requests"]))


def test_a_key_is_taken_away_and_given_back_after_the_page_said_what_that_does(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane, "keys/bot") as page:
        for verb, step, state, status in (
            ("Disable", "Refuse bot from the next request on.", "disabled", 401),
            ("Enable", "Accept bot again.", "valid", 200),
            ("Disable", "It stays disabled until somebody enables it again.", "disabled", 401),
            ("Reset", "disabling included", "valid", 200),
        ):
            page.get_by_role("button", name=verb).click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text(step)
            dialog.get_by_role("button", name=verb).click()
            expect(dialog.get_by_role("status")).to_be_visible()
            page.keyboard.press("Escape")
            expect(page.locator(".head .state")).to_contain_text(state)
            assert ask(plane) == status, verb
        expect(page.get_by_role("button", name="Reset")).to_have_count(0)


def test_who_may_only_look_sees_usage_and_nothing_of_what_keys_may_do(browser: Browser, plane: Plane) -> None:
    asked: list[str] = []

    def watch(page: Page) -> None:
        signed_in(plane, LOOK_KEY)(page)
        page.on("request", lambda one: asked.append(one.url))

    with opened(browser, plane, "keys", before=watch) as page:
        expect(page.get_by_role("table", name="Usage by model")).to_contain_text("a")
        expect(page.get_by_role("region", name="All keys")).not_to_contain_text("tokens a month")
        page.get_by_role("link", name="bot").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("bot")
        expect(page.get_by_role("table", name="Usage by day")).to_be_visible()
        assert page.get_by_role("button", name="Disable").count() == 0
        assert [url for url in asked if "/admin/keys" in url] == []


def test_an_open_page_asks_for_a_key_once_the_first_one_is_made_and_goes_on_after_signing_in(browser: Browser) -> None:
    with running(serve("a")) as plane, opened(browser, plane) as page:
        expect(page.locator(".link")).to_have_text("live")
        status, made = plane.admin("keys", name="me", settings={"scope": "admin"})
        assert status == 200, made
        page.get_by_label("Key", exact=True).fill(made["key"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".link")).to_have_text("live")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("link", name="Keys").click()
        expect(page.get_by_role("region", name="All keys")).to_contain_text("me")


def test_whatever_call_is_refused_for_its_key_leads_to_signing_in(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane, "keys") as page:
        expect(page.get_by_role("region", name="All keys")).to_contain_text("bot")
        page.context.clear_cookies()
        page.get_by_role("link", name="bot").click()
        expect(page.get_by_label("Key", exact=True)).to_be_visible()


def test_usage_is_saved_as_the_command_prints_it(browser: Browser, plane: Plane, tmp_path: Path) -> None:
    with looking(browser, plane) as page:
        found: dict[str, bytes] = {}
        for kind in ("CSV", "JSON"):
            with page.expect_download() as download:
                page.get_by_role("button", name=f"Save as {kind}").click()
            assert download.value.suggested_filename == f"usage.{kind.lower()}"
            download.value.save_as(tmp_path / kind)
            found[kind] = (tmp_path / kind).read_bytes()
        printed = plane.run("usage", "--by", "key,app,model,class,day", "--csv")
        assert cells(found["CSV"].decode()) == cells(printed.stdout)
        assert json.loads(found["JSON"])["data"] == usage(plane, "key,app,model,class,day")
        rows = {"by": ["key"], "data": [{"key": '=cmd("x")', "requests": 1}, {"key": "a,b\n", "requests": 2}]}
        text = page.evaluate("async (rows) => (await import('/ui/usage.js')).csv(rows)", rows)
        assert text.split("\r\n")[1:3] == ['"\'=cmd(""x"")",1' + "," * 16, '"a,b\n",2' + "," * 16]


def test_a_key_is_made_on_the_page_and_its_value_is_shown_once(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane, may_say=" 409 | 400 ") as page:
        page.get_by_role("button", name="Make a key").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("bot")
        dialog.get_by_label("Requests a minute").fill("7")
        dialog.get_by_label("Tokens a day").fill("1000")
        dialog.get_by_label("Models").fill("a")
        dialog.get_by_label("Expires").select_option(label="in 30 days")
        dialog.get_by_role("button", name="Make the key").click()
        expect(dialog.get_by_role("alert")).to_contain_text("there is a key 'bot' already")
        dialog.get_by_label("Name").fill("page-made")
        expect(dialog).to_contain_text('"requests_per_minute":7')
        dialog.get_by_role("button", name="Make the key").click()
        value = dialog.locator("pre").inner_text()
        assert ask(plane, value) == 200
        expect(dialog).to_contain_text("not shown again")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        assert value not in page.content()
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="page-made"))
        expect(row).to_contain_text("inference")
    (made,) = [one for one in plane.ask("GET", "/admin/keys")[1]["keys"] if one["name"] == "page-made"]
    assert made["settings"] == {"models": ["a"], "requests_per_minute": 7, "tokens_per_day": 1000}
    assert plane.ask("POST", "/admin/keys/page-made/delete", {})[0] == 200


def test_the_first_key_is_made_only_by_who_knows_that_everybody_needs_one_then(browser: Browser) -> None:
    with running(serve("a")) as plane, opened(browser, plane, "keys") as page:
        page.get_by_role("button", name="Make the first key").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Scope")).to_have_value("admin")
        expect(dialog.get_by_role("listitem").last).to_contain_text("From then on every request needs a key")
        dialog.get_by_label("Name").fill("me")
        dialog.get_by_role("button", name="Make the key").click()
        assert plane.ask("GET", "/admin/keys")[1]["keys"] == [], "the question was not answered"
        dialog.get_by_role("checkbox").check()
        dialog.get_by_role("button", name="Make the key").click()
        value = dialog.locator("pre").inner_text()
        assert ask(plane, "") == 401
        assert ask(plane, value) == 200
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Sign out me")).to_be_visible()
        expect(page.get_by_role("link", name="me", exact=True)).to_be_visible()


def test_the_form_for_a_key_is_accessible_and_fits(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane, bypass_csp=True) as page:
        page.get_by_role("button", name="Make a key").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert faults(page) == []


def test_who_may_only_look_is_offered_no_key(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane, key=LOOK_KEY) as page:
        expect(page.get_by_role("table", name="Usage by day")).to_be_visible()
        assert page.get_by_role("button", name="Make a key").count() == 0


def test_failures_in_the_usage_lead_to_the_requests_that_failed(browser: Browser, plane: Plane) -> None:
    rows = [{**usage(plane, "key")[0], "failed": 2, "key": "bot"}]

    def with_failures(page: Page) -> None:
        signed_in(plane, ACT_KEY)(page)
        page.route("**/v1/usage?*", lambda route: route.fulfill(json={"data": rows, "total": rows[0]}))

    with opened(browser, plane, "keys/bot", before=with_failures) as page:
        tile = page.locator(".figures > div").filter(has_text="Failed").get_by_role("link")
        expect(tile).to_have_attribute("href", "#/requests?outcome=failed&last=604800&key=bot")


def test_no_table_scrolls_sideways_on_a_phone(browser: Browser, plane: Plane) -> None:
    with looking(browser, plane, look="phone") as page:
        expect(page.get_by_role("region", name="Usage by model")).to_be_visible()
        expect(page.get_by_role("region", name="All keys")).to_contain_text("bot")
        wide = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)"
        assert page.locator(".scroll").evaluate_all(wide) == []
