"""What the owners of usual machines see on the web page, in a real browser: see `test_owners.py`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.scenarios.plane import running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened
from tests.setup.machines import become

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
