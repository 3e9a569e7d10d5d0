"""The Debian package: its files fit the program, and a real Debian installs, runs and forgets it."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripts.releasing import deb, tools, version
from tests.scenarios.plane import free_port

from stoker.config.load import load
from stoker.config.paths import SYSTEM_CONFIG

ROOT = version.ROOT
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def test_the_packaged_configuration_is_valid_and_where_commands_look_for_it() -> None:
    settings = load(deb.SOURCE / "stoker.toml")
    assert (settings.paths.state, settings.serves) == ("/var/lib/stoker", ())
    assert str(SYSTEM_CONFIG) == "/etc/stoker/stoker.toml"


def test_the_service_runs_that_configuration_as_its_own_user() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(deb.SOURCE / "stoker.service")
    service = dict(unit["Service"])
    assert f"--config {SYSTEM_CONFIG}" in service["ExecStart"]
    assert (service["User"], service["StateDirectory"]) == ("stoker", "stoker")
    assert "u stoker " in (deb.SOURCE / "sysusers.conf").read_text()
    assert (service["KillMode"], service["Restart"], service["RestartPreventExitStatus"]) == (
        "process",
        "on-failure",
        "2",
    )


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck: apt install shellcheck")
def test_the_maintainer_scripts_are_clean() -> None:
    files = [str(deb.SOURCE / name) for name in deb.MAINTAINER_SCRIPTS]
    found = subprocess.run(["shellcheck", *files], capture_output=True, text=True)
    assert found.stdout == ""


class Debian:
    """A Debian of its own in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            ["chroot", str(self.root), *words],
            capture_output=True,
            text=True,
            env={"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def has(self, path: str) -> bool:
        return (self.root / path).exists()


@pytest.fixture
def debian() -> Iterator[Debian]:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("a Debian of our own needs root and debootstrap (apt install debootstrap)")
    with tempfile.TemporaryDirectory(prefix="stoker-debian-") as scratch:
        root = Path(scratch) / "root"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", deb.PYTHONS["3.13"], str(root)], capture_output=True, text=True
        )
        if made.returncode:
            pytest.skip(f"debootstrap could not make a Debian: {made.stdout[-300:]}")
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
        try:
            yield Debian(root)
        finally:
            subprocess.run(["umount", "--lazy", str(root / "proc")], check=True)


@contextmanager
def demo(debian: Debian, port: int) -> Iterator[None]:
    command = [
        "runuser",
        "-u",
        "stoker",
        "--",
        "env",
        "HOME=/tmp",
        "XDG_STATE_HOME=/tmp/state",
        "stoker",
        "up",
        "--demo",
    ]
    process = subprocess.Popen(["chroot", str(debian.root), *command, "--port", str(port)], env={"PATH": PATH})
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def ask(port: int) -> str:
    body = {"model": "spark", "messages": [{"role": "user", "content": "What is 17 + 25?"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return str(json.loads(reply.read())["choices"][0]["message"]["content"])
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.5)


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_a_real_debian_installs_runs_and_forgets_the_package(debian: Debian, tmp_path: Path) -> None:
    tools.run([tools.tool("python"), "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), "."])
    package = deb.make("3.13", next(tmp_path.glob("*.whl")), tmp_path)
    shutil.copy(package, debian.root / "root" / "stoker.deb")
    debian.run("apt-get", "update", "-qq")
    debian.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "/root/stoker.deb")
    assert debian.run("stoker", "--version").strip() == f"stoker {version.current()}"
    assert "no problems" in debian.run("stoker", "config", "check")
    assert debian.run("stat", "-c", "%U %a", "/var/lib/stoker").strip() == "stoker 700"
    for path in ("usr/share/man/man1/stoker.1.gz", "usr/share/bash-completion/completions/stoker",
                 "usr/lib/systemd/system/stoker.service"):  # fmt: skip
        assert debian.has(path), path
    port = free_port()
    with demo(debian, port):
        assert "42" in ask(port)
    (debian.root / "etc/stoker/stoker.env").write_text("STOKER_KEY=x\n")
    debian.run("apt-get", "remove", "-y", "-qq", "stoker")
    assert not debian.has("opt/stoker")
    assert debian.has("etc/stoker/stoker.toml"), "a removal keeps the configuration"
    debian.run("apt-get", "purge", "-y", "-qq", "stoker")
    assert [path for path in ("etc/stoker", "var/lib/stoker", "usr/bin/stoker") if debian.has(path)] == []
