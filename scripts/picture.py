"""Makes docs/demo.svg from a real run of the demo: `.venv/bin/python scripts/picture.py`.

Nothing in the picture is written by hand but the command lines.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
STOKER = [str(Path(sys.executable).with_name("stoker"))]
PORT = 8000
CURL = """curl -s http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model": "MODEL", "temperature": 0, "messages": [{"role": "user", "content": "QUESTION"}]}'"""


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        state = f"{home}/state"
        environment = {**os.environ, "HOME": home, "XDG_STATE_HOME": state, "COLUMNS": "110", "TERM": "xterm-256color"}
        demo = subprocess.Popen(
            [*STOKER, "up", "--demo", "--port", str(PORT)], env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            wait()
            console = Console(record=True, width=112, file=io.StringIO())
            tell(console, environment)
            console.save_svg(str(ROOT / "docs" / "demo.svg"), title="stoker: two models, one slot, one URL")
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate(timeout=20)


def tell(console: Console, environment: dict[str, str]) -> None:
    prompt(console, "scripts/demo &")
    console.print(Text(f"listening on http://127.0.0.1:{PORT}"))
    for model, question in (("spark", "Who are you?"), ("ember", "Who are you?")):
        command = CURL.replace("MODEL", model).replace("QUESTION", question)
        prompt(console, command + " | jq -r '.choices[0].message.content'")
        body = re.search(r"-d '(.*)'", command, re.DOTALL)
        assert body is not None
        began = time.monotonic()
        console.print(Text(ask(body.group(1)), style="bold"))
        if model == "ember":
            console.print(Text(f"# {time.monotonic() - began:.2f} s, the swap included", style="dim"))
    for words in (["slot", "list"], ["serves", "status"], ["decisions"]):
        prompt(console, "stoker " + " ".join(words))
        state = f"{environment['XDG_STATE_HOME']}/stoker/demo"
        console.print(Text.from_ansi(on_terminal([*STOKER, *words, "--state", state], environment).rstrip()))


def on_terminal(command: list[str], environment: dict[str, str]) -> str:
    """What the command prints on a terminal, colours included."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    parts: list[bytes] = []
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(65536):
                parts.append(part)
        except OSError:  # the other end was closed
            pass
    child.wait()
    return b"".join(parts).decode().replace("\r\n", "\n")


def prompt(console: Console, command: str) -> None:
    console.print(Text.assemble(("\n$ ", "green"), (command, "cyan")))


def ask(body: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/chat/completions", body.encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as reply:
        return str(json.load(reply)["choices"][0]["message"]["content"])


def wait() -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz").close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the demo did not come up")


if __name__ == "__main__":
    main()
