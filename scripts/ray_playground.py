"""A Ray cluster on this machine, to try `[clusters.NAME]` with: a head, two nodes with one pretended GPU each, and
token authentication.

    scripts/ray-playground              installs Ray into .ray-playground/venv (once), starts the cluster, writes a
                                        configuration for it, and ends the cluster at Ctrl-C
    scripts/ray-playground kill alpha   ends this node (or beta, or head) at once, as a power cut would
    scripts/ray-playground stop         ends a cluster that was left running

All of it listens on loopback addresses of its own. Ends only what it has started: never `ray stop`, which ends every
Ray on the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".ray-playground"
PYTHON = HOME / "venv" / "bin" / "python"
INSTALL_LIMIT = 900
START_LIMIT = 90
ENGINE = "-m stoker.engines.embedded -m {model} --host {host} --port {port} --alias {name}"
SERVE = f"""
[[serve]]
name = "fast"
model = "{ROOT}/src/stoker/models/spark.gguf"
cmd = "{ROOT}/.venv/bin/python {ENGINE}"
slots = ["alpha", "beta"]
replicas = 2
"""
NEXT = """
Next, in another terminal, in this folder:

. .venv/bin/activate
export STOKER_CONFIG=$PWD/.ray-playground/stoker.toml
stoker up

Ctrl-C ends the cluster."""
HEAD = """\
# `ray start --head` refuses while a node of the same cluster runs on this machine, which here they always do.
import functools
import sys
from ray._private import services
services.find_gcs_addresses = functools.cache(lambda: set())
from ray.scripts.scripts import main
sys.exit(main())
"""


def install() -> str:
    """Installs Ray. Returns why that cannot be; empty: it is there."""
    if (HOME / "installed").exists():
        return ""
    HOME.mkdir(exist_ok=True)
    try:
        for command in (
            [sys.executable, "-m", "venv", str(HOME / "venv")],
            [str(PYTHON), "-m", "pip", "install", "--quiet", "ray[default]>=2.60"],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT)
    except subprocess.CalledProcessError as failure:
        lines = (failure.stderr or failure.stdout).strip().splitlines()
        return f"Ray cannot be installed: {lines[-1] if lines else failure}"
    except (OSError, subprocess.TimeoutExpired) as failure:
        return f"Ray cannot be installed: {failure}"
    (HOME / "installed").touch()
    return ""


class Playground:
    """A head at 127.0.0.FIRST and nodes at the next addresses: `alpha` and `beta`, by their label `box`."""

    def __init__(self, first: int = 2, home: Path | None = None) -> None:
        """`home`: a folder that keeps its token from one start to the next, and the note for `stop`."""
        self._note = home / "running.json" if home is not None else None
        self.head_ip = f"127.0.0.{first}"
        self.address = f"http://{self.head_ip}:8265"
        self.nodes = {"alpha": f"127.0.0.{first + 1}", "beta": f"127.0.0.{first + 2}"}
        self.groups: dict[str, subprocess.Popen[bytes]] = {}
        """Each in a process group of its own, by `head` and the nodes' names."""
        self.place = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets need a short path
        self._first = first
        self.token_file = (home or self.place) / "token"
        if not self.token_file.exists():
            self.token_file.touch(0o600)
            self.token_file.write_text(secrets.token_hex(32))
        self.token = self.token_file.read_text()
        (self.place / "head.py").write_text(HEAD)

    def start(self) -> None:
        """All of it; about 10 s. Raises RuntimeError with the end of Ray's log."""
        self.start_head()
        for name in self.nodes:
            self.start_node(name)

    def start_head(self) -> None:
        """Also again, after `kill`. Returns when it answers."""
        port = str(6380 + self._first)
        self._start(
            "head", [str(PYTHON), str(self.place / "head.py"), "start", "--head", f"--node-ip-address={self.head_ip}",
            f"--port={port}", f"--dashboard-host={self.head_ip}", "--dashboard-port=8265", "--num-gpus=0",
            f"--ray-client-server-port={6280 + self._first}"], 0,
        )  # fmt: skip
        self._await(lambda: bool(self._nodes()), "the head")

    def start_node(self, name: str) -> None:
        """Also again, after `kill`. Returns when the head knows it; two that start at once get in each other's way."""
        number = list(self.nodes).index(name) + 1
        self._start(
            name, [str(PYTHON), str(self.place / "head.py"), "start", f"--address={self.head_ip}:{6380 + self._first}",
            f"--node-ip-address={self.nodes[name]}", "--num-gpus=1", f"--labels=box={name}"], number,
        )  # fmt: skip
        ip = self.nodes[name]
        self._await(lambda: any(n["node_ip"] == ip and n["state"] == "ALIVE" for n in self._nodes()), f"node {name}")

    def kill(self, name: str) -> None:
        """`head` or a node dies, with everything in its process group."""
        process = self.groups.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """Ends all of it: nodes first, each asked politely for a few seconds."""
        for name in reversed(list(self.groups)):
            process = self.groups.pop(name)
            end_group(process.pid)
            process.wait()
        shutil.rmtree(self.place, ignore_errors=True)

    def config(self) -> str:
        """What to write into stoker.toml."""
        slots = "".join(f'[slots.{name}]\ncluster = "lab"\nnode = {{ box = "{name}" }}\n' for name in self.nodes)
        return f'[clusters.lab]\naddress = "{self.address}"\ntoken = "file:{self.token_file}"\n{slots}'

    def _start(self, name: str, command: list[str], number: int) -> None:
        agent = 52000 + 100 * self._first + 10 * number
        command += [
            "--block", "--num-cpus=2", "--object-store-memory=80000000", f"--temp-dir={self.place / 'ray'}",
            "--disable-usage-stats", "--include-log-monitor=false", f"--dashboard-agent-listen-port={agent}",
        ]  # fmt: skip
        with (self.place / f"{name}.log").open("ab") as log:
            self.groups[name] = subprocess.Popen(
                command, env={**os.environ, **self._environment()}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._write_note()

    def _write_note(self) -> None:
        if self._note is not None:
            groups = {name: [one.pid, started_at(one.pid)] for name, one in self.groups.items()}
            own = [os.getpid(), started_at(os.getpid())]
            self._note.write_text(json.dumps({"own": own, "groups": groups, "place": str(self.place)}))

    def _environment(self) -> dict[str, str]:
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token_file),
            "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
            "RAY_JOB_START_TIMEOUT_SECONDS": "30",
            "RAY_gcs_storage": "rocksdb",
            "RAY_gcs_storage_path": str(self.place / "gcs"),
        }

    def _nodes(self) -> list[dict[str, str]]:
        request = urllib.request.Request(
            f"{self.address}/api/v0/nodes", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                found: list[dict[str, str]] = json.load(answer)["data"]["result"]["result"]
                return found
        except (OSError, ValueError, KeyError, urllib.error.URLError):
            return []

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + START_LIMIT
        while not holds():
            ended = [name for name, process in self.groups.items() if process.poll() is not None]
            if ended or time.monotonic() > until:
                name = ended[0] if ended else "head"
                end = (self.place / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:]
                raise RuntimeError(f"{what} of the playground did not start: {' | '.join(end)}")
            time.sleep(0.2)


def end_group(group: int) -> None:
    """SIGTERM, ten seconds, SIGKILL."""
    for number, limit in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + limit
        while time.monotonic() < until and _is_there(group):
            time.sleep(0.1)


def _is_there(group: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(group, os.WNOHANG)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def main(words: list[str]) -> int:
    """The command line. Returns the exit code."""
    note = HOME / "running.json"
    if words == ["stop"]:
        return stop(note)
    if words[:1] == ["kill"] and len(words) == 2:
        return kill(note, words[1])
    if words:
        print(__doc__)
        return 2
    if note.exists():
        print("a playground runs already, or was left behind: scripts/ray-playground stop", file=sys.stderr)
        return 1
    is_installed = (HOME / "installed").exists()
    print("starting ..." if is_installed else "installing Ray (once; about 400 MB) ...", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        return run()
    except (KeyboardInterrupt, SystemExit):
        print("\nending ...", flush=True)
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def run() -> int:
    """Until it is interrupted. Returns the exit code if it cannot start."""
    if problem := install():
        print(problem, file=sys.stderr)
        return 1
    playground = Playground(home=HOME)
    try:
        playground.start()
        config = playground.config() + SERVE
        (HOME / "stoker.toml").write_text(config)
        print(f"\nThe cluster runs. Its configuration, in .ray-playground/stoker.toml:\n\n{config}{NEXT}", flush=True)
        while True:
            signal.pause()
    finally:
        playground.close()
        (HOME / "running.json").unlink(missing_ok=True)


def kill(note: Path, name: str) -> int:
    """A node of the playground that runs, or its head, dies with everything on it."""
    groups = json.loads(note.read_text())["groups"] if note.exists() else {}
    group, mark = groups.get(name, (0, ""))
    if not mark or started_at(group) != mark:
        print(f"no {name} runs in a playground", file=sys.stderr)
        return 1
    os.killpg(group, signal.SIGKILL)
    return 0


def stop(note: Path) -> int:
    """Ends a playground that runs, or what is left of one that was killed."""
    if not note.exists():
        print("no playground runs")
        return 0
    found = json.loads(note.read_text())
    own, mark = found["own"]
    if started_at(own) == mark:
        os.kill(own, signal.SIGTERM)  # it ends the cluster
        until = time.monotonic() + 60
        while started_at(own) == mark and time.monotonic() < until:
            time.sleep(0.1)
    for group, mark in reversed(found["groups"].values()):
        if started_at(group) == mark:  # else its number belongs to another process by now
            end_group(group)
    shutil.rmtree(found["place"], ignore_errors=True)
    note.unlink(missing_ok=True)
    print("ended")
    return 0


def started_at(pid: int) -> str:
    """What tells this process from a later one with its number; empty: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
