"""A real browser on the web page of a Stoker, for stories about it."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.scenarios.plane import PATIENCE, Plane

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
AXE = Path(__file__).resolve().parents[1] / "gateway" / "web" / "vendor" / "axe.min.js"
LOOKS: dict[str, Any] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}
CHECKED = ("dark", "phone")
"""Between them, both colour schemes and both widths."""
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium-headless-shell")
expect.set_options(timeout=PATIENCE * 1000)


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Browser,
    plane: Plane,
    route: str = "",
    look: str = "light",
    may_say: str = "net::ERR_",
    before: Callable[[Page], object] = lambda page: None,
    waits_for: Literal["load", "commit"] = "load",
    **options: Any,
) -> Iterator[Page]:
    """The page, shown in a browser that has never seen it. At the end its console has to be empty, but for refused keys
    and lines that match `may_say`. `before` is called with the page while it is empty. `waits_for`: "commit" if a part
    of it never comes.
    """
    context: BrowserContext = browser.new_context(**{**LOOKS[look], "reduced_motion": "reduce", **options})
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    try:
        before(page)
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}", wait_until=waits_for)
        yield page
        unexpected = [line for line in said if not re.search(rf" 40[13] |{may_say}", line)]
        assert not unexpected, unexpected
    finally:
        context.close()


def signed_in(plane: Plane, key: str) -> Callable[[Page], None]:
    """For `before`: the session that the page's own form would begin."""

    def sign_in(page: Page) -> None:
        headers = {"authorization": f"Bearer {key}", "x-stoker-page": "1"}
        reply = page.context.request.post(
            f"http://127.0.0.1:{plane.port}/ui/session", headers=headers, data={"path": "/"}
        )
        assert reply.ok, reply.text()

    return sign_in


def faults(page: Page) -> list[str]:
    """What axe-core finds wrong in each look of CHECKED; a page that is wider than its window fails, too. The page is
    asked for once, and changes as when a window or the colours of a machine change.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_axe())
    found = []
    for look in CHECKED:
        page.set_viewport_size(LOOKS[look]["viewport"])
        page.emulate_media(color_scheme=LOOKS[look]["color_scheme"], reduced_motion="reduce")
        page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")
        for one in page.evaluate("async () => (await axe.run()).violations"):
            found.append(f"{look}, {one['id']}: {json.dumps([node['target'] for node in one['nodes']][:5])}")
    return found


@functools.cache
def _axe() -> str:
    return AXE.read_text()
