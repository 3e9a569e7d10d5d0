"""A preflight and a benchmark that are begun on a serve's page: live progress, cancel, and reasons why not now."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import Plane, poll, running, serve
from tests.scenarios.web_page import LOOKS, browsing, faults, needs_browser, opened, signed_in

LOOK, ACT = "key-that-may-look", "key-that-may-act"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running(serve("there"), serve("other", slot="gpu1"), slots="[slots.gpu0]\n[slots.gpu1]",
                 keeps_engines=True) as found:  # fmt: skip
        yield found


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("STOKER_PICTURES"):
        for look, options in LOOKS.items():
            page.set_viewport_size(options["viewport"])
            page.emulate_media(color_scheme=options["color_scheme"], reduced_motion="reduce")
            page.screenshot(path=Path(folder) / f"{name}-{look}.png", full_page=True)


def job(plane: Plane, job_id: str) -> dict[str, Any]:
    return dict(plane.ask("GET", f"/admin/jobs/{job_id}")[1])


def ended(plane: Plane, job_id: str) -> dict[str, Any]:
    over = ("done", "failed", "cancelled")
    poll(lambda: job(plane, job_id)["state"] in over, lambda: f"it ends: {job(plane, job_id)}", 120)
    return job(plane, job_id)


def test_a_serve_that_takes_no_requests_is_refused_with_the_reason(plane: Plane) -> None:
    def refused() -> tuple[int, str, str]:
        status, answer = plane.ask("POST", "/admin/jobs", {"kind": "benchmark", "serve": "other"})
        return status, answer["error"]["code"], answer["error"]["message"]

    assert refused()[:2] == (409, "not_up")
    plane.admin("switch", serve="other")
    plane.admin("drain", serve="other")
    status, code, message = refused()
    assert (status, code) == (409, "drained")
    assert "admit requests again" in message
    plane.admin("undrain", serve="other")
    plane.admin("pause", slot="gpu1")
    poll(lambda: plane.serve("other")["state"] == "paused", "its slot is paused")
    assert refused()[:2] == (409, "paused")
    plane.admin("resume", slot="gpu1")
    plane.admin("drain")
    assert refused()[:2] == (409, "drained")
    plane.admin("undrain")


def test_a_preflight_ends_with_each_check_and_its_result_is_kept(plane: Plane) -> None:
    plane.admin("switch", serve="there")
    begun = plane.ask("POST", "/admin/jobs", {"kind": "preflight", "serve": "there"})[1]
    again = plane.ask("POST", "/admin/jobs", {"kind": "preflight", "serve": "there"})
    assert (again[0], again[1]["error"]["code"]) == (409, "already_running")
    found = ended(plane, begun["id"])
    assert found["state"] == "done", found
    assert {"model", "frames", "cancel"} <= {one["name"] for one in found["result"]["checks"]}
    assert plane.ask("GET", f"/admin/results/{found['result']['id']}")[0] == 200


def test_a_benchmark_is_cancelled_and_what_was_measured_is_kept(plane: Plane) -> None:
    plane.admin("switch", serve="there")
    begun = plane.ask("POST", "/admin/jobs", {"kind": "benchmark", "serve": "there", "quick": False})[1]["id"]
    poll(lambda: (job(plane, begun)["progress"] or {}).get("share"), lambda: f"it is under way: {job(plane, begun)}")
    plane.ask("POST", f"/admin/jobs/{begun}", {})
    found = ended(plane, begun)
    assert (found["state"], found["result"]["outcome"]) == ("cancelled", "interrupted")


def test_where_keys_are_asked_for_the_job_has_one_of_its_own_which_is_gone_at_the_end() -> None:
    keys = 'auth = "keys"\nkeys = [{ name = "user", value = "env:ACT", models = [] }]'
    with running(serve("there"), front_door=keys, environment={"ACT": ACT}) as plane:
        plane.admin("switch", serve="there")
        begun = plane.ask("POST", "/admin/jobs", {"kind": "benchmark", "serve": "there"})[1]["id"]
        poll(lambda: (job(plane, begun)["progress"] or {}).get("share"), lambda: f"it measures: {job(plane, begun)}")
        plane.ask("POST", f"/admin/jobs/{begun}", {})
        assert ended(plane, begun)["result"]["outcome"] == "interrupted"
        assert key_names(plane) == ["user"]
        plane.unload("there")


def key_names(plane: Plane) -> list[str]:
    return [str(one["name"]) for one in plane.ask("GET", "/admin/keys")[1]["keys"]]


def test_a_key_that_a_job_left_is_gone_after_the_next_start_and_no_other_one_is() -> None:
    keys = 'auth = "keys"\nkeys = [{ name = "user", value = "env:ACT", models = [] }]'
    with running(serve("there"), front_door=keys, environment={"ACT": ACT}) as plane:
        for name in ("page-measure", "page-add"):
            assert plane.ask("POST", "/admin/keys", {"name": name})[0] == 200
        plane.admin("switch", serve="there")
        done = plane.ask("POST", "/admin/jobs", {"kind": "preflight", "serve": "there"})[1]["id"]
        assert ended(plane, done)["state"] == "done"
        own = ["user", "page-measure", "page-add"]
        assert key_names(plane) == own
        for end in (signal.SIGTERM, signal.SIGKILL):
            begun = plane.ask("POST", "/admin/jobs", {"kind": "benchmark", "serve": "there", "quick": False})[1]["id"]
            poll(lambda: (job(plane, begun)["progress"] or {}).get("share"), "it measures")  # noqa: B023
            assert key_names(plane) == [*own, f"page-measure-{begun}"]
            plane.signal(end)
            plane.exit_code()
            plane.start()
            poll(lambda: sorted(key_names(plane)) == sorted(own), lambda: f"its key is gone: {key_names(plane)}")
            plane.admin("switch", serve="there")
        plane.unload("there")


def test_a_stoker_that_is_replaced_ends_its_job_without_its_successor() -> None:
    keys = 'auth = "keys"\nkeys = [{ name = "user", value = "env:ACT", models = [] }]'
    with running(serve("there"), front_door=keys, environment={"ACT": ACT}) as plane:
        plane.admin("switch", serve="there")
        begun = plane.ask("POST", "/admin/jobs", {"kind": "benchmark", "serve": "there", "quick": False})[1]["id"]
        poll(lambda: (job(plane, begun)["progress"] or {}).get("share"), "it measures")
        plane.start("--config", str(plane.config), "--replace")
        poll(lambda: plane.status()["jobs"], "jobs are read")
        assert [(one["id"], one["state"]) for one in plane.status()["jobs"]] == [(begun, "interrupted")]
        assert "extension setup: drained failed" not in plane.log("stoker")
        poll(lambda: key_names(plane) == ["user"], lambda: f"its key is gone: {key_names(plane)}")
        plane.unload("there")


@needs_browser
def test_a_preflight_is_begun_on_the_page_of_a_serve(browser: Browser, plane: Plane) -> None:
    plane.admin("switch", serve="there")
    plane.admin("unload", serve="other")
    with opened(browser, plane, "serves/other", may_say="net::ERR_| 409 ") as page:
        page.get_by_role("button", name="Preflight now").click()
        expect(page.get_by_role("alert")).to_contain_text("other is not loaded: load it first")
        picture(page, "measure-refused")
    with opened(browser, plane, "serves/there") as page:
        page.get_by_role("button", name="Benchmark now, full").click()
        measure = page.get_by_role("region", name="Measure it now")
        expect(measure.get_by_role("status")).to_contain_text("left")
        assert not faults(page)
        picture(page, "measure-under-way")
        with opened(browser, plane, "serves/there") as second:
            second.get_by_role("button", name="Cancel").click()
        expect(measure).to_contain_text("Interrupted: what was measured is kept.")
        page.get_by_role("button", name="Preflight now").click()
        expect(measure.get_by_role("status")).to_contain_text(" of ")
        expect(measure.get_by_role("button", name="Preflight now")).to_be_visible(timeout=120_000)
        expect(measure.locator("details[open]").first).to_contain_text("checks passed")
        assert not faults(page)
        picture(page, "measure-done")
        measure.get_by_role("link", name="The whole result").first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("there")


@needs_browser
def test_who_may_only_look_begins_nothing(browser: Browser) -> None:
    keys = 'keys = [{ name = "looker", value = "env:LOOK", scope = "observe" }]'
    with (
        running(serve("there"), front_door=keys, environment={"LOOK": LOOK}) as plane,
        opened(browser, plane, "serves/there", before=signed_in(plane, LOOK)) as page,
    ):
        expect(page.get_by_role("heading", name="there")).to_be_visible()
        for name in ("Preflight now", "Benchmark now, quick"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
        expect(page.get_by_role("link", name="Change its settings")).to_have_count(0)
        base = f"http://127.0.0.1:{plane.port}/admin"
        headers = {"authorization": f"Bearer {LOOK}"}
        for path in ("jobs", "jobs/1", "settings/there"):
            assert page.context.request.get(f"{base}/{path}", headers=headers).status == 403
            assert page.context.request.post(f"{base}/{path}", headers=headers, data={}).status == 403
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/add")
        expect(page.get_by_label("Model", exact=True)).to_have_count(0)
