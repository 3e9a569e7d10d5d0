"""Make the pictures of the web page in docs/pictures: `python scripts/screenshots.py`.

Runs a Stoker with scripted serves under names of well-known models, and asks it for two minutes, so that the pictures
show a page at work. Needs Chromium (`apt-get install chromium-headless-shell`).
"""

from __future__ import annotations

import http.client
import json
import random
import shutil
import sys
import threading
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.scenarios.plane import Plane, running, serve  # noqa: E402

from stoker.testing.script.script import Script  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
PAGES = {"overview": "", "serve": "serves/qwen3-8b"}
WARM_UP = 100.0
"""Seconds of traffic before the first picture."""
SWAP = 'min_residency = "6s"\nlinger = "2s"\nmax_wait = "12s"\ndrain_timeout = "10s"'
CLIENTS = {
    ("qwen3-8b",): 1.0,
    ("qwen3-8b", "coder-14b"): 9.0,
    ("qwen3-8b", "qwen3-8b", "gemma-3-12b"): 14.0,
    ("bge-m3",): 1.5,
    ("bge-m3", "bge-m3", "reranker"): 7.0,
}
"""Who asks for which models, and how long each client rests at most."""


def scripted(name: str, slot: str, model: str, ready_after: float, megabytes: int) -> str:
    script = Script(ready_after=ready_after, gap=0.04, tokens=70, memory_mb=megabytes)
    return serve(name, script, slot=slot, model=model, parallel=4)


def serves() -> list[str]:
    return [
        scripted("qwen3-8b", "gpu0", "Qwen/Qwen3-8B", 3.0, 60),
        scripted("gemma-3-12b", "gpu0", "google/gemma-3-12b-it", 4.0, 80),
        scripted("coder-14b", "gpu0", "Qwen/Qwen2.5-Coder-14B", 6.0, 90),
        scripted("bge-m3", "gpu1", "BAAI/bge-m3", 1.0, 30),
        scripted("reranker", "gpu1", "BAAI/bge-reranker-v2-m3", 1.0, 30),
    ]


def ask(port: int, model: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "What is a stoker?"}]}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        connection.getresponse().read()
    except OSError:
        pass  # the end
    finally:
        connection.close()


def work(port: int, models: tuple[str, ...], rest: float, end: threading.Event) -> None:
    choose = random.Random(repr(models))
    while not end.is_set():
        ask(port, choose.choice(models))
        end.wait(choose.random() * rest)


def prepare(page: Page, name: str) -> None:
    """Wait for a view that is worth a picture."""
    if name == "overview":
        page.get_by_role("button", name="5 min", exact=True).click()
        page.locator(".slot", has_text="Loading").first.wait_for(timeout=60_000)
    else:
        page.locator(".checks").wait_for(timeout=60_000)
    page.evaluate("scrollTo(0, 0)")


def take(plane: Plane) -> None:
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1120, "height": 780}, color_scheme=scheme)
            page.goto(f"http://127.0.0.1:{plane.port}/ui/")
            if scheme == "light":
                time.sleep(WARM_UP)
            for name, route in PAGES.items():
                page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}")
                prepare(page, name)
                if name == "overview" or scheme == "light":
                    page.screenshot(path=PICTURES / f"web-{name}{'-dark' if scheme == 'dark' else ''}.png")
        browser.close()


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    end = threading.Event()
    with running(*serves(), slots="[slots.gpu0]\n[slots.gpu1]", swap=SWAP) as plane:
        clients = [threading.Thread(target=work, args=(plane.port, *one, end)) for one in CLIENTS.items()]
        for client in clients:
            client.start()
        try:
            take(plane)
        finally:
            end.set()
            for client in clients:
                client.join()
    for picture in sorted(PICTURES.glob("web-*.png")):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
