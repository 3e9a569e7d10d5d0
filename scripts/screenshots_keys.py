"""The picture of keys, which needs a Stoker with keys of its own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence

from playwright.sync_api import Page
from tests.scenarios.plane import Plane, running
from tests.scenarios.web_page import signed_in

VALUES = {name: f"key-of-{name}-for-pictures" for name in ("me", "agents", "search")}
KEYS = """
keys = [{ name = "me", value = "env:ME", scope = "admin" },
  { name = "agents", value = "env:AGENTS", requests_per_minute = 60, tokens_per_day = 8500 },
  { name = "search", value = "env:SEARCH", tokens_per_day = 20000 }]
"""
ASKED = [("agents", "qwen3-8b"), ("agents", "coder-14b"), ("me", "qwen3-8b"), ("search", "bge-m3")]


def with_keys(serves: Sequence[str], slots: str, show: Callable[[Plane, Callable[[Page], None]], None]) -> None:
    """Run a Stoker whose keys were used; `show(plane, sign_in)` takes the picture."""
    environment = {name.upper(): value for name, value in VALUES.items()}
    with running(*serves, slots=slots, front_door=KEYS, environment=environment) as plane:
        plane.run("keys", "create", "nightly", "--expires", "90d", "--requests-per-minute", "10")
        for words in range(40, 400, 40):
            for key, model in ASKED:
                _ask(plane, key, model, words)
        show(plane, signed_in(plane, VALUES["me"]))


def _ask(plane: Plane, key: str, model: str, words: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=60)
    body = {"model": model, "messages": [{"role": "user", "content": "coal " * words}], "max_tokens": words}
    headers = {"content-type": "application/json", "authorization": f"Bearer {VALUES[key]}"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        connection.getresponse().read()
    finally:
        connection.close()
