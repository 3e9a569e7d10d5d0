"""The overview and the serves in a real browser: where figures lead, what signs mean, what a row does."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import PATIENCE, Plane, llama, running, serve
from tests.scenarios.web_page import CHECKED, browsing, faults, needs_browser, opened

from stoker.domain import figures
from stoker_lab.testing.script.script import Script

pytestmark = needs_browser

LAST_WORDS = "no such tensor"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    given = (
        serve("a", Script(tokens=30, gap=0.02, context=8192), aliases=["first", "best"], memory="2GiB", context=8192),
        serve("b", memory="1GiB"),
        serve("bad", Script(exit_code=3, last_words=LAST_WORDS), memory="1GiB"),
    )
    with running(*given, slots='[slots.gpu0]\nmemory = "8GiB"') as found:
        assert found.admin("switch", serve="a")[0] == 200
        assert [ask(found, "a"), ask(found, "nobody"), ask(found, "bad")] == [200, 404, 503]
        yield found


def ask(plane: Plane, model: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=PATIENCE)
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        return reply.status
    finally:
        connection.close()


@pytest.mark.timeout(120)  # as for the curves below
def test_the_overview_and_the_serves_are_accessible_and_fit_when_there_is_much_to_show(
    browser: Browser, plane: Plane
) -> None:
    with opened(browser, plane, bypass_csp=True) as page:
        for route, part in (("", ".plot"), ("serves", ".problem"), ("serves/a", ".plot"), ("requests", "[data-row]")):
            page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}")
            expect(page.locator(part).first).to_be_visible()
            assert faults(page) == [], route


@pytest.mark.parametrize("look", CHECKED)
def test_the_state_and_the_buttons_of_a_serve_are_in_sight_and_a_question_shows_all_its_words(
    browser: Browser, look: str
) -> None:
    long = "a-model-with-a-rather-long-name-of-its-own-Q4_K_M"
    with running(serve(long, Script(exit_code=3, last_words=LAST_WORDS)), serve("b")) as plane:
        assert [ask(plane, long), ask(plane, "b")] == [503, 200]
        with opened(browser, plane, "serves", look=look) as page:
            for name, verb in ((long, "Load"), ("b", "Unload")):
                row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
                expect(row.locator(".state")).to_be_in_viewport(ratio=0.99)
                expect(row.get_by_role("button")).to_be_in_viewport(ratio=0.99)
                row.get_by_role("button", name=f"{verb} {name}").click()
                dialog = page.get_by_role("dialog")
                expect(dialog.get_by_role("listitem").first).not_to_have_text("Ask Stoker what it would do.")
                assert dialog.evaluate("one => one.scrollWidth <= one.clientWidth"), name
                page.keyboard.press("Escape")


def test_the_tile_of_failures_leads_to_the_requests_that_it_counts(browser: Browser, plane: Plane) -> None:
    failed = [one["id"] for one in plane.decisions() if one["status"] >= 500]
    with opened(browser, plane) as page:
        tile = page.locator(".figures > div").filter(has_text="Failed")
        expect(tile.get_by_role("link")).to_have_text(re.compile(rf"^{len(failed)}\b"))
        tile.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
        assert page.url.endswith("#/requests?outcome=failed&last=300")
        rows = page.get_by_role("table", name="Requests").locator("[data-row]")
        assert sorted(row.get_attribute("data-row") or "" for row in rows.all()) == sorted(failed)
        expect(page.get_by_label("Ended")).to_have_value("300")


def test_the_other_tiles_lead_to_what_they_count(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane) as page:
        tiles = page.locator(".figures > div")
        expect(tiles.filter(has_text="Memory")).to_contain_text("of 8.0 GiB")
        for name, address in (
            ("In flight", "#/requests?outcome=in_flight"),
            ("Waiting", "#/requests?outcome=waiting"),
            ("Loaded", "#/serves"),
            ("Memory", "#/serves"),
        ):
            expect(tiles.filter(has_text=name).get_by_role("link")).to_have_attribute("href", address)


def test_signs_of_the_timeline_are_explained_and_the_pointer_is_told_what_it_is_on(
    browser: Browser, plane: Plane
) -> None:
    with opened(browser, plane) as page:
        expect(page.locator(".legend.lanes")).to_have_text(re.compile("loading.*ready.*draining.*request.*failed"))
        lane = page.locator(".lane li").filter(has=page.get_by_role("link", name="bad", exact=True))
        lane.locator("line.bad").first.wait_for(state="attached")
        box, line = lane.locator(".over").bounding_box(), lane.locator("line.bad").first.bounding_box()
        assert box is not None
        assert line is not None
        page.mouse.move(line["x"], box["y"] + 12)
        expect(lane.locator(".tip")).to_contain_text("bad")
        expect(lane.locator(".tip")).to_contain_text("engine failed (start failed)")
        page.mouse.click(line["x"], box["y"] + 12)
        expect(page.get_by_role("heading", level=1)).to_have_text("bad")
        assert "#/requests/" in page.url


def test_latency_and_speed_over_time_are_drawn_from_what_was_recorded(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves/a") as page:
        page.get_by_role("button", name="5 min", exact=True).click()
        plots = page.locator(".plot")
        expect(plots).to_have_count(2, timeout=30_000)  # the part of ten seconds has to end
        expect(plots.first.get_by_role("img")).to_have_attribute(
            "aria-label", re.compile("Latency in s, median: whole")
        )
        plots.last.get_by_text("As a table").click()
        expect(plots.last.get_by_role("table")).to_contain_text("all together")
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/serves/b")
        expect(page.locator("main")).to_contain_text("No request ended in the last 5 min: ")


@pytest.mark.timeout(120)  # two parts of ten seconds have to end
def test_curves_appear_as_wide_as_their_place_when_the_first_times_are_there(browser: Browser) -> None:
    unstreamed = {"model": "c", "messages": [{"role": "user", "content": "hello"}]}
    with running(serve("c", slot=None)) as plane, opened(browser, plane, "serves/c") as page:
        page.get_by_role("button", name="5 min", exact=True).click()
        expect(page.locator("main")).to_contain_text("No request ended")
        assert plane.ask("POST", "/v1/chat/completions", unstreamed)[0] == 200
        plot = page.locator(".plot").first  # that of tokens per second has no times of its own
        expect(plot).to_be_visible()
        assert ask(plane, "c") == 200
        expect(plot.locator(".key")).to_have_count(2)
        drawn, place = plot.locator("svg").bounding_box(), plot.locator("div").first.bounding_box()
        assert drawn is not None
        assert place is not None
        assert drawn["width"] == pytest.approx(place["width"], abs=2)


def test_the_table_of_serves_has_what_a_serve_is_and_why_it_failed_and_loads_it(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves") as page:

        def row(name: str):  # type: ignore[no-untyped-def]
            return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))

        for words in ("first, best", "8,192", plane.serve("a")["engine"], figures.size(plane.serve("a")["measured"])):
            expect(row("a")).to_contain_text(words)
        expect(page.locator(".problem")).to_contain_text(LAST_WORDS)
        expect(page.locator(".problem").get_by_role("link", name="Its log")).to_be_visible()
        row("b").get_by_role("button", name="Load b").click()
        page.get_by_role("dialog").get_by_role("button", name="Load", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text("b is ready")
        page.keyboard.press("Escape")
        row("b").get_by_role("button", name="Unload b").click()
        page.get_by_role("dialog").get_by_role("button", name="Unload", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text("b is unloaded")
    assert plane.serve("b")["state"] == "stopped"


def test_a_serve_that_cannot_load_is_red_everywhere_with_the_reason(browser: Browser, plane: Plane) -> None:
    (plane.directory / "cut.gguf").write_bytes(b"GGUF")
    with running(serve("a"), llama("cut", str(plane.directory / "cut.gguf"))) as other:
        assert ask(other, "cut") == 503
        assert other.serve("cut")["state"] == "cannot_load"
        reason = other.serve("cut")["cannot_load"]
        with opened(browser, other) as page:
            lane = page.locator(".lane li").filter(has=page.get_by_role("link", name="cut", exact=True))
            expect(lane.locator(".state")).to_have_text("✕ cannot load")
            expect(lane).to_contain_text(reason)
            expect(lane.get_by_role("link", name="Its log")).to_have_count(0)  # nothing was started
            lane.get_by_role("link", name="cut", exact=True).click()
            expect(page.get_by_role("heading", level=1)).to_have_text("cut")
            expect(page.locator(".note.bad")).to_contain_text(reason)
            page.goto(f"http://127.0.0.1:{other.port}/ui/#/serves")
            row = page.get_by_role("row").filter(has=page.get_by_role("link", name="cut", exact=True))
            expect(row.locator(".state")).to_have_text("✕ cannot load")
            expect(page.locator(".problem")).to_contain_text(reason)
            row.get_by_role("button", name="Load cut").click()
            expect(page.get_by_role("dialog").get_by_role("listitem").first).to_contain_text(reason)


def test_bars_of_requests_are_on_one_linear_scale_whose_end_is_shown(browser: Browser, plane: Plane) -> None:
    lengths = {"short": 1.0, "double": 2.0, "long": 400.0, **{f"r{number}": 2.0 for number in range(40)}}
    records = [
        {"id": name, "at": 1_000 + number, "endpoint": "/v1/chat/completions", "model": name, "serve": "a",
         "outcome": "served", "status": 200, "latency": latency, "stream": True, "ttft": 0.5}
        for number, (name, latency) in enumerate(lengths.items())
    ]  # fmt: skip
    snapshots = (
        {"topic": "status", **plane.status()}, {"topic": "decisions", "decisions": records},
        {"topic": "requests", "count": 0, "requests": {}},
    )  # fmt: skip
    stream = "".join(f"event: snapshot\ndata: {json.dumps(one)}\n\n" for one in snapshots)

    def told(page: Page) -> None:
        page.route("**/events?*", lambda route: route.fulfill(content_type="text/event-stream", body=stream))
        page.route("**/admin/decisions?*", lambda route: route.fulfill(json={"decisions": records}))

    with opened(browser, plane, "requests?q=", before=told) as page:
        bars = page.locator("[data-row]")
        expect(bars.first).to_be_visible()

        def width(name: str) -> float:
            parts = page.locator(f'[data-row="{name}"] .shares i').all()
            return sum(box["width"] for part in parts if (box := part.bounding_box()))

        assert width("double") == pytest.approx(2 * width("short"), abs=1.5)
        expect(page.locator(".ends")).to_have_text("02.0 s")
        expect(page.locator('[data-row="long"] .shares')).to_have_class("shares longer")
        expect(page.locator(".legend")).to_contain_text("from 0 to 2.0 s")


@pytest.mark.parametrize("look", CHECKED)
def test_each_device_is_a_card_and_what_it_does_not_say_is_unknown(browser: Browser, plane: Plane, look: str) -> None:
    unknown = dict.fromkeys(("use", "memory_used", "temperature", "watts", "watts_limit", "core_mhz", "throttled"))
    hot = {
        "name": "nvidia:0", "title": "NVIDIA L4", "use": 0.73, "memory_used": 6 * 2**30, "memory": 24 * 2**30,
        "temperature": 91, "temperature_limit": 93, "watts": 60, "watts_limit": 72, "core_mhz": 1200,
        "throttled": ["heat", "power"], "suspended": False,
    }  # fmt: skip
    silent = {**hot, **unknown, "name": "amd:0", "title": "AMD GPU"}
    resting = {**hot, **unknown, "name": "intel:0", "title": "Intel GPU", "suspended": True}
    snapshots = (
        {"topic": "status", **plane.status(), "devices": [hot, silent, resting]},
        {"topic": "decisions", "decisions": []}, {"topic": "requests", "count": 0, "requests": {}},
    )  # fmt: skip
    stream = "".join(f"event: snapshot\ndata: {json.dumps(one)}\n\n" for one in snapshots)

    def told(page: Page) -> None:
        page.route("**/events?*", lambda route: route.fulfill(content_type="text/event-stream", body=stream))

    with opened(browser, plane, look=look, before=told, bypass_csp=True) as page:
        cards = page.locator(".device")
        expect(cards).to_have_count(3)
        expect(cards.nth(0)).to_have_class("device bad")
        for words in (
            "73 %",
            "6.0 GiB of 24.0 GiB",
            "60 W of 72 W",
            "91 °C of 93 °C",
            "slowed down by heat",
            "1200 MHz",
        ):
            expect(cards.nth(0)).to_contain_text(words)
        expect(cards.nth(1).get_by_text("unknown", exact=True)).to_have_count(4)
        expect(cards.nth(1).locator(".gauge")).to_have_count(0)
        expect(cards.nth(2)).to_contain_text("switched off until somebody uses it")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")


def test_tabs_of_a_phone_show_on_which_side_there_are_more(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, look="phone") as page:
        nav, sides = page.get_by_role("navigation"), page.locator(".pages")
        expect(sides).to_have_attribute("data-more", "after")
        nav.evaluate("one => { one.scrollLeft = 60; }")
        expect(sides).to_have_attribute("data-more", "before after")
        nav.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
        expect(sides).to_have_attribute("data-more", "before")
    with opened(browser, plane) as page:
        expect(page.locator(".pages")).to_have_attribute("data-more", "")
