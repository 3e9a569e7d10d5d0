"""The suites: where each is found, how it is run, and how its verdict is read. Their code is not in this repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

MODEL = "obedient"
TIMEOUT = 600
_EXTENDED = (
    "assistant_phase", "compact", "compact.missing_model", "websocket.basic", "websocket.sequential",
    "websocket.continuation", "websocket.previous_response_not_found", "websocket.reconnect_store_false_recovery",
    "websocket.failed_continuation_evicts_cache", "websocket.compact_new_chain",
)  # fmt: skip
_MODELS = f"""profiles:
  - name: "stoker"
    chat_model: "{MODEL}"
    responses_model: "{MODEL}"
    extra: {{}}
"""


class Skipped(Exception):
    """The suite cannot run here; the text says why."""


class Verdict(NamedTuple):
    passed: int
    total: int
    misses: tuple[str, ...]
    """Each test that did not pass, with what it said."""


class Suite(NamedTuple):
    name: str
    folder: str
    """How the folder of its clone ends."""
    port: int | None
    """The port that it wants; None: any."""
    run: Callable[[Path, str, Path], Verdict]
    """With the clone, Stoker's address, and a folder to write to. Raises Skipped."""


def find(folder: Path, suite: Suite) -> Path:
    """The clone of a suite. Raises Skipped."""
    found = sorted(path for path in folder.iterdir() if path.is_dir() and path.name.endswith(suite.folder))
    if not found:
        raise Skipped(f"no folder *{suite.folder} in {folder}")
    return found[0]


def version(clone: Path) -> str:
    """The clone's commit, and its date."""
    log = subprocess.run(
        ("git", "-C", str(clone), "log", "-1", "--format=%h of %cs"), capture_output=True, text=True, check=False
    )
    return log.stdout.strip() or "unknown"


def _compatibility(clone: Path, url: str, work: Path, *more: str) -> Verdict:
    tool = shutil.which("go")
    if tool is None:
        raise Skipped("go is not installed")
    (work / "models.yaml").write_text(_MODELS)
    reports = work / "reports"
    command = (
        tool, "run", ".", "--base-url", url, "--models", str(work / "models.yaml"), "--no-tui", "--json",
        "--mode", "strict", "--out-dir", str(reports), *more,
    )  # fmt: skip
    done = _run(command, clone)
    found = sorted(work.rglob("summary.json"))
    if not found:
        raise Skipped(f"the suite did not run: {done.stderr.strip()[-200:]}")
    results = json.loads(found[-1].read_text())["results"]
    misses = [
        _missed(r["TestID"], f"{r['SpecStatus']}: {r.get('ErrorMessage', '')}")
        for r in results
        if r["SpecStatus"] != "pass"
    ]
    return Verdict(len(results) - len(misses), len(results), tuple(misses))


def _strict(clone: Path, url: str, work: Path) -> Verdict:
    return _compatibility(clone, url, work)


def _extended(clone: Path, url: str, work: Path) -> Verdict:
    configs = clone / "configs"
    return _compatibility(
        clone, url, work, "--suite", str(configs / "suite_responses_extended.yaml"),
        "--capabilities", str(configs / "capabilities_responses_extended.yaml"),
        "--tests", ",".join(f"responses.{name}" for name in _EXTENDED),
    )  # fmt: skip


def _responses_js(clone: Path, url: str, work: Path) -> Verdict:
    mocha = clone / "node_modules" / ".bin" / "mocha"
    if not mocha.exists():
        raise Skipped(f"mocha is not installed: run `npm install --ignore-scripts` in {clone}")
    command = (str(mocha), "--timeout", "20000", "--reporter", "json", "tests/responses.test.js")
    document = json.loads(_from_brace(_run(command, clone, HF_TOKEN="none").stdout))
    misses = [_missed(one["title"], one["err"].get("message", "")) for one in document["failures"]]
    return Verdict(len(document["passes"]), len(document["passes"]) + len(misses), tuple(misses))


def _acceptance(clone: Path, url: str, work: Path) -> Verdict:
    tsx = clone / "node_modules" / ".bin" / "tsx"
    runner = str(tsx) if tsx.exists() else shutil.which("bun")
    if runner is None or not (clone / "node_modules" / "zod").exists():
        raise Skipped(f"run `npm install --ignore-scripts --no-save tsx zod@3` in {clone}")
    command = (
        runner,
        "bin/compliance-test.ts",
        "--base-url",
        f"{url}/v1",
        "--api-key",
        "none",
        "--model",
        MODEL,
        "--json",
    )
    done = _run(command, clone, NODE_OPTIONS=_with_websocket())
    document = json.loads(_from_brace(done.stdout))
    results: list[dict[str, Any]] = document["results"]
    misses = [_missed(r["id"], "; ".join(r.get("errors") or ())) for r in results if r["status"] != "passed"]
    return Verdict(len(results) - len(misses), len(results), tuple(misses))


def _with_websocket() -> str:
    """Node has a WebSocket of its own from 22 on, and in 20 behind a flag."""
    node = shutil.which("node")
    told = "" if node is None else _run((node, "--version"), Path.cwd()).stdout
    return "--experimental-websocket" if told.startswith("v20.") else ""


def _run(command: tuple[str, ...], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def _from_brace(text: str) -> str:
    at = text.find("{")
    if at < 0:
        raise Skipped(f"the suite printed no result: {text.strip()[-200:]}")
    return text[at:]


def _missed(name: str, why: str) -> str:
    return f"{name}: {' '.join(why.split())[:160]}"


SUITES = (
    Suite("openai-compatible-tester, strict", "openai-compatible-tester", None, _strict),
    Suite("openai-compatible-tester, responses extended", "openai-compatible-tester", None, _extended),
    Suite("responses.js", "responses.js", 3000, _responses_js),
    Suite("Open Responses acceptance tests", "openresponses", None, _acceptance),
)
