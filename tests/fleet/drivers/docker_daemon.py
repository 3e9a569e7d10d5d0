"""A Docker daemon of the tests' own: its socket, data and containers lie in one directory and go with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

IMAGE = "stoker-test:1"
REPOSITORY = Path(__file__).resolve().parents[3]
ENGINE = REPOSITORY / "tests" / "fleet" / "scripted_engine.py"
_MOUNTS = ("usr", "lib", "lib64", "bin")
_UP_LIMIT = 20.0


class Daemon:
    """`dockerd` without networks of its own, so that it disturbs nobody: containers use the host's."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="stoker-docker-", dir="/tmp"))  # a socket's path has to be short
        self.host = f"unix://{self.root}/sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.root / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "-H", self.host,
                    "--data-root", str(self.root / "data"), "--exec-root", str(self.root / "exec"),
                    "--pidfile", str(self.root / "pid"),
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + _UP_LIMIT
        while self.try_docker("version").returncode != 0:
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self.root / "dockerd.log").read_text("utf-8", "replace")[-600:]
                self.kill()
                raise RuntimeError(said)
            time.sleep(0.05)

    def kill(self) -> None:
        """As a crash of it and of its containerd: containers go on."""
        self._end(signal.SIGKILL)
        for left in ("pid", "exec/containerd/containerd.pid"):  # their numbers may be zombies' for a while
            (self.root / left).unlink(missing_ok=True)

    def close(self) -> None:
        """Every container, the daemon, and its directory."""
        if self._process is not None:
            self.clear()
            self._end(signal.SIGTERM)
        for process in psutil.process_iter(["cmdline"]):  # shims of containers, after a test that failed half way
            if any(str(self.root) in word for word in process.info["cmdline"] or ()):
                process.kill()
        for line in Path("/proc/mounts").read_text().splitlines()[::-1]:
            if (place := line.split()[1]).startswith(str(self.root)):
                subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def clear(self) -> None:
        """Remove every container."""
        if ids := self.docker("ps", "--all", "--quiet", "--no-trunc").split():
            self.try_docker("rm", "--force", *ids)

    def docker(self, *words: str) -> str:
        """What `docker WORDS` answers. Raises AssertionError with what it says if it fails."""
        result = self.try_docker(*words)
        assert result.returncode == 0, f"docker {' '.join(words)}: {result.stderr}"
        return result.stdout.strip()

    def try_docker(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DOCKER_HOST": self.host}
        return subprocess.run(
            ["docker", *words], env=environment, capture_output=True, text=True, timeout=30, check=False
        )

    def make_image(self, tag: str, mark: str = "") -> None:
        """An image of empty directories, which `mounts` fill. Another `mark` makes another image."""
        tar = self.root / "image.tar"
        with tarfile.open(tar, "w") as archive:
            for name in (*_MOUNTS, "etc", "tmp", "proc", "sys", "dev", f"mark-{mark}"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
        self.docker("import", str(tar), tag)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        with contextlib.suppress(ProcessLookupError):  # its containerd
            os.killpg(process.pid, signal.SIGKILL)


def mounts() -> list[str]:
    """The host's programs, this Python and this checkout, all read-only: `SOURCE:TARGET:ro`."""
    places = [Path("/") / name for name in _MOUNTS]
    places += [Path(sys.base_prefix), Path(sys.prefix), REPOSITORY]
    own = [p for p in dict.fromkeys(places) if p.is_dir() and not any(p != q and p.is_relative_to(q) for q in places)]
    return [f"{place}:{place}:ro" for place in own]


def engine(*options: str) -> list[str]:
    """The command line of the scripted engine, as it is inside a container too."""
    return [os.path.realpath(sys.executable), "-S", "-E", "-u", str(ENGINE), *options]


def run(name: str, *command: str, options: tuple[str, ...] = (), image: str = IMAGE) -> list[str]:
    """A `docker run` in the background."""
    volumes = [word for mount in mounts() for word in ("-v", mount)]
    return ["docker", "run", "-d", "--name", name, "--network", "host", *volumes, *options, image, *command]


def started() -> Iterator[Daemon]:
    """For a fixture: a daemon with IMAGE; skips with the reason where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("a Docker daemon of our own needs root")
    for program in ("dockerd", "docker"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (apt install docker.io)")
    daemon = Daemon()
    try:
        try:
            daemon.start()
        except RuntimeError as failure:
            pytest.skip(f"dockerd does not run here: {failure}")
        daemon.make_image(IMAGE)
        yield daemon
    finally:
        daemon.close()
