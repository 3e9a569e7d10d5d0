"""Models are added, checked and measured from the web page: jobs that outlive the page, as the commands do them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import MODELS, Plane, poll, running, serve
from tests.scenarios.web_page import LOOKS, browsing, faults, needs_browser, opened
from tests.setup.hub_stand_in import HubStandIn

from stoker.config.load import load

SPARK, EMBER = MODELS / "spark.gguf", MODELS / "ember.gguf"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubStandIn]:
    server = HubStandIn()
    large = tmp_path / "large.gguf"
    large.write_bytes(SPARK.read_bytes() + b"\0" * (8 * 2**20))
    server.repositories["org/tiny"] = {"spark-Q8_0.gguf": large, "ember-F16.gguf": EMBER, "README.md": b"x"}
    server.repositories["org/page"] = {"page-Q4_0.gguf": b"<html>" * 100}
    server.repositories["org/gated"] = {"spark.gguf": SPARK}
    server.gated.add("org/gated")
    yield server
    server.close()


@pytest.fixture
def plane(hub: HubStandIn) -> Iterator[Plane]:
    with running(serve("there"), environment={"HF_ENDPOINT": hub.url, "PATH": "/usr/bin:/bin"}) as found:
        yield found


def begun(plane: Plane, **request: object) -> str:
    status, job = plane.ask("POST", "/admin/jobs", request)
    assert status == 200, job
    return str(job["id"])


def job(plane: Plane, job_id: str) -> dict[str, Any]:
    return dict(plane.ask("GET", f"/admin/jobs/{job_id}")[1])


def ended(plane: Plane, job_id: str) -> dict[str, Any]:
    poll(
        lambda: job(plane, job_id)["state"] not in ("queued", "running"), lambda: f"it ends: {job(plane, job_id)}", 150
    )
    return job(plane, job_id)


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("STOKER_PICTURES"):
        for look, options in LOOKS.items():
            page.set_viewport_size(options["viewport"])
            page.emulate_media(color_scheme=options["color_scheme"], reduced_motion="reduce")
            page.screenshot(path=Path(folder) / f"{name}-{look}.png", full_page=True)


def test_what_a_repository_offers_is_listed_with_one_proposed(plane: Plane) -> None:
    before = plane.config.read_text()
    found = ended(plane, begun(plane, kind="look", model="hf:org/tiny"))
    assert found["state"] == "done", found
    result = found["result"]
    assert [one["add"] for one in result["models"]] == ["hf:org/tiny:ember-F16.gguf", "hf:org/tiny:spark-Q8_0.gguf"]
    assert result["chosen"]["file"] in ("ember-F16.gguf", "spark-Q8_0.gguf")
    for one in result["models"]:
        memory = one["memory"]
        assert one["verdict"] == "fits"
        assert 0 < memory["weights"] < memory["room"]
        assert memory["cache"] > 0
    assert plane.config.read_text() == before
    assert plane.status()["jobs"] == []


@pytest.mark.timeout(180)
def test_a_model_is_added_checked_and_answers(plane: Plane) -> None:
    before = plane.config.read_text()
    found = ended(plane, begun(plane, kind="add", model="hf:org/tiny:spark-Q8_0.gguf", name="small"))
    assert found["state"] == "done", found
    result = found["result"]
    assert (result["name"], result["preflight"]["outcome"]) == ("small", "passed")
    assert '+name = "small"' in result["diff"]
    assert result["next"].startswith("stoker ")
    assert plane.config.read_text().startswith(before)
    assert plane.serve("small")["state"] == "ready"
    assert plane.status()["jobs"][0]["state"] == "done"
    plane.unload("small")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("hf:org/gated", "accept them, then set HF_TOKEN"),
        ("hf:org/none", "or it is private: correct the name, or set HF_TOKEN"),
        ("hf:org/page", "is not a GGUF file"),
        ("hf:org/tiny:Q4_K_M", "has no model Q4_K_M"),
        ("./nothing.gguf", "does not exist"),
        ("--config=/etc/passwd", "--config=/etc/passwd does not exist"),
    ],
)
def test_what_cannot_be_added_ends_as_the_command_does_and_changes_nothing(plane: Plane, model: str, says: str) -> None:
    before = plane.config.read_text()
    found = ended(plane, begun(plane, kind="add", model=model))
    assert (found["state"], found["result"]) == ("failed", None)
    assert says in found["error"]["message"]
    assert plane.config.read_text() == before


def test_a_name_that_is_taken_and_a_slot_that_is_not_there_are_said(plane: Plane) -> None:
    taken = ended(plane, begun(plane, kind="add", model="hf:org/tiny", name="there"))
    assert "there" in taken["error"]["message"]
    slot = ended(plane, begun(plane, kind="add", model="hf:org/tiny", slot="gpu9"))
    assert slot["error"]["code"] == "unknown_slot"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"kind": "add"}, "bad_field"),
        ({"kind": "add", "model": " "}, "bad_field"),
        ({"kind": "add", "model": "a\nb"}, "bad_field"),
        ({"kind": "add", "model": "x" * 1001}, "bad_field"),
        ({"kind": "remove", "model": "x"}, "bad_json"),
        ({"kind": "benchmark", "serve": "nobody"}, "unknown_serve"),
        ({"kind": "preflight", "serve": "there"}, "not_up"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(plane: Plane, request_: dict[str, object], code: str) -> None:
    status, refused = plane.ask("POST", "/admin/jobs", request_)
    assert (status >= 400, refused["error"]["code"]) == (True, code)
    assert plane.status()["jobs"] == []


def held_download(plane: Plane, hub: HubStandIn) -> str:
    """A job whose file stops to come in its middle."""
    hub.holds_after, hub.pause = 4 * 2**20, 0.4
    found = begun(plane, kind="add", model="hf:org/tiny:spark-Q8_0.gguf", check=False)
    poll(lambda: (plane.status()["jobs"][0]["progress"] or {}).get("done"), lambda: f"bytes come: {job(plane, found)}")
    return found


def test_a_download_is_cancelled_and_goes_on_where_it_was(plane: Plane, hub: HubStandIn) -> None:
    first = held_download(plane, hub)
    status, refused = plane.ask("POST", "/admin/jobs", {"kind": "add", "model": "hf:org/tiny:spark-Q8_0.gguf"})
    assert (status, refused["error"]["code"]) == (409, "already_running")
    second = begun(plane, kind="add", model="hf:org/tiny:ember-F16.gguf", check=False)
    assert job(plane, second)["state"] == "queued"
    assert plane.ask("POST", f"/admin/jobs/{second}", {})[1]["state"] == "cancelled"
    plane.ask("POST", f"/admin/jobs/{first}", {})
    assert ended(plane, first)["state"] == "cancelled"
    assert any("kept" in note for note in job(plane, first)["notes"])
    hub.holds_after, hub.pause = None, 0.0
    again = ended(plane, begun(plane, kind="add", model="hf:org/tiny:spark-Q8_0.gguf", check=False))
    assert again["state"] == "done", again
    assert hub.store_saw[-1]["range"].startswith("bytes=")
    assert not hub.store_saw[-1]["range"].startswith("bytes=0-")
    assert {one.name for one in load(plane.config).serves} == {"there", "spark"}


def test_a_check_that_is_cancelled_says_what_was_added_and_again_it_is_there(plane: Plane) -> None:
    request = {"kind": "add", "model": str(EMBER), "name": "small"}
    first = begun(plane, **request)
    poll(lambda: any(one["name"] == "small" for one in plane.status()["serves"]), "it is added")
    plane.ask("POST", f"/admin/jobs/{first}", {})
    found = ended(plane, first)
    assert (found["state"], found["result"]["name"]) == ("cancelled", "small")
    assert found["result"]["preflight"]["outcome"] == "interrupted"
    again = ended(plane, begun(plane, **request))
    assert (again["state"], again["result"]["already"], again["result"]["name"]) == ("done", True, "small")
    plane.unload("small")


def test_a_file_that_may_not_be_changed_is_found_out_before_the_download(plane: Plane, hub: HubStandIn) -> None:
    def lock(sign: str) -> int:
        return subprocess.run(["chattr", f"{sign}i", str(plane.config)], check=False, capture_output=True).returncode

    if lock("+"):
        pytest.skip("this file system cannot lock a file")
    try:
        found = ended(plane, begun(plane, kind="add", model="hf:org/tiny:ember-F16.gguf", check=False))
    finally:
        lock("-")
    assert (found["state"], found["error"]["code"]) == ("failed", "not_edited")
    assert not list(plane.directory.rglob("ember-F16*"))
    assert hub.sent < EMBER.stat().st_size


def test_a_page_that_may_not_be_read_is_not_quoted(plane: Plane, tmp_path: Path) -> None:
    secret = tmp_path / "shadow"
    secret.write_text("root:secret")
    found = ended(plane, begun(plane, kind="add", model=str(secret)))
    assert found["error"]["message"].startswith(f"{secret} is not a GGUF file: ")
    assert "root:" not in json.dumps(plane.status()["jobs"])
    assert plane.status()["jobs"][0]["error"] == found["error"]["code"]


def test_the_end_of_stoker_ends_a_download_and_its_next_start_knows_of_it(plane: Plane, hub: HubStandIn) -> None:
    first = held_download(plane, hub)
    plane.signal(signal.SIGTERM)
    assert plane.exit_code() == 0
    plane.is_clean()
    assert "extension setup: drained failed" not in plane.log("stoker")
    plane.start()
    poll(lambda: plane.status()["jobs"], "jobs are read")
    [known] = plane.status()["jobs"]
    assert (known["id"], known["state"]) == (first, "interrupted")
    hub.holds_after, hub.pause = None, 0.0
    again = ended(plane, begun(plane, kind="add", model="hf:org/tiny:spark-Q8_0.gguf", check=False))
    assert again["state"] == "done", again
    assert not hub.store_saw[-1]["range"].startswith("bytes=0-")


def test_a_stoker_that_is_killed_leaves_no_process(plane: Plane, hub: HubStandIn) -> None:
    held_download(plane, hub)
    assert plane.process is not None
    plane.process.kill()
    plane.process.wait()
    poll(lambda: not plane.processes(), lambda: f"nothing is left: {plane.processes()}")
    plane.start()
    poll(lambda: [one["state"] for one in plane.status()["jobs"]] == ["interrupted"], "it is interrupted")


# -- the page in a browser -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.mark.timeout(240)
@needs_browser
def test_a_model_is_chosen_cancelled_taken_up_in_a_second_tab_and_used(
    browser: Browser, plane: Plane, hub: HubStandIn
) -> None:
    with opened(browser, plane, "serves") as page:
        page.get_by_role("link", name="Add a model").click()
        assert not faults(page)
        picture(page, "add")
        page.get_by_label("Model", exact=True).fill("hf:org/none")
        page.get_by_role("button", name="Look").click()
        expect(page.get_by_role("alert")).to_contain_text("has no repository org/none")
        picture(page, "add-no-repository")
        page.get_by_label("Model", exact=True).fill("hf:org/tiny")
        page.get_by_role("button", name="Look").click()
        offers = page.locator(".offer")
        expect(offers).to_have_count(2)
        expect(page.locator(".offer.chosen")).to_contain_text("proposed")
        offers.filter(has_text="ember").get_by_role("radio").check()
        offers.filter(has_text="spark").get_by_role("radio").check()
        page.get_by_label("Name", exact=True).fill("small")
        assert not faults(page)
        picture(page, "add-choose")
        hub.holds_after, hub.pause = 4 * 2**20, 0.4
        page.get_by_role("button", name="Add").click()
        expect(page.get_by_role("status").filter(has_text="MiB of 8.5 MiB · ")).to_be_visible()
        assert not faults(page)
        picture(page, "add-under-way")
        where = page.url.partition("#/")[2]
        with opened(browser, plane, where) as second:
            expect(second.get_by_role("status").filter(has_text="MiB of 8.5 MiB · ")).to_be_visible()
            second.get_by_role("button", name="Cancel").click()
            expect(second.get_by_text("It was cancelled. What was fetched is kept.")).to_be_visible()
        expect(page.get_by_text("It was cancelled. What was fetched is kept.")).to_be_visible()
        picture(page, "add-cancelled")
        hub.holds_after, hub.pause = None, 0.0
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_text("Added: serve small")).to_be_visible(timeout=120_000)
        expect(page.get_by_role("heading", name="It answers")).to_be_visible()
        expect(page.locator("figure.code", has_text='+name = "small"')).to_be_visible()
        assert not faults(page)
        picture(page, "add-done")
        page.get_by_role("link", name="Start a coding agent with it").click()
        expect(page.get_by_label("Model", exact=True)).to_have_value("small")
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/add")
        expect(page.locator(".jobs li")).to_have_count(2)
        picture(page, "add-before")
    plane.unload("small")
