"""Web pages in a real browser: an allowed one uses the whole API, any other one can neither read nor load anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.scenarios.caller import story
from tests.scenarios.plane import PATIENCE, Plane, free_port, running, serve

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium-headless-shell")

KEY = "key-of-the-page-in-the-browser"
TELLS = """
const told = {};
const tried = async (name, work) => {
  try { told[name] = await work(); } catch (e) { told[name] = "failed: " + e.name; } };
const post = (path, body, key) => fetch(STOKER + path, {method: "POST", body: JSON.stringify(body),
  headers: {"content-type": "application/json", "authorization": "Bearer " + key, "x-stainless-lang": "js"}});
const image = (path) => new Promise((done) => {
  const i = new Image(); i.onload = i.onerror = () => done("over"); i.src = STOKER + path; });
"""
ALLOWED = """
await tried("models", async () => (await (await fetch(STOKER + "/v1/models",
  {headers: {"x-api-key": KEY}})).json()).data[0].id);
await tried("whole", async () => { const r = await post("/v1/chat/completions", CHAT, KEY);
  return [r.status, r.headers.get("x-stoker-serve"), !!r.headers.get("x-request-id"), (await r.json()).object]; });
await tried("stream", async () => { const r = await post("/v1/chat/completions", {...CHAT, stream: true}, KEY);
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader(); let text = "", pieces = 0;
  for (;;) { const {done, value} = await reader.read(); if (done) break; text += value; pieces++; }
  return [r.status, pieces > 1, text.trimEnd().endsWith("[DONE]")]; });
await tried("wrong key", async () => { const r = await post("/v1/chat/completions", CHAT, "x");
  return [r.status, (await r.json()).error.code]; });
await tried("no path", async () => (await fetch(STOKER + "/nowhere", {headers: {"x-api-key": KEY}})).status);
await tried("engine", async () => (await fetch(STOKER + "/upstream/a/health", {headers: {"x-api-key": KEY}})).status);
"""
FOREIGN = """
await tried("read", async () => (await fetch(STOKER + "/v1/models")).status);
await tried("post", async () => (await post("/v1/chat/completions", CHAT, KEY)).status);
await tried("blind post", async () => (await fetch(STOKER + "/v1/chat/completions",
  {method: "POST", mode: "no-cors", body: JSON.stringify(CHAT)})).status);
await tried("blind", async () => (await fetch(STOKER + "/upstream/a/health", {mode: "no-cors"})).status);
await tried("image", () => image("/upstream/a/health"));
await tried("frame", () => new Promise((done) => { const f = document.createElement("iframe");
  f.onload = f.onerror = () => done("over"); f.src = STOKER + "/upstream/a/health"; document.body.append(f); }));
"""


class Site:
    """Serves one page on an origin of its own, and hears what became of it."""

    def __init__(self, port: int, script: str, stoker: int) -> None:
        chat = {"model": "a", "messages": [{"role": "user", "content": "script: tokens=20 gap=0.01"}]}
        words = f"const STOKER = 'http://127.0.0.1:{stoker}', KEY = '{KEY}', CHAT = {json.dumps(chat)};"
        tell = "await fetch('/told', {method: 'POST', body: JSON.stringify(told)});"
        page = f"<!doctype html><body><script type=module>{words}{TELLS}{script}{tell}</script>".encode()
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        told = self.told

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(page)

            def do_POST(self) -> None:
                told.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)


def visited(port: int, script: str, plane: Plane) -> dict[str, Any]:
    """What the page's script told, run in a browser."""
    site = Site(port, script, plane.port)
    with contextlib.closing(site.server.socket), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        threading.Thread(target=site.server.serve_forever, daemon=True).start()
        command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--remote-debugging-port=0",
                   f"http://localhost:{port}/"]  # fmt: skip
        browser = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return site.told.get(timeout=PATIENCE)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)  # its helpers hold the connections
            browser.wait()
            site.server.shutdown()


@pytest.fixture
def port() -> int:
    return free_port()


@story
async def test_an_allowed_page_reads_streams_and_errors(port: int) -> None:
    origins = f'allowed_origins = ["http://localhost:{port}"]'
    door = f'{origins}\nkeys = [{{ name = "page", value = "env:K", scope = "observe" }}]'
    with running(serve("a", slot=None), front_door=door, environment={"K": KEY}) as plane:
        told = await asyncio.to_thread(visited, port, ALLOWED, plane)
    assert told == {
        "models": "a",
        "whole": [200, "a", True, "chat.completion"],
        "stream": [200, True, True],
        "wrong key": [401, "bad_key"],
        "no path": 404,
        "engine": 200,
    }


@story
async def test_any_other_page_can_neither_read_nor_load_anything_on_a_keyless_loopback(port: int) -> None:
    with running(serve("a", slot=None)) as plane:
        told = await asyncio.to_thread(visited, port, FOREIGN, plane)
        assert plane.starts("a") == 0
        assert plane.serve("a")["state"] == "stopped"
    assert told["read"] == told["post"] == "failed: TypeError"
    assert told["blind post"] == told["blind"] == 0, "an answer that the page cannot look into"
    assert told["image"] == told["frame"] == "over"
