"""The page shows a serve that cannot load in red, with the reason, and asks Stoker what a load would do."""

from __future__ import annotations

from playwright.sync_api import expect
from tests.scenarios.plane import MODELS, llama, running
from tests.scenarios.web_page import browsing, faults, needs_browser, opened

pytestmark = needs_browser


def test_a_serve_that_cannot_load_says_why_and_a_load_is_refused_in_advance() -> None:
    with running(llama("works"), llama("cut", model="../cut"), started=False) as plane:
        path = plane.directory / "cut.gguf"
        plane.write(plane.config.read_text().replace(str(MODELS / "../cut.gguf"), str(path)))
        path.write_bytes((MODELS / "spark.gguf").read_bytes()[:9000])
        plane.start()
        assert plane.admin("switch", serve="cut")[0] == 503
        with browsing() as browser, opened(browser, plane, "serves/cut") as page:
            state = page.locator(".head .state")
            expect(state).to_contain_text("cannot load")
            assert state.evaluate("one => getComputedStyle(one).color") == page.evaluate(
                """() => { const one = document.createElement('i'); one.style.color = 'var(--bad)';
                  document.body.append(one); const colour = getComputedStyle(one).color;
                  one.remove(); return colour }"""
            )
            expect(page.get_by_text("It cannot load:")).to_be_visible()
            expect(page.locator("main")).to_contain_text("cut.gguf")
            assert faults(page) == []
            page.get_by_role("button", name="Load").click()
            expect(page.get_by_role("dialog")).to_contain_text("Stoker refuses: serve 'cut' cannot load: ")
