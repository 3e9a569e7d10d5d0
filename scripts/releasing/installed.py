"""The wheel as a user gets it: installed into an empty environment, the demo asked, the page read, removed again."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scripts.releasing import contents, version
from scripts.releasing.changelog import ReleaseRefused
from scripts.releasing.tools import find_python, run, tool

PYTHONS = ("3.11", "3.12", "3.13")
_START = 120
"""Seconds that the demo has to get ready."""


class Result(NamedTuple):
    python: str
    """Its version, and `compiled` if the wheel is."""
    outcome: str
    """passed, failed or skipped"""
    reason: str

    def __str__(self) -> str:
        return f"Python {self.python}: {self.outcome}: {self.reason}"


def check(python: str, wheel: Path) -> Result:
    """Install, use and remove the wheel with one version of Python."""
    name = f"{python}, compiled" if contents.is_compiled(wheel) else python
    interpreter = find_python(python)
    if interpreter is None:
        return Result(name, "skipped", f"no python{python} on PATH, at pyenv or at uv, and uv could not install one")
    with tempfile.TemporaryDirectory(prefix="stoker-wheel-") as scratch:
        try:
            return Result(name, "passed", _use(interpreter, wheel, Path(scratch)))
        except (ReleaseRefused, OSError, ValueError) as failure:
            return Result(name, "failed", str(failure))


def _use(interpreter: str, wheel: Path, scratch: Path) -> str:
    place = scratch / "environment"
    run([interpreter, "-m", "venv", "--without-pip", str(place)])
    python, stoker = str(place / "bin" / "python"), str(place / "bin" / "stoker")
    run([tool("uv"), "pip", "install", "--quiet", "--python", python, f"stoker[llama] @ {wheel.as_uri()}"])
    home = {"HOME": str(scratch), "PATH": f"{place}/bin:/usr/bin:/bin", "PYTHONPATH": ""}
    said = run([stoker, "--version"], scratch, home).strip()
    if said != f"stoker {version.current()}" + (" (compiled)" if contents.is_compiled(wheel) else ""):
        raise ReleaseRefused(f"stoker --version says {said!r}")
    with _demo(stoker, scratch, home) as base:
        seen = _ask(base)
    for file in ("share/man/man1/stoker.1", "share/bash-completion/completions/stoker"):
        if not (place / file).exists():
            raise ReleaseRefused(f"the environment has no {file}")
    run([tool("uv"), "pip", "uninstall", "--quiet", "--python", python, "stoker"])
    if left := [path for path in place.rglob("*stoker*") if "__pycache__" not in path.parts and path.is_file()]:
        raise ReleaseRefused(f"left after uninstall: {left}")
    return seen


@contextmanager
def _demo(stoker: str, scratch: Path, home: dict[str, str]) -> Iterator[str]:
    """`stoker up --demo` on a free port, until it is ready; ended by SIGTERM, with exit code 0."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    log = scratch / "demo.log"
    with log.open("wb") as out:
        demo = subprocess.Popen(
            [stoker, "up", "--demo", "--port", str(port)],
            cwd=scratch,
            env={**os.environ, **home},
            stdout=out,
            stderr=out,
        )
    try:
        end = time.monotonic() + _START
        while not _answers(f"{base}/readyz"):
            if demo.poll() is not None or time.monotonic() > end:
                raise ReleaseRefused(f"the demo did not get ready:\n{log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield base
        demo.terminate()
        if code := demo.wait(60):
            raise ReleaseRefused(f"the demo ended with {code}:\n{log.read_text()[-2000:]}")
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.wait()


def _ask(base: str) -> str:
    """One question, and the web page with every file that it names. Raises ReleaseRefused, OSError."""
    body = {"model": "spark", "messages": [{"role": "user", "content": "What is 17 + 25?"}]}
    question = urllib.request.Request(
        f"{base}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    answer = json.loads(_read(question))["choices"][0]["message"]["content"]
    if "42" not in answer:
        raise ReleaseRefused(f"spark said {answer!r}")
    page = _read(f"{base}/ui/").decode()
    files = re.findall(r'(?:src|href)="([^":]+)"', page)
    if not any(file.endswith(".js") for file in files):
        raise ReleaseRefused(f"the page at /ui/ names no script: {files}")
    for file in files:
        _read(f"{base}/ui/{file.removeprefix('./')}")
    if _read(f"{base}/metrics").decode().count(f'stoker_build_info{{version="{version.current()}"}} 1') != 1:
        raise ReleaseRefused("the metrics do not name the version")
    return f"the demo answered, /ui/ has its {len(files)} files, and nothing is left after uninstall"


def _answers(url: str) -> bool:
    try:
        _read(url)
    except OSError:
        return False
    return True


def _read(url: str | urllib.request.Request) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return bytes(reply.read())
