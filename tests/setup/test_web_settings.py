"""The settings of a serve in a form: of the configuration's own definitions, written by the editor of `stoker add`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.scenarios.plane import MODELS, Plane, poll, running, serve
from tests.scenarios.web_page import LOOKS, browsing, faults, needs_browser, opened

from stoker.config.effective import schema
from stoker_setup.serve_settings import IN_FILE_ALONE, fields


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running("# mine\n" + serve("there", queue=3) + "   # behind") as found:
        yield found


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("STOKER_PICTURES"):
        for look, options in LOOKS.items():
            page.set_viewport_size(options["viewport"])
            page.emulate_media(color_scheme=options["color_scheme"], reduced_motion="reduce")
            page.screenshot(path=Path(folder) / f"{name}-{look}.png", full_page=True)


def form(plane: Plane) -> dict[str, Any]:
    return dict(plane.ask("GET", "/admin/settings/there")[1])


def change(plane: Plane, values: dict[str, object], dry_run: bool = False, version: str = "") -> tuple[int, Any]:
    version = version or form(plane)["version"]
    return plane.ask("POST", "/admin/settings/there", {"values": values, "version": version, "dry_run": dry_run})


def test_no_field_names_a_program_a_file_or_another_machine() -> None:
    names = {one["name"] for one in fields(schema())}
    assert not names & IN_FILE_ALONE
    assert {"context", "parallel", "queue", "idle_unload", "aliases", "keep_loaded"} <= names
    assert set(schema()["$defs"]["ServeRow"]["properties"]) >= IN_FILE_ALONE


def test_a_change_is_shown_written_and_in_effect(plane: Plane) -> None:
    before = plane.config.read_text()
    values = {one["name"]: one["value"] for one in form(plane)["fields"]}
    assert (values["queue"], values["context"]) == (3, None)
    status, shown = change(plane, {"queue": 5, "aliases": ["also"]}, dry_run=True)
    assert (status, shown["written"], plane.config.read_text()) == (200, False, before)
    status, done = change(plane, {"queue": 5, "aliases": ["also"]})
    assert (status, done["written"], done["diff"]) == (200, True, shown["diff"])
    assert plane.serve("there")["aliases"] == ["also"]
    after = plane.config.read_text()
    assert [line for line in before.splitlines() if line not in after.splitlines()] == ["queue = 3   # behind"]
    assert "queue = 5   # behind" in after
    assert change(plane, {"queue": 3, "aliases": None})[1]["written"] is True
    assert plane.config.read_text() == before


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"queue": -1}, "queue", "queue"),
        ({"queue": "many"}, "queue", "queue"),
        ({"idle_unload": "soon"}, "idle_unload", "idle_unload"),
        ({"slot": "gpu9"}, "slot", "gpu9"),
        ({"status": "odd"}, "status", "status"),
    ],
)
def test_what_is_not_valid_is_said_at_its_field_and_nothing_is_written(
    plane: Plane, values: dict[str, object], field: str, says: str
) -> None:
    before = plane.config.read_text()
    status, answer = change(plane, values)
    assert (status, answer["written"]) == (200, False)
    assert [(one["field"], says in one["message"]) for one in answer["problems"]] == [(field, True)]
    assert plane.config.read_text() == before


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"cmd": "touch /tmp/x"}, "not_in_form"),
        ({"extra_args": ["--log-file", "/tmp/x"]}, "not_in_form"),
        ({"nothing": 1}, "not_in_form"),
        ({"queue": {"a": 1}}, "bad_field"),
        ({"aliases": [1]}, "bad_field"),
        ({"title": "x" * 5000}, "bad_field"),
    ],
)
def test_what_the_form_has_not_is_refused(plane: Plane, values: dict[str, object], code: str) -> None:
    before = plane.config.read_text()
    status, refused = change(plane, values)
    assert (status >= 400, refused["error"]["code"]) == (True, code)
    assert plane.config.read_text() == before


def test_a_stoker_with_another_state_directory_has_what_its_page_changed_and_added() -> None:
    with running(serve("there", queue=3), started=False) as plane:
        plane.state = plane.directory / "other"
        plane.start("--config", str(plane.config), "--state", str(plane.state))
        status, done = change(plane, {"aliases": ["also"]})
        assert (status, done["written"], done["reloaded"]) == (200, True, True)
        assert plane.serve("there")["aliases"] == ["also"]
        request = {"kind": "add", "model": str(MODELS / "ember.gguf"), "check": False}
        begun = plane.ask("POST", "/admin/jobs", request)[1]["id"]
        poll(lambda: plane.ask("GET", f"/admin/jobs/{begun}")[1]["state"] not in ("queued", "running"), "it ends")
        found = plane.ask("GET", f"/admin/jobs/{begun}")[1]
        assert (found["state"], found["result"]["reloaded"]) == ("done", True)
        assert found["result"]["next"].endswith(f" --state {plane.state}")
        assert plane.serve("ember")["state"] == "stopped"


def test_a_file_that_was_changed_meanwhile_is_left_alone(plane: Plane) -> None:
    version = form(plane)["version"]
    plane.config.write_text(plane.config.read_text() + "# by hand\n")
    status, refused = change(plane, {"queue": 5}, version=version)
    assert (status, refused["error"]["code"]) == (409, "changed_meanwhile")
    assert "# by hand" in plane.config.read_text()
    assert plane.ask("GET", "/admin/settings/nobody")[0] == 404


@needs_browser
def test_a_setting_is_found_corrected_and_written(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves/there") as page:
        page.get_by_role("link", name="Change its settings").click()
        expect(page.get_by_label("queue", exact=True)).to_have_value("3")
        assert not faults(page)
        picture(page, "settings")
        page.get_by_label("idle_unload", exact=True).fill("soon")
        page.get_by_label("queue", exact=True).fill("5")
        page.get_by_role("button", name="Show the difference").click()
        wrong = page.locator(".setting.wrong")
        expect(wrong).to_contain_text("idle_unload")
        assert not faults(page)
        picture(page, "settings-wrong")
        page.get_by_label("idle_unload", exact=True).fill("5m")
        page.get_by_role("button", name="Show the difference").click()
        expect(page.locator("figure.code")).to_contain_text('+idle_unload = "5m"')
        assert not faults(page)
        picture(page, "settings-difference")
        page.get_by_role("button", name="Write and reload").click()
        expect(page.get_by_role("status").filter(has_text="Written to")).to_be_visible()
        picture(page, "settings-written")
        page.get_by_role("button", name="Change more").click()
        expect(page.get_by_label("queue", exact=True)).to_have_value("5")
    assert 'idle_unload = "5m"' in plane.config.read_text()


@needs_browser
def test_a_difference_of_values_that_have_changed_is_not_shown_and_not_written(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves/there?show=settings") as page:
        held: list[Route] = []

        def hold_first(route: Route) -> None:
            if route.request.method == "POST" and not held:
                held.append(route)
            else:
                route.continue_()

        page.route("**/admin/settings/there", hold_first)
        page.get_by_label("queue", exact=True).fill("5")
        page.get_by_label("queue", exact=True).blur()
        page.get_by_role("button", name="Show the difference").click()
        expect(page.get_by_role("button", name="Show the difference")).to_be_disabled()
        page.get_by_label("queue", exact=True).fill("7")
        page.get_by_label("queue", exact=True).blur()
        expect(page.get_by_role("button", name="Show the difference")).to_be_enabled()
        with page.expect_response("**/admin/settings/there"):
            held[0].continue_()
        expect(page.get_by_role("button", name="Write and reload")).to_have_count(0)
        page.get_by_role("button", name="Show the difference").click()
        expect(page.locator("figure.code")).to_contain_text("+queue = 7")
        expect(page.locator("figure.code")).not_to_contain_text("+queue = 5")
        page.get_by_role("button", name="Write and reload").click()
        expect(page.get_by_role("status").filter(has_text="Written to")).to_be_visible()
    assert "queue = 7" in plane.config.read_text()
