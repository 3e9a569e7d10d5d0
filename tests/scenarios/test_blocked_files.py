"""Weights whose file system does not answer: their start fails, all else goes on, and Stoker ends when it is told.

A FIFO that nobody writes to stands for a mount whose server is gone: `open` waits for ever.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.script.script import Script


def test_weights_that_cannot_be_opened_hold_up_nothing() -> None:
    dead = serve("dead", cmd=None, engine="llama.cpp", model="./w.gguf", slot=None, dialects=None, warm="pin")
    with running(dead, serve("a", Script(tokens=2), slot=None), '[warm]\nmemory = "1MiB"', started=False) as plane:
        os.mkfifo(plane.directory / "w.gguf")
        plane.start()
        began = time.monotonic()
        status, body = ask(plane, "dead")
        assert status == 503
        assert "does not answer" in body["error"]["message"]
        assert time.monotonic() - began < 25
        assert ask(plane, "a")[0] == 200
        began = time.monotonic()
        assert ask(plane, "dead")[0] == 503
        assert time.monotonic() - began < 5, "it is known now"
        began = time.monotonic()
        plane.signal(signal.SIGTERM)
        assert plane.exit_code() == 0
        assert time.monotonic() - began < 15


def ask(plane: Plane, model: str) -> tuple[int, Any]:
    asked = {"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}
    return plane.ask("POST", "/v1/chat/completions", asked)
