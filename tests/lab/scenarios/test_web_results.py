"""The page of results in a real browser: what was measured, side by side, and what follows from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.lab.scenarios import measured
from tests.scenarios.plane import Plane, running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened, signed_in

from stoker.domain.run import Finding, Outcome, Run, RunKind
from stoker_lab.comparison.runs import comparison_document

pytestmark = needs_browser

MARKUP = '<img src="x" onerror="document.title=1"><script>document.title=2</script>'
LOOK_KEY, ACT_KEY = "key-that-may-only-look", "key-that-may-act-too"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe" },
  { name = "boss", value = "env:ACT", scope = "admin" }]
"""
GATES = """
[gate.default]
conditions = ["preflight", "c4.ttft_p95 < 2s", "tools.lower >= 0.5"]

[gate.new]
conditions = ["canary"]

[alias.coder]
serve = "a"
gate = "default"
watch = "10m"
"""


class Shelf(NamedTuple):
    plane: Plane
    before: Run
    after: Run
    gate: Run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    environment = {"LOOK": LOOK_KEY, "ACT": ACT_KEY}
    with running(serve("a"), serve("b"), GATES, front_door=KEYS, environment=environment) as plane:
        now = time.time()
        before = measured.benchmark(plane.state, "a", now - 7200)
        after = measured.benchmark(plane.state, "b", now - 3600, speed=2.0, failed=3)
        findings = [
            Finding("preflight", Outcome.FAILED, f"preflight 20261121T185606Z-preflight-b-e23c: failed: {MARKUP}"),
            Finding("c4.ttft_p95 < 2s", Outcome.PASSED, "c4.ttft_p95 = 137.2 ms over 118 requests"),
            Finding(
                "tools.lower >= 0.5", Outcome.UNDECIDED, "no preflight was measured", fix="stoker eval preflight b"
            ),
        ]
        gate = measured.judgement(plane.state, "b", now - 600, "default", findings, [after.id])
        yield Shelf(plane, before, after, gate)


def looking(
    browser: Browser, shelf: Shelf, route: str = "results", key: str = LOOK_KEY, **options: Any
) -> AbstractContextManager[Page]:
    return opened(browser, shelf.plane, route, before=signed_in(shelf.plane, key), **options)


def test_every_page_of_results_is_accessible_fits_and_says_nothing_on_the_console(
    browser: Browser, shelf: Shelf
) -> None:
    titles = {
        "results": "Results",
        f"results/{shelf.after.id}": "Benchmark of b",
        f"results/{shelf.gate.id}": "Gate of b",
        f"results/compare/{shelf.before.id}/{shelf.after.id}": "Compare",
    }
    with looking(browser, shelf, bypass_csp=True) as page:
        for route, title in titles.items():
            page.goto(f"http://127.0.0.1:{shelf.plane.port}/ui/#/{route}")
            expect(page.get_by_role("heading", level=1)).to_have_text(title)
            expect(page.locator("main .wide, main .checks").first).to_be_visible()
            assert faults(page) == [], route


def test_two_results_are_picked_with_the_keyboard_and_compared_as_the_command_does_it(
    browser: Browser, shelf: Shelf
) -> None:
    with looking(browser, shelf) as page:
        page.get_by_label("Kind").select_option("benchmark")
        expect(page.locator(".results tbody tr")).to_have_count(2)
        for run in (shelf.after, shelf.before):  # whichever is picked first, the older one is the one before
            page.get_by_label(run.id).focus()
            page.keyboard.press("Space")
        page.get_by_role("link", name="Compare").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Compare")
        rows = page.locator(".compared").first.locator("tbody tr")
        asked = comparison_document(shelf.before, shelf.after)["rows"]
        expect(rows).to_have_count(len([row for row in asked if row["matters"]]))
        expect(rows.first).to_contain_text("Throughput tokens/s")
        assert rows.first.locator("td").all_inner_texts()[:3] == ["50\n45 to 54", "100\n90 to 108", "+100 %"]
        expect(rows.first).to_contain_text("apart")
        expect(page.locator(".note.warn")).to_contain_text("Two different models")
        expect(page.locator("main")).not_to_contain_text("-m a")
        assert page.title() == "Compare · Stoker"
    route = f"results/compare/{shelf.before.id}/{shelf.after.id}"
    with looking(browser, shelf, route, ACT_KEY) as page:  # the words of the command that differ, for scope admin
        expect(page.locator(".note.warn")).to_contain_text("command: … a → … b")


def test_curves_show_the_spread_and_say_the_same_in_a_table(browser: Browser, shelf: Shelf) -> None:
    with looking(browser, shelf, f"results/{shelf.before.id}") as page:
        plots = page.get_by_role("img")
        expect(plots).to_have_count(2)
        expect(plots.first).to_have_attribute(
            "aria-label", "Throughput in tokens/s: median of repeats from 50 at 1 to 200 at 8 clients"
        )
        expect(page.locator(".plot .band")).to_have_count(2)
        page.locator(".plot summary").first.click()
        table = page.get_by_role("table", name="Throughput in tokens/s")
        assert table.locator("tbody tr").all_inner_texts()[2] == "4\t200 (180 to 216)"
        box = plots.first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] - 40, box["y"] + 50)
        expect(page.locator(".plot .key").first).to_contain_text("200")


def test_each_condition_of_a_gate_is_met_not_met_or_unknown_with_its_figure(browser: Browser, shelf: Shelf) -> None:
    with looking(browser, shelf) as page:
        gate = page.get_by_role("region", name="Gate default").get_by_role("table")
        expect(gate.locator("tbody tr")).to_have_count(3)
        told = dict(row.split("\t") for row in gate.locator("tbody tr").all_inner_texts())
        assert told == {
            "preflight": f"✕ not met failed: {MARKUP}",
            "c4.ttft_p95 < 2s": "✓ met 137.2 ms over 118 requests",
            "tools.lower >= 0.5": "? unknown no preflight was measured",
        }
        expect(page.locator(".slot").filter(has_text="new")).to_contain_text("stoker gate SERVE --gate new")
        gate.get_by_role("link", name="b").click()
        expect(page.locator("main")).to_contain_text("Gate default: 1 of 3 conditions met")
        expect(page.locator("main")).to_contain_text("stoker eval preflight b")
        assert page.locator("main img, main script").count() == 0


def test_what_is_measured_meanwhile_appears_by_itself(browser: Browser, shelf: Shelf) -> None:
    with looking(browser, shelf) as page:
        page.get_by_label("Kind").select_option("canary")
        expect(page.locator("main")).to_contain_text("Nothing of this kind was measured.")
        measured.store(shelf.plane.state, RunKind.CANARY, "a", time.time(), Outcome.PASSED, [], {}, {})
        expect(page.locator(".results tbody tr")).to_have_count(1)
        expect(page.locator(".results tbody tr")).to_contain_text("Canary of a")


def test_a_promotion_shows_how_long_it_is_watched_and_is_taken_back_by_who_may(browser: Browser, shelf: Shelf) -> None:
    told = {"alias": "coder", "serve": "b", "force": True, "reason": MARKUP}
    assert shelf.plane.admin("promote", **told)[0] == 200
    with looking(browser, shelf) as page:
        row = page.get_by_role("listitem").filter(has_text="coder")
        expect(row).to_contain_text(MARKUP)
        expect(row).to_contain_text("watched for 9 min")
        assert row.get_by_role("button").count() == 0
    with looking(browser, shelf, key=ACT_KEY) as page:
        row = page.get_by_role("listitem").filter(has_text="coder")
        row.get_by_role("button", name="Take back").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Every new request for coder goes to a")
        dialog.get_by_role("button", name="Take back").click()
        expect(dialog).to_contain_text("coder means a again")
        page.keyboard.press("Escape")
        expect(row).to_contain_text("as configured")
    (alias,) = shelf.plane.status()["aliases"]
    assert (alias["serve"], alias["promoted_at"]) == ("a", None)


def test_a_result_that_is_not_there_is_said_in_words(browser: Browser, shelf: Shelf) -> None:
    with looking(browser, shelf, "results/20260101T000000Z-gate-x-0000", may_say=" 404 ") as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("No such result")
        expect(page.get_by_role("alert")).to_contain_text("no result '20260101T000000Z-gate-x-0000' can be read")
