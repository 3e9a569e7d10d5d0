"""One client against one serve: run, gathered, checked."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.agents import checks, clients, serves, session_paths, task
from bench.agents.clients import Client, Setup
from bench.agents.serves import ServeKind
from bench.agents.session_paths import MODEL, SessionPaths
from bench.processes import Child, identify
from bench.swap.calls import get
from bench.swap.plane import Plane
from bench.up import program


class Step(NamedTuple):
    """One request, as both ends know it."""

    endpoint: str
    outcome: str
    status: int
    translation: str
    tokens: tuple[int | None, int | None]


class Outcome(NamedTuple):
    """What became of one session. `problems` is empty if all is as it should be."""

    client: str
    serve: str
    problems: list[str]
    seconds: float
    exit_code: int | None
    steps: list[Step]
    thinking: str
    """How the model's thinking came back to it: `all`, `none`, `1 of 3`."""
    breaks: int
    """Requests that did not begin as the one before."""
    documents: list[dict[str, Any]]
    """What the serve got."""
    command: list[str]
    setup: Setup
    said: str
    """What the client printed."""

    @property
    def lost(self) -> list[str]:
        words = [word for step in self.steps for word in step.translation.split(",")]
        return [code.removeprefix("lossy:") for code in dict.fromkeys(words) if code.startswith("lossy:")]


def run(
    client: Client, command: Path, path: str, kind: ServeKind, folder: Path, quirks: str = "", failures: int = 0
) -> Outcome:
    """A session in `folder`, which must not exist. `quirks`: habits of the scripted serve; `failures`: it answers that
    many requests with 500 before it answers one.

    Raises RuntimeError: `stoker up` does not come up.
    """
    folder.mkdir(parents=True)
    answers_file = folder / "answers.json"
    answers_file.write_text("[]")
    if failures:
        kind = kind._replace(script={**kind.script, "error_status": 500, "error_times": failures})
    with Plane(serves.serves(kind, answers_file, quirks), folder / "plane", "") as plane:
        paths = session_paths.make(folder, plane.port, plane.key, task.FILES)
        answers = client.answers(paths, kind.dialect)
        answers_file.write_text(json.dumps(answers))  # read when the serve starts: at the first request
        setup = client.setup(paths)
        clients.write(setup.files)
        began = time.monotonic()
        code = run_client(command, paths, setup, path, client.limit)
        seconds = time.monotonic() - began
        with contextlib.suppress(RuntimeError, OSError, http.client.HTTPException):
            plane.status()
        steps = decisions(folder / "plane" / "stoker.toml", plane.key)
        documents = [] if kind.name == "llama.cpp" else received(plane, kind)
    said = (folder / "client.log").read_text(errors="replace")
    about = [one for one in documents if checks.is_task(kind.dialect, one)]
    thinking, wrong = checks.thoughts(kind.dialect, about)
    problems = [*_ends(code, steps[failures:], said, client, kind, paths), *wrong]
    if kind.name != "llama.cpp":
        found = checks.calls(kind.dialect, about, answers) if client.has_tools else checks.edits(kind.dialect, about)
        problems += found
    printed = [str(command.name), *setup.arguments]
    documents = [json.loads(paths.redacted(json.dumps(one))) for one in documents]
    return Outcome(
        client.name, kind.name, [paths.redacted(one) for one in problems], round(seconds, 1), code, steps, thinking,
        checks.prefixes(kind.dialect, about), documents, [paths.redacted(one) for one in printed],
        _redacted(paths, setup), paths.redacted(said),
    )  # fmt: skip


def _ends(
    code: int | None, steps: list[Step], said: str, client: Client, kind: ServeKind, paths: SessionPaths
) -> Iterator[str]:
    """What is wrong at the client's end."""
    if code != 0:
        yield "it did not end in time" if code is None else f"exit code {code}"
    if not steps:
        yield "no request came"
    for step in steps:
        if step.status != 200 or not (step.outcome == "served" or _left_at_the_end(step)):
            yield f"{step.endpoint}: {step.outcome}, status {step.status}"
    if kind.name == "llama.cpp":
        if task.I_AM not in said:
            yield "the model's words were not printed"
        return
    if task.RIGHT not in (paths.work / task.FILE).read_text():
        yield f"{task.FILE} was not corrected"
    final = task.FINAL if client.has_tools else "the test passed"
    if final not in said:
        yield f"it did not print {final!r}"


def _left_at_the_end(step: Step) -> bool:
    """Some clients hang up on the last event: the serve had counted its answer by then."""
    return step.outcome == "client_left" and step.tokens[1] is not None


def run_client(
    command: Path,
    paths: SessionPaths,
    setup: Setup,
    path: str,
    limit: float,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> int | None:
    """The exit code; None if it had to be ended. Nothing that it started is left. `is_interrupted`: whether it gets
    SIGINT now, once.
    """
    log = paths.folder / "client.log"
    env = clients.environment(paths, setup.variables, path)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(command), *setup.arguments], cwd=paths.work, env=env, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    child = Child("client", process, log)
    try:
        until, was_interrupted = time.monotonic() + limit, False
        while time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.2)
            if not was_interrupted and is_interrupted():
                process.send_signal(signal.SIGINT)
                was_interrupted = True
        return None
    finally:
        child.end(grace=5)
        _end_all(str(paths.home))


def _end_all(home: str) -> None:
    """Helpers that went their own ways are known by their home."""
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and f"HOME={home}\0".encode() in Path(f"/proc/{entry}/environ").read_bytes():
                one = identify(int(entry))
                if one is not None:
                    os.kill(one.pid, signal.SIGKILL)


def decisions(config: Path, key: str) -> list[Step]:
    """As `stoker decisions --json` tells them, oldest first, once nothing is open any more."""
    stoker = program()
    assert stoker is not None
    until = time.monotonic() + 10
    while True:
        argv = [stoker, "decisions", "--json", "--limit", "1000", "--config", str(config)]
        done = subprocess.run(argv, env={**os.environ, "STOKER_BENCH_KEY": key}, capture_output=True, timeout=30)
        records = json.loads(done.stdout) if done.returncode == 0 else []
        is_over = records and all(one["outcome"] != "open" for one in records)
        if is_over or time.monotonic() > until:
            return [_step(one) for one in sorted(records, key=lambda one: float(one["at"]))]
        time.sleep(0.3)


def _step(record: dict[str, Any]) -> Step:
    tokens = (record.get("input_tokens"), record.get("output_tokens"))
    return Step(record["endpoint"], record["outcome"], record["status"], record.get("translation") or "", tokens)


def received(plane: Plane, kind: ServeKind) -> list[dict[str, Any]]:
    """The documents that came in at the serve's path for inference."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        port = plane.serve(MODEL)["port"]
        if port:
            status, body = get(int(port), "/control/requests")
            if status == 200:
                return [json.loads(one["body"]) for one in json.loads(body) if one["path"].split("?")[0] == kind.path]
    return []


def _redacted(paths: SessionPaths, setup: Setup) -> Setup:
    variables = {name: paths.redacted(value) for name, value in setup.variables.items()}
    files = {Path(paths.redacted(str(path))): paths.redacted(text) for path, text in setup.files.items()}
    return Setup(tuple(map(paths.redacted, setup.arguments)), variables, files)
