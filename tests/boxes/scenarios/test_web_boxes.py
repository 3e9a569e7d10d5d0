"""A slot of another Stoker on the web page, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.boxes.scenarios.test_boxes import boxes
from tests.scenarios.caller import document
from tests.scenarios.plane import PATIENCE, Plane, running, serve
from tests.scenarios.web_page import CHECKED, browsing, faults, needs_browser, opened

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def here() -> Iterator[Plane]:
    two = "[slots.gpu0]\nmemory = '2GiB'"
    with (
        running(serve("big", memory="1GiB"), serve("other", memory="1GiB"), slots=two) as there,
        running(boxes(there), serve("a")) as found,
    ):
        for plane, model in ((there, "other"), (found, "big")):
            url = f"http://127.0.0.1:{plane.port}/v1/chat/completions"
            assert httpx.post(url, json=document(model), timeout=PATIENCE).status_code == 200
        yield found


@pytest.mark.parametrize("look", ["light", *CHECKED])
def test_the_overview_says_whose_slot_it_is_and_what_others_have_there(
    browser: Browser, here: Plane, look: str
) -> None:
    with opened(browser, here, "", look) as page:
        slot = page.get_by_role("region", name="Slot box2:gpu0")
        expect(slot.get_by_text("slot of another Stoker, at http://127.0.0.1:")).to_be_visible()
        expect(slot.get_by_text("awake · also loaded there: other")).to_be_visible()
        expect(page.get_by_role("region", name="Slot gpu0").get_by_text("another Stoker")).to_have_count(0)
        assert faults(page) == []
        if folder := os.environ.get("STOKER_PICTURES"):
            page.screenshot(path=Path(folder) / f"box-{look}.png", full_page=True)
