"""What the owners of usual machines see on the web page, in a real browser: see `test_owners.py`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.scenarios.plane import poll, running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened
from tests.setup.machines import become

from stoker_lab.testing.script.script import Script

pytestmark = needs_browser

CARDS = {
    "two cards of Intel": (
        ("intel:0", "Intel GPU", {"Memory": "unknown of 12.0 GiB", "Temperature": "51 °C of 100 °C"}),
        ("intel:1", "Intel GPU", {"Memory": "unknown", "Temperature": "unknown"}),
    ),
    "a GPU inside the processor": (
        ("amd:0", "AMD GPU (gfx1103)", {"Use": "37 %", "Memory": "1.3 GiB of 18.0 GiB", "Temperature": "unknown"}),
    ),
    "two unequal cards of NVIDIA": (
        ("nvidia:0", "RTX 3060", {"Memory": "0 B of 12.0 GiB", "Temperature": "40 °C"}),
        ("nvidia:1", "RTX 4090", {"Memory": "0 B of 24.0 GiB", "Temperature": "41 °C"}),
    ),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.mark.timeout(120)  # a browser on a busy machine
@pytest.mark.parametrize("kind", CARDS)
def test_the_overview_shows_each_card_with_its_name_and_figures(browser: Browser, kind: str, tmp_path: Path) -> None:
    slots = "\n".join(f'[slots.gpu{number}]\ndevices = ["{name}"]' for number, (name, *_) in enumerate(CARDS[kind]))
    given = [serve(f"model-{number}", slot=f"gpu{number}") for number in range(len(CARDS[kind]))]
    with running(*given, slots=slots, started=False) as plane:
        plane.start(prepare=partial(become, kind, tmp_path))
        with opened(browser, plane, bypass_csp=True) as page:
            cards = page.locator(".device")
            expect(cards).to_have_count(len(CARDS[kind]))
            for card, (name, title, figures) in zip(cards.all(), CARDS[kind], strict=True):
                expect(card.locator(".device-head")).to_have_text(f"{name} {title}")
                for figure, value in figures.items():
                    expect(card.locator("dl > div").filter(has_text=figure).locator("dd")).to_have_text(value)
            assert faults(page) == []


SAID = "llama_prepare_model_devices: using device CUDA0 (RTX 3060) (0000:01:00.0) - 11012 MiB free"
PROBLEM = "its engine printed that it uses nvidia:0 (RTX 3060), and its slot gives it nvidia:1 (RTX 4090)"


@pytest.mark.timeout(120)
def test_an_engine_that_uses_another_card_than_its_slot_has_is_told_everywhere(
    browser: Browser, tmp_path: Path
) -> None:
    command = ["sh", "-c", f'echo "{SAID}"; exec "$@"', "sh", *Script(id="a").command("{port}")]
    tables = serve("a", cmd=command), '[watchdog]\ninterval = "200ms"'
    with running(*tables, slots='[slots.gpu0]\ndevices = ["nvidia:1"]', started=False) as plane:
        plane.start(prepare=partial(become, "two unequal cards of NVIDIA", tmp_path))
        assert plane.admin("switch", serve="a")[0] == 200
        poll(lambda: plane.serve("a")["watchdog"]["health"] == "sick", "the watchdog has looked")
        [told] = [one for one in plane.status()["events"] if one["kind"] == "sick"]
        assert (told["serve"], told["text"]) == ("a", f"devices: {PROBLEM}")
        for words in (("slot", "list"), ("serves", "status"), ("doctor",)):
            assert PROBLEM in " ".join(plane.run(*words).stdout.split()), words
        with opened(browser, plane, bypass_csp=True) as page:
            for route in ("", "serves", "serves/a"):
                page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}")
                expect(page.get_by_text(PROBLEM).first).to_be_visible()
                assert faults(page) == [], route
