"""The Compose example of the guide, with a stand-in for vLLM: its files agree, and it runs under a real Docker."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.drivers import docker_daemon
from tests.fleet.drivers.docker_daemon import IMAGE, REPOSITORY, Daemon
from tests.scenarios.plane import STOKER, free_port, poll

from stoker_lab.testing.script.script import Script

yaml: Any = pytest.importorskip("yaml")
FOLDER = REPOSITORY / "examples" / "compose"
KEY = "sk-compose-example-0001"
PROJECT = "stoker"


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


def settings() -> dict[str, Any]:
    return tomllib.loads((FOLDER / "stoker.toml").read_text())


def option(name: str) -> str:
    words = compose()["services"]["vllm"]["command"]
    return str(words[words.index(name) + 1])


# -- the files -------------------------------------------------------------------------------------------------------


def test_the_configuration_passes_its_check_and_names_the_key_that_is_missing() -> None:
    command = [str(STOKER), "config", "check", "--config", str(FOLDER / "stoker.toml")]
    known = {name: value for name, value in os.environ.items() if name != "STOKER_KEY"}
    passed = subprocess.run(command, env={**known, "STOKER_KEY": KEY}, capture_output=True, text=True, check=False)
    assert (passed.returncode, passed.stderr) == (0, "")
    assert "no problems; 1 serve" in passed.stdout
    refused = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "STOKER_KEY is not set" in refused.stderr


def test_the_variant_on_the_host_passes_its_check_too(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs" / "guides" / "compose.md").read_text()
    variant = guide.partition("```toml\n")[2].partition("```")[0]
    lines = (FOLDER / "stoker.toml").read_text().splitlines()
    kept = [variant if line.startswith("base_url") else line for line in lines]
    (tmp_path / "stoker.toml").write_text("\n".join(kept) + "\n[slots.gpu0]\n")
    command = [str(STOKER), "config", "check", "--config", str(tmp_path / "stoker.toml")]
    environment = {**os.environ, "STOKER_KEY": KEY}
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (checked.returncode, "no problems; 1 serve" in checked.stdout) == (0, True), checked.stderr


def test_both_files_say_the_same_about_the_model() -> None:
    [serve] = settings()["serve"]
    assert serve["served_name"] == option("--served-model-name")
    assert serve["context"] == int(option("--max-model-len"))
    assert serve["parallel"] == int(option("--max-num-seqs"))
    assert serve["base_url"] == "http://vllm:8000/v1"
    assert "ports" not in compose()["services"]["vllm"], "nobody reaches vLLM past Stoker"


def test_a_stop_gives_running_requests_the_time_that_stoker_gives_them() -> None:
    grace = compose()["services"]["stoker"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > 30, "front_door.shutdown_grace"


# -- with a real Docker ----------------------------------------------------------------------------------------------


def stand_in(port: int) -> dict[str, Any]:
    """The example with this checkout in place of both images, and without a GPU; all else as it is written."""
    document = compose()
    stoker, vllm = document["services"]["stoker"], document["services"]["vllm"]
    del stoker["build"], vllm["deploy"]
    for service in (stoker, vllm):
        service["image"] = IMAGE
        service["volumes"] = [*service["volumes"], *docker_daemon.mounts()]
    stoker["ports"] = [stoker["ports"][0].replace("${STOKER_PORT:-8000}", str(port))]
    stoker["environment"] |= {"XDG_STATE_HOME": "/var/lib", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    stoker |= {"command": [str(STOKER), "up"], "working_dir": "/etc/stoker"}  # what the Dockerfile says
    context = int(option("--max-model-len"))
    script = Script(id=option("--served-model-name"), engine="vllm", context=context, tokens=8, gap=0.1)
    vllm["command"] = [*script.command(8000), "--host", "0.0.0.0"]
    vllm["environment"] = [*vllm["environment"], "PATH=/usr/bin:/bin"]
    for service in (stoker, vllm):
        service["healthcheck"] |= {"interval": "1s"}
    return document


@dataclass(frozen=True, slots=True)
class Project:
    """The example, up and running."""

    daemon: Daemon
    command: list[str]
    port: int

    def compose(self, *words: str) -> None:
        environment = {**os.environ, "DOCKER_HOST": self.daemon.host, "STOKER_KEY": KEY}
        done = subprocess.run(
            [*self.command, *words], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr

    def container(self, service: str) -> str:
        label = f"label=com.docker.compose.service={service}"
        return self.daemon.docker("ps", "--all", "--quiet", "--filter", label)

    def inspect(self, service: str, field: str) -> str:
        return self.daemon.docker("inspect", "--format", f"{{{{{field}}}}}", self.container(service))

    def stoker(self, *words: str) -> str:
        return self.daemon.docker("exec", self.container("stoker"), str(STOKER), *words)

    def request(
        self, method: str, path: str, document: object = None, key: str = KEY, host: str = "127.0.0.1"
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Host": host, "Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(method, path, None if document is None else json.dumps(document), headers)
        return connection, connection.getresponse()

    def ask(self, method: str, path: str, document: object = None, **given: str) -> tuple[int, Any]:
        connection, reply = self.request(method, path, document, **given)
        try:
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def listing(self) -> str:
        return f"both are healthy: {self.daemon.docker('ps', '--all')}"

    def is_healthy(self) -> bool:
        return [self.inspect(name, ".State.Health.Status") for name in ("stoker", "vllm")] == ["healthy"] * 2


def compose_command() -> tuple[list[str], bool]:
    """The command, and whether it is Docker Compose 2. Skips where there is none."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"], True
    if found := shutil.which("docker-compose"):
        return [found], False
    pytest.skip("Docker Compose is not installed (apt install docker-compose)")


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """Up with Docker Compose 2 where it is there; else with 1.29, which does not know `name`."""
    command, is_v2 = compose_command()
    for daemon in docker_daemon.started():
        with tempfile.TemporaryDirectory(prefix="stoker-compose-") as folder:
            port = free_port()
            document = stand_in(port)
            if not is_v2:
                document = {"version": "3.8", **{name: value for name, value in document.items() if name != "name"}}
            file = Path(folder) / "compose.yaml"
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            words = [*command, "-p", PROJECT, "-f", str(file), "--project-directory", str(FOLDER)]
            one = Project(daemon, words, port)
            one.compose("config", "-q")
            one.compose("up", "-d")
            try:
                poll(one.is_healthy, one.listing)
                yield one
            finally:
                one.compose("down", "--volumes", "--timeout", "1")


@pytest.mark.docker
def test_the_model_answers_through_the_published_port(project: Project) -> None:
    status, models = project.ask("GET", "/v1/models")
    assert (status, [one["id"] for one in models["data"]]) == (200, ["qwen"])
    chat = {"model": "qwen", "messages": [{"role": "user", "content": "hello"}]}
    status, answer = project.ask("POST", "/v1/chat/completions", chat)
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"].startswith("tok0")
    status, answer = project.ask("POST", "/v1/messages", {**chat, "max_tokens": 8})
    assert (status, answer["content"][0]["type"]) == (200, "text")


@pytest.mark.docker
def test_callers_need_the_key_of_the_env_file_and_a_host_that_is_allowed(project: Project) -> None:
    assert project.ask("GET", "/v1/models", key="sk-wrong-wrong")[0] == 401
    assert project.ask("GET", "/v1/models", host="stoker:8000")[0] == 200
    status, refused = project.ask("GET", "/v1/models", host="evil.example")
    assert (status, refused["error"]["code"]) == (403, "foreign_host")


@pytest.mark.docker
def test_commands_run_inside_the_container(project: Project) -> None:
    assert "qwen" in project.stoker("serves", "status")
    assert "nothing is wrong" in project.stoker("watchdog", "--once")
    assert "no problems" in project.stoker("config", "check")


@pytest.mark.docker
def test_a_stop_lets_a_stream_end_and_what_happened_is_known_after_the_next_start(project: Project) -> None:
    chat = {"model": "qwen", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    connection, reply = project.request("POST", "/v1/chat/completions", chat)
    reply.readline()
    stopping = threading.Thread(target=project.compose, args=("stop", "stoker"))
    stopping.start()
    try:
        assert reply.read().rstrip().endswith(b"data: [DONE]")
    finally:
        connection.close()
        stopping.join()
    assert project.inspect("stoker", ".State.ExitCode") == "0"
    project.compose("start", "stoker")
    poll(project.is_healthy, "Stoker is up again")
    assert "qwen" in project.stoker("decisions")


@pytest.mark.docker
def test_docker_brings_back_what_ended_by_itself(project: Project) -> None:
    for service in ("stoker", "vllm"):
        assert project.inspect(service, ".HostConfig.RestartPolicy.Name") == "unless-stopped"
        assert project.inspect(service, ".HostConfig.IpcMode") == ("host" if service == "vllm" else "private")
