"""A Stoker of its own for a story: written, started, asked over its control socket, and looked over at the end.

Every process of a story works in the story's directory, so that whatever is left behind is found there, by whomever
it was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.scenarios import preloaded

from stoker_lab.testing.script.script import Script

STOKER = Path(sys.executable).with_name("stoker")
MODELS = Path(__file__).resolve().parents[2] / "src" / "stoker" / "models"
DIALECTS = ["chat", "completions", "messages", "responses", "embeddings", "rerank"]
QUICK = 'min_residency = "0s"\nlinger = "0s"\nmax_wait = "300ms"\ndrain_timeout = "5s"'
"""Swap settings under which nobody waits for long; a story that is about one of them gives its own."""
BROKE = "broke inside Stoker"
"""What its log says of a request that failed because of a bug, with the traceback."""
PATIENCE = 30.0
"""Seconds until something that must come is given up: the machine may be loaded."""


def toml(value: object) -> str:
    """A value as TOML; JSON but for tables."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def serve(name: str, script: Script | None = None, **keys: object) -> str:
    """A [[serve]] table; scripted unless it says otherwise. `cmd=None` leaves the command out."""
    given: dict[str, object] = {"name": name, "engine": "openai", "slot": "gpu0", "dialects": DIALECTS}
    given["cmd"] = replace(script or Script(), id=name).command("{port}")
    given |= {"stop_grace": "2s", "parallel": 8, **keys}
    return "\n".join(["[[serve]]", *(f"{key} = {toml(value)}" for key, value in given.items() if value is not None)])


def llama(name: str, model: str = "spark", **keys: object) -> str:
    """A [[serve]] table for the embedded llama.cpp with one of the shipped models."""
    given: dict[str, object] = {"engine": "llama.cpp", "model": str(MODELS / f"{model}.gguf"), "embedded": True}
    given |= {"context": 1024, "parallel": 2, "threads": 1, "cmd": None, "dialects": None}
    return serve(name, None, **{**given, **keys})


class LocalConnection(http.client.HTTPConnection):
    """HTTP over the control socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


class Plane:
    """One configuration in one directory, and the `stoker up` that runs on it (again and again, if a story asks)."""

    def __init__(self, directory: Path, config: str, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.port = free_port()
        self.config = directory / "stoker.toml"
        self.environment = {**os.environ, "HOME": str(directory), **(environment or {})}
        self.environment.pop("XDG_STATE_HOME", None)
        self.process: preloaded.Stoker | None = None
        self._idle: list[str] = []
        self.keeps_engines = False
        """Between the stories of a file that are not about engines, these stay loaded."""
        self._changed: set[str] = set()
        """Serves whose running engine got another script."""
        self._looked_over = 0
        """Characters of its log that `log_of_a_break` has looked at."""
        self.write(config)

    def write(self, config: str) -> None:
        """Another configuration, on the same port and directory; it counts with the next reload or start."""
        self.config.write_text(config.replace("PORT", str(self.port)))

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self, *arguments: str, prepare: Callable[[], None] | None = None) -> None:
        """Run `stoker up` until it says that it listens. `prepare` is called in its process before."""
        arguments = ("up", *(arguments or ("--config", str(self.config))))
        out = self.directory / "out.txt"
        begin = out.stat().st_size if out.exists() else 0
        self.process = preloaded.Stoker(arguments, self.directory, self.environment, out, out, prepare)
        poll(lambda: "listening on" in self.said()[begin:] or self.process.poll() is not None, "it listens")  # type: ignore[union-attr]
        assert self.process.poll() is None, f"`stoker up` ended: {self.said()}"
        self.note_idle()

    def note_idle(self) -> None:
        """What is open now counts as open at the start."""
        self._idle = self.descriptors()

    def said(self) -> str:
        """What it printed on the terminal."""
        out = self.directory / "out.txt"
        return out.read_text() if out.exists() else ""

    def log(self, name: str) -> str:
        """A serve's log, the rotated part first."""
        files = [self.state / "logs" / f"{name}.log.1", self.state / "logs" / f"{name}.log"]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def starts(self, name: str) -> int:
        """How often the (scripted) serve came to listen."""
        return self.log(name).count(f"scripted model {name!r} listens")

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for its end."""
        assert self.process is not None
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(preloaded.SHOW_WORK)
            poll(lambda: "That is all." in self.said(), "it has said what it does")
            pytest.fail(f"it did not end:\n{self.log('stoker')}\n{self.said()}", pytrace=False)

    def begin(self, *words: str, **environment: str) -> preloaded.Command:
        """Begin another command of `stoker` with this configuration."""
        return preloaded.Command((*words, "--config", str(self.config)), self.directory, self.environment | environment)

    def run(self, *words: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run another command of `stoker` with this configuration to its end."""
        begun = self.begin(*words, **environment)
        out, err = begun.communicate(timeout)
        return subprocess.CompletedProcess(["stoker", *words], begun.wait(), out, err)

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        """Over the control socket, on a connection of its own: (status, JSON or text)."""
        connection = LocalConnection(self.state / "stoker.sock")
        try:
            body = None if document is None else json.dumps(document)
            headers = {"Connection": "close", **({"Content-Type": "application/json"} if body is not None else {})}
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        return reply.status, json.loads(text) if "json" in (reply.getheader("content-type") or "") else text

    def status(self) -> dict[str, Any]:
        status, document = self.ask("GET", "/status")
        assert status == 200
        return dict(document)

    def serve(self, name: str) -> dict[str, Any]:
        """The serve's entry in /status."""
        return next(dict(one) for one in self.status()["serves"] if one["name"] == name)

    def slot(self, name: str = "gpu0") -> dict[str, Any]:
        return next(dict(one) for one in self.status()["slots"] if one["name"] == name)

    def admin(self, verb: str, **fields: object) -> tuple[int, Any]:
        return self.ask("POST", f"/admin/{verb}", fields)

    def decisions(self, limit: int = 1000) -> list[dict[str, Any]]:
        return list(self.ask("GET", f"/admin/decisions?limit={limit}")[1]["decisions"])

    def decision(self, request_id: str) -> dict[str, Any]:
        """The record of one request, once it is written."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [one for one in self.decisions() if one["id"] == request_id]
            return bool(found)

        poll(is_there, f"the decision of {request_id}")
        return found[0]

    def scripted(self, name: str, **changes: object) -> dict[str, Any]:
        """The counters of a running scripted serve, after changing what is given."""
        if changes:
            self._changed.add(name)
        return dict(self._control(name, "POST", "/control", json.dumps(changes)))

    def received(self, name: str, path: str) -> list[dict[str, Any]]:
        """What came in at a scripted serve under that path since it runs: `headers`, `length`, `sha256`, `body`."""
        return [one for one in self._control(name, "GET", "/control/requests") if one["path"] == path]

    def _control(self, name: str, method: str, path: str, body: str | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.serve(name)["port"]), timeout=PATIENCE)
        try:
            connection.request(method, path, body, {"Connection": "close"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    # -- what is left ------------------------------------------------------------------------------------------------

    def processes(self) -> dict[int, str]:
        """Every live process of this story but the control plane: pid and command."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_here = process.cwd().startswith(str(self.directory))
                if is_here and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = " ".join(process.cmdline())
        found.pop(self.process.pid if self.process else 0, None)
        return found

    def descriptors(self) -> list[str]:
        """What the control plane has open, but for its own files: those come with their first use and stay."""
        assert self.process is not None
        found = []
        if sys.platform != "linux":  # how many, not what they are
            process = psutil.Process(self.process.pid)
            own = sum(one.path.startswith(str(self.state)) for one in process.open_files())
            return ["descriptor"] * (process.num_fds() - own)
        for entry in os.scandir(f"/proc/{self.process.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(entry.path))
        return sorted(one.partition(":")[0] for one in found if not one.startswith(str(self.state)))

    def opened(self) -> Counter[str]:
        """What is open beyond what was open at the start."""
        return Counter(self.descriptors()) - Counter(self._idle)

    def memory(self) -> int:
        """Resident bytes of the control plane."""
        assert self.process is not None
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def is_settled(self) -> bool:
        """No request under way, no lease, no waiter."""
        status = self.status()
        held = status["frontdoor"]["in_flight"] + sum(one["in_flight"] + one["queued"] for one in status["serves"])
        return not held and not any(one["waiting"] for one in status["slots"])

    def log_of_a_break(self) -> str:
        """What it logged since this was last asked, if a request broke inside Stoker: the traceback is there."""
        logged = self.log("stoker")
        begin, self._looked_over = self._looked_over, len(logged)
        return logged[begin:] if BROKE in logged[begin:] else ""

    def rest(self) -> None:
        """The end of a story on a shared plane where engines stay: nothing under way, no engine changed or half loaded.

        That everything can be stopped and nothing stays open is looked at by `finish`, once for all stories.
        """
        if broken := self.log_of_a_break():
            pytest.fail(f"a request broke inside Stoker:\n{broken}", pytrace=False)
        poll(self.is_settled, lambda: f"nothing is in flight: {self.status()}")
        self.unload(*(one["name"] for one in self.status()["serves"] if one["state"] != "ready"), *self._changed)
        self._changed.clear()

    def unload(self, *names: str) -> None:
        """Stop the engines of these serves, if they run."""
        for one in self.status()["serves"]:
            if one["name"] in names and one["state"] not in ("stopped", "backoff"):
                status, answer = self.admin("unload", serve=one["name"], drain_timeout=0)
                assert status == 200, answer

    def settle(self) -> None:
        """The end of a story on a shared plane: nothing under way, nothing running, nothing open beyond the idle."""
        self.rest()
        self.unload(*(one["name"] for one in self.status()["serves"]))
        poll(lambda: not self.processes(), lambda: f"no process is left: {self.processes()}")
        poll(lambda: not self.opened(), lambda: f"open as at the start: {self.opened()} are more")

    def finish(self) -> None:
        """The end of the last story: as `settle`, then an orderly stop after which nothing at all is there."""
        if self.process is not None and self.process.poll() is None:
            self.settle()
            self.signal(signal.SIGTERM)
            assert self.exit_code() == 0, self.said()
        self.is_clean()

    def is_clean(self) -> None:
        """After its end: no process, no socket, no record of a serve."""
        poll(lambda: not self.processes(), lambda: f"no process is left: {self.processes()}")
        assert not (self.state / "stoker.sock").exists()
        assert list(self.state.glob("serves/*.json")) == []

    def clear(self) -> None:
        """Whatever happened: nothing of this story stays on the machine."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if broken := self.log_of_a_break():
            print(broken)  # beside the failure of a story that did not come to its end
        shutil.rmtree(self.directory)


@contextlib.contextmanager
def running(
    *serves: str,
    environment: Mapping[str, str] | None = None,
    started: bool = True,
    keeps_engines: bool = False,
    **settings: str,
) -> Iterator[Plane]:
    """A plane for one or more stories, looked over at its end. `settings` as in `config`."""
    directory = Path(tempfile.mkdtemp(prefix="scn-", dir="/tmp"))  # short: a socket's path may have 100 bytes
    plane = Plane(directory, config(*serves, **settings), environment)
    plane.keeps_engines = keeps_engines
    try:
        if started:
            plane.start()
        yield plane
        plane.finish()
    finally:
        plane.clear()


def config(*serves: str, front_door: str = "", swap: str = QUICK, slots: str = "[slots.gpu0]") -> str:
    """A whole configuration. Serves name the slots that `slots` declares."""
    if not any(table.startswith("[warm]") for table in serves):
        serves = (*serves, '[warm]\nmemory = "0B"')  # what stays in memory after a story is a story of its own
    parts = [f"[front_door]\nport = PORT\n{front_door}", '[paths]\nstate = "state"', slots, f"[swap]\n{swap}", *serves]
    return "\n\n".join(parts) + "\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def poll(holds: Callable[[], object], what: str | Callable[[], str], seconds: float = PATIENCE) -> None:
    """Until it holds; looked at every 20 ms."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s until {what if isinstance(what, str) else what()}"
        time.sleep(0.02)


async def until(holds: Callable[[], object], what: str | Callable[[], str], seconds: float = PATIENCE) -> None:
    """As `poll`, while the story's own loop goes on."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not holds():
        assert loop.time() < deadline, f"waited {seconds:g} s until {what if isinstance(what, str) else what()}"
        await asyncio.sleep(0.02)
