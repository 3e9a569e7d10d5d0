"""Make the pictures of the web page in docs/pictures: `python scripts/screenshots.py [NAME...]`. No name: all.

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
from collections.abc import Callable, Set
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.routing_stage import routing_stage  # noqa: E402
from scripts.screenshots_keys import with_keys  # noqa: E402
from tests.scenarios.plane import Plane, running, serve  # noqa: E402

from stoker_lab.testing.script.answers import ScriptedAnswer, ScriptedText, answers_json  # noqa: E402
from stoker_lab.testing.script.script import Script  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
PAGES = {
    "overview": "", "serve": "serves/qwen3-8b", "requests": "requests",
    "request": "requests?slow=waited&outcome=served", "routing": "routing/coder/planning",
    "results": "results", "compare": "results", "playground": "playground/phi-4-mini", "about": "about",
}  # fmt: skip
IN_DARK = ("overview",)
MEASURED = {"results", "compare", "routing"}
"""Pictures of what is measured before the traffic begins."""
GATES = """
[gate.default]
conditions = ["c4.ttft_p50 < 1s", "c4.output_rate > 80", "canary"]

[alias.chat]
serve = "qwen3-8b"
gate = "default"
watch = "1h"
"""
SLOTS = "[slots.gpu0]\n[slots.gpu1]"
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
ANSWER = """A **stoker** fed the fire of a boiler. This one feeds models to your GPUs:

1. It starts a model when the first request for it comes.
2. It lets requests under way end before it stops another one.

```sh
stoker up --demo
```"""


def scripted(name: str, slot: str, model: str, ready_after: float, megabytes: int, gap: float = 0.04) -> str:
    script = Script(ready_after=ready_after, gap=gap, tokens=70, memory_mb=megabytes)
    return serve(name, script, slot=slot, model=model, parallel=4)


def serves() -> list[str]:
    answers = answers_json([ScriptedAnswer((ScriptedText(ANSWER),), cut=4)])
    talker = Script(gap=0.04, answers=answers, cached_tokens=3)
    return [
        scripted("qwen3-8b", "gpu0", "Qwen/Qwen3-8B", 3.0, 60),
        scripted("gemma-3-12b", "gpu0", "google/gemma-3-12b-it", 4.0, 80, gap=0.055),
        scripted("coder-14b", "gpu0", "Qwen/Qwen2.5-Coder-14B", 6.0, 90),
        scripted("bge-m3", "gpu1", "BAAI/bge-m3", 1.0, 30),
        scripted("reranker", "gpu1", "BAAI/bge-reranker-v2-m3", 1.0, 30),
        serve("phi-4-mini", talker, slot=None, model="microsoft/phi-4-mini"),
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
    if name in ("results", "compare"):
        page.locator(".results tbody tr").first.wait_for(timeout=60_000)
        if name == "compare":
            page.get_by_label("Kind").select_option("benchmark")
            for serve_name in ("qwen3-8b", "gemma-3-12b"):
                page.get_by_role("row", name=f"Benchmark of {serve_name}").get_by_role("checkbox").last.check()
            page.get_by_role("link", name="Compare").click()
            page.locator(".plot").first.wait_for(timeout=60_000)
    elif name == "overview":
        page.get_by_role("button", name="5 min", exact=True).click()
        page.locator(".slot", has_text="Loading").first.wait_for(timeout=60_000)
    elif name == "requests":
        page.locator(".virtual-rows .how", has_text="waiting").first.wait_for(timeout=60_000)
    elif name == "routing":
        page.locator("#evidence").wait_for()
    elif name == "request":
        page.locator(".virtual-rows a").first.click()
        page.locator(".waterfall .swap").first.wait_for()
    elif name == "serve":
        page.locator(".checks").wait_for(timeout=60_000)
    elif name == "about":
        page.get_by_text("parts are fine").wait_for(timeout=60_000)
    elif name == "playground":
        page.get_by_label("Message").fill("What is a stoker?")
        page.get_by_role("button", name="Send").click()
        page.get_by_text("Tokens/s").wait_for(timeout=60_000)
    page.evaluate("scrollTo(0, 0)")


CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


def take_keys(plane: Plane, sign_in: Callable[[Page], None]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1120, "height": 780})
        sign_in(page)
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/keys")
        page.get_by_role("table", name="Usage by day").wait_for(timeout=60_000)
        page.screenshot(path=PICTURES / "web-keys.png")
        browser.close()


def take(plane: Plane, chosen: Set[str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1120, "height": 780}, color_scheme=scheme)
            page.goto(f"http://127.0.0.1:{plane.port}/ui/")
            if scheme == "light" and not chosen <= MEASURED:
                time.sleep(WARM_UP)
            for name, route in PAGES.items():
                if name not in chosen:
                    continue
                page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}")
                prepare(page, name)
                if name in IN_DARK or scheme == "light":
                    page.screenshot(path=PICTURES / f"web-{name}{'-dark' if scheme == 'dark' else ''}.png")
        browser.close()


def measure(plane: Plane) -> None:
    """Two benchmarks, two judgements by a gate, and a promotion that is watched."""
    short = ("--seconds", "0", "--requests", "6", "--repeats", "3", "--output-tokens", "20")
    for name in ("qwen3-8b", "gemma-3-12b"):
        plane.run("serves", "up", name)
        plane.run("eval", "benchmark", name, "--concurrency", "1,2,4,8", *short, timeout=300)
        plane.run("gate", name, "--gate", "default", "--unknown-ok", timeout=300)
    plane.admin("promote", alias="chat", serve="gemma-3-12b", force=True, reason="answers in more languages")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    chosen = set(sys.argv[1:] or [*PAGES, "keys"])
    if "routing" in chosen:
        with routing_stage() as plane:
            take(plane, {"routing"})
    if "keys" in chosen:
        with_keys(serves(), SLOTS, take_keys)
    if others := (chosen & PAGES.keys()) - {"routing"}:
        at_work(others)
    for picture in sorted(PICTURES.glob("web-*.png")):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size / 1000:.0f} kB")


def at_work(chosen: Set[str]) -> None:
    """The pictures of a Stoker without keys."""
    end = threading.Event()
    with running(*serves(), GATES, slots=SLOTS, swap=SWAP) as plane:
        if chosen & MEASURED:
            measure(plane)
        clients = [threading.Thread(target=work, args=(plane.port, *one, end)) for one in CLIENTS.items()]
        for client in clients:
            client.start()
        try:
            take(plane, chosen)
        finally:
            end.set()
            for client in clients:
                client.join()


if __name__ == "__main__":
    main()
