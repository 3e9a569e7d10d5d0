"""What is done with a container, by its state, its drift and its maker: the tables and the rules, without Docker."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.domain.serve import Secret, Serve
from stoker.fleet.drivers import up_command
from stoker.fleet.drivers.containers import (
    CONFIG_HASH,
    HOLDS,
    STEPS,
    TABLE,
    Container,
    ContainerAction,
    ContainerMatch,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    compare,
    parse,
    refusal,
    restarts_by_itself,
    steps,
)
from stoker.fleet.drivers.docker import DockerFault, environment, explain

UP = ("docker", "run", "-d", "--name", "fast", "img:1")


def container(state: ContainerState = ContainerState.EXITED, **fields: Any) -> Container:
    return Container(id="abc", name="fast", state=state, image_id="sha256:1", image="img:1", **fields)


# -- tables ------------------------------------------------------------------------------------------------------------


def test_every_state_with_every_drift_has_its_action_and_every_state_its_end() -> None:
    assert set(TABLE) == {(state, how) for state in ContainerState for how in ContainerMatch}
    assert set(STEPS) == set(ContainerState)


def test_a_container_that_does_not_run_is_never_started_again_unless_it_is_what_is_configured() -> None:
    again = {key for key, action in TABLE.items() if action in (ContainerAction.START, ContainerAction.UNPAUSE)}
    assert {how for _, how in again} == {ContainerMatch.SAME}
    assert {state for state, _ in again} == {ContainerState.CREATED, ContainerState.EXITED, ContainerState.PAUSED}


def test_what_runs_is_left_and_what_is_odd_or_unknown_is_refused() -> None:
    assert {TABLE[ContainerState.RUNNING, how] for how in ContainerMatch} == {ContainerAction.LEAVE}
    odd = (ContainerState.RESTARTING, ContainerState.DEAD, ContainerState.REMOVING, ContainerState.UNKNOWN)
    assert {TABLE[state, how] for state in odd for how in ContainerMatch} == {ContainerAction.REFUSE}
    assert {TABLE[ContainerState.MISSING, how] for how in ContainerMatch} == {ContainerAction.CREATE}


def test_running_paused_and_restarting_hold_the_gpu_and_are_ended_in_their_own_way() -> None:
    assert {ContainerState.RUNNING, ContainerState.PAUSED, ContainerState.RESTARTING} == HOLDS
    assert STEPS[ContainerState.PAUSED] == ("unpause", "stop")


@pytest.mark.parametrize(
    "state", [ContainerState.RESTARTING, ContainerState.DEAD, ContainerState.REMOVING, ContainerState.UNKNOWN]
)
def test_every_refusal_names_the_container_and_a_command(state: ContainerState) -> None:
    assert "'fast'" in refusal(state, "fast")
    assert "`docker " in refusal(state, "fast")


@pytest.mark.parametrize(
    ("action", "state", "expected"),
    [
        (ContainerAction.LEAVE, ContainerState.RUNNING, []),
        (ContainerAction.REFUSE, ContainerState.DEAD, []),
        (ContainerAction.START, ContainerState.EXITED, [["docker", "start", "fast"]]),
        (ContainerAction.UNPAUSE, ContainerState.PAUSED, [["docker", "unpause", "fast"]]),
        (ContainerAction.RECREATE, ContainerState.EXITED, [["docker", "rm", "abc"], list(UP)]),
        (ContainerAction.RECREATE, ContainerState.PAUSED, [["docker", "rm", "--force", "abc"], list(UP)]),
    ],
)
def test_the_commands_of_each_action(action: ContainerAction, state: ContainerState, expected: list[list[str]]) -> None:
    assert steps(action, container(state), "fast", UP) == expected


def test_what_is_only_created_is_started_after_it() -> None:
    up = ("docker", "create", "--name", "fast", "img:1")
    assert up_command.only_creates(up)
    assert up_command.only_creates(("docker", "compose", "up", "--no-start"))
    assert not up_command.only_creates(UP)
    assert steps(ContainerAction.CREATE, None, "fast", up, only_creates=True) == [list(up), ["docker", "start", "fast"]]


def test_only_the_policy_that_undoes_a_stop_is_told() -> None:
    assert "docker update --restart=no fast" in restarts_by_itself(container(restart_policy="always"))
    assert {restarts_by_itself(container(restart_policy=name)) for name in ("no", "unless-stopped", "on-failure")} == {
        ""
    }


# -- drift -------------------------------------------------------------------------------------------------------------

MADE = ContainerRecord(id="abc", fingerprint="f1", config_hash="h1")
LABELLED = {CONFIG_HASH: "h1"}


@pytest.mark.parametrize(
    ("made", "wanted", "labels", "expected"),
    [
        (MADE, ContainerSpec(fingerprint="f1", config_hash="h1", image_id="sha256:1"), {}, ContainerMatch.SAME),
        (MADE, ContainerSpec(fingerprint="f1"), {}, ContainerMatch.SAME),
        (MADE, ContainerSpec(fingerprint="f2", config_hash="h1"), {}, ContainerMatch.CHANGED),
        (MADE, ContainerSpec(fingerprint="f1", config_hash="h2"), {}, ContainerMatch.CHANGED),
        (MADE, ContainerSpec(fingerprint="f1", config_hash="h1", image_id="sha256:2"), {}, ContainerMatch.CHANGED),
        # What we remember goes before the label: it was written by the Compose of that time, perhaps another one.
        (MADE, ContainerSpec(fingerprint="f1", config_hash="h1"), {CONFIG_HASH: "h0"}, ContainerMatch.SAME),
        (
            ContainerRecord(id="abc", fingerprint="f1"),
            ContainerSpec(fingerprint="f1", config_hash="h2"),
            LABELLED,
            ContainerMatch.CHANGED,
        ),
        # Another container was made by us then, this one was not.
        (ContainerRecord(id="old", fingerprint="f1"), ContainerSpec(fingerprint="f1"), {}, ContainerMatch.UNKNOWN),
        (None, ContainerSpec(fingerprint="f1", config_hash="h1"), LABELLED, ContainerMatch.SAME),
        (None, ContainerSpec(fingerprint="f1", config_hash="h2"), LABELLED, ContainerMatch.CHANGED),
        (None, ContainerSpec(fingerprint="f1"), LABELLED, ContainerMatch.UNKNOWN),
        (None, ContainerSpec(fingerprint="f1", config_hash="h1"), {}, ContainerMatch.UNKNOWN),
    ],
)
def test_drift_is_told_by_image_then_by_memory_then_by_label_and_else_it_is_unknown(
    made: ContainerRecord | None, wanted: ContainerSpec, labels: dict[str, str], expected: ContainerMatch
) -> None:
    found, why = compare(container(labels=labels), made, wanted)
    assert found is expected
    assert bool(why) is (expected is not ContainerMatch.SAME)


def test_what_is_missing_has_not_drifted() -> None:
    assert compare(None, MADE, ContainerSpec(fingerprint="f2")) == (ContainerMatch.SAME, "")


# -- whose -------------------------------------------------------------------------------------------------------------

COMPOSE = ("docker", "compose", "-f", "/srv/llm/compose.yml", "up", "-d", "eng")


def project(name: str = "llm", directory: str = "/srv/llm", files: str = "compose.yml") -> dict[str, str]:
    return {
        "com.docker.compose.project": name,
        "com.docker.compose.project.working_dir": directory,
        "com.docker.compose.project.config_files": files,
    }


@pytest.mark.parametrize(
    ("labels", "up", "is_ours"),
    [
        (project(), COMPOSE, True),
        (project(files="/srv/llm/compose.yml"), COMPOSE, True),
        (project(), ("docker-compose", "up", "-d"), True),
        (project(), ("docker-compose", "--project-name=llm", "up", "-d"), True),
        (project(), ("docker", "compose", "-p", "other", "up", "-d"), False),
        (project(directory="/srv/other"), COMPOSE, False),
        (project(files="other.yml"), COMPOSE, False),
        (project(directory="/srv"), ("docker", "compose", "--project-directory", "/srv", "up", "-d"), True),
        (project(), UP, False),
        ({}, COMPOSE, False),
        ({}, UP, True),
        ({}, ("docker", "container", "run", "-d", "img:1"), True),
        ({}, ("docker", "run", "-d", "--name", "fast", "img:2"), False),
        ({}, ("./start.sh", "img:1"), False),
    ],
)
def test_a_container_is_ours_only_if_up_would_make_that_very_one(
    labels: dict[str, str], up: tuple[str, ...], is_ours: bool
) -> None:
    assert (up_command.ownership_problem(container(labels=labels), None, up, "/srv/llm") == "") is is_ours


def test_what_we_remember_making_is_ours_however_it_was_made() -> None:
    assert up_command.ownership_problem(container(labels=project()), MADE, ("./start.sh",), "/elsewhere") == ""
    assert "project 'llm' of /srv/llm" in up_command.ownership_problem(
        container(labels=project()), None, ("./start.sh",), "/x"
    )


# -- up ----------------------------------------------------------------------------------------------------------------


def serve(*up: str, **fields: Any) -> Serve:
    return Serve(name="a", engine="openai", up=up or None, port=8001, container="fast", directory="/", **fields)


def test_up_is_filled_in_word_by_word_and_never_through_a_shell() -> None:
    made = serve("/bin/echo", "{dir}/{name}:{port}", "{model}", "$HOME", "{{x}}", model="m; rm", served_name="big")
    assert up_command.fill(made) == ["/bin/echo", "//big:8001", "m; rm", "$HOME", "{{x}}"]
    assert up_command.fill(serve()) == []


@pytest.mark.parametrize(
    "words",
    [UP, COMPOSE, ("docker", "run", "-itd", "i"), ("docker", "create", "i"), ("./x",), ("docker", "compose", "start")],
)
def test_a_command_that_returns_is_fine(words: tuple[str, ...]) -> None:
    assert up_command.problems(serve(*words), words) == []


@pytest.mark.parametrize("words", [("docker", "run", "i"), ("docker-compose", "-f", "x.yml", "up", "eng")])
def test_a_command_that_would_stay_in_the_foreground_is_refused(words: tuple[str, ...]) -> None:
    assert "add -d" in up_command.problems(serve(*words), words)[0]


def test_a_key_in_up_has_to_be_the_serves_own() -> None:
    words = ("docker", "run", "-d", "i", "{key}")
    assert "no `key`" in up_command.problems(serve(*words), words)[0]
    keyed = serve("/bin/echo", "{key}", key=Secret("s3", "env:K"))
    assert (up_command.problems(keyed, words), up_command.fill(keyed)[1]) == ([], "s3")


CONFIG = """\
name: llm
services:
  eng:
    command:
    - serve
    - "name: x"
    container_name: fast
    environment:
      image: decoy
    image: "vllm:1"
  web:
    build:
      context: .
    container_name: 'web'
    image: built:1
  plain:
    image: img:2
volumes:
  eng:
    container_name: no
"""


def test_the_services_of_a_compose_file_are_read_from_its_canonical_form() -> None:
    assert up_command.services(CONFIG) == [
        up_command.Service("eng", "fast", "vllm:1"),
        up_command.Service("web", "web", ""),
        up_command.Service("plain", "", "img:2"),
    ]


@pytest.mark.parametrize(
    ("name", "service"),
    [("fast", "eng"), ("llm-plain-1", "plain"), ("llm_plain_1", "plain"), ("llm-eng-1", None), ("plain", None)],
)
def test_a_container_is_a_services_by_its_given_name_or_by_composes_own(name: str, service: str | None) -> None:
    found = up_command.service_for(up_command.services(CONFIG), name)
    assert (found.name if found is not None else None) == service


def test_a_question_to_compose_is_about_the_same_files_and_project() -> None:
    up = ["docker-compose", "--verbose", "-f", "a.yml", "-p", "x", "up", "-d"]
    assert up_command.hash_command(up, "eng") == [*up[:6], "config", "--hash", "eng"]
    assert up_command.config_command(COMPOSE) == ["docker", "compose", "-f", "/srv/llm/compose.yml", "config"]


# -- what docker says --------------------------------------------------------------------------------------------------


def test_an_inspected_container_is_read_and_what_docker_may_call_it_later_is_unknown() -> None:
    entry: dict[str, Any] = {
        "Id": "abc", "Name": "/fast", "Image": "sha256:1", "State": {"Status": "running", "Pid": 7},
        "Config": {"Image": "img:1", "Labels": None},
        "HostConfig": {"RestartPolicy": {"Name": ""}},
    }  # fmt: skip
    assert parse(entry) == container(ContainerState.RUNNING, pid=7)
    entry["State"] = {"Status": "hibernating", "Health": {"Status": "unhealthy"}}
    read = parse(entry)
    assert (read.state, read.health) == (ContainerState.UNKNOWN, "unhealthy")


@pytest.mark.parametrize(
    ("argv", "said", "fault", "words"),
    [
        ("docker ps", "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
         DockerFault.NO_DAEMON, "sudo systemctl start docker"),
        ("docker-compose up", "FileNotFoundError: [Errno 2]\ndocker.errors.DockerException: Error while fetching "
         "server API version: ('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))",
         DockerFault.NO_DAEMON, "sudo systemctl start docker"),
        ("docker ps", "permission denied while trying to connect to the Docker daemon socket at unix:///x: Get",
         DockerFault.NO_PERMISSION, "usermod -aG docker"),
        ("docker-compose up", "Error while fetching server API version: (PermissionError(13, 'Permission denied'))",
         DockerFault.NO_PERMISSION, "usermod -aG docker"),
        ("docker run", 'Conflict. The container name "/fast" is already in use by container "b6".',
         DockerFault.NAME_TAKEN, "docker rm fast"),
        ("docker image", "Error response from daemon: no such image: nope:1: No such image: nope:1",
         DockerFault.NO_IMAGE, "docker pull nope:1`"),
        ("docker run", "Unable to find image 'nope:1' locally\ndocker: Error from daemon: lookup: no such host",
         DockerFault.NO_IMAGE, "docker pull nope:1`"),
        ("docker run", "Unable to find image 'a:1' locally\nStatus: Downloaded newer image\ndocker: Error: no device",
         DockerFault.OTHER, "no device"),
        ("docker run", "docker: Error response: could not select device driver \"\" with capabilities: [[gpu]]",
         DockerFault.NO_GPU, "nvidia-ctk runtime configure"),
        ("docker run", "pull access denied for me/x, repository does not exist", DockerFault.NO_IMAGE,
         "docker pull me/x`"),
        ("docker start", "Error response from daemon: No such container: nope", DockerFault.NO_CONTAINER,
         "docker ps --all"),
        ("docker compose -f a.yml up", "yaml: line 2: did not find expected node", DockerFault.BAD_COMPOSE,
         "docker compose -f a.yml config"),
        ("docker run", "yaml is not the matter\n\nRun 'docker run --help'", DockerFault.OTHER, "the matter"),
        ("docker run -e K=secret", "", DockerFault.OTHER, "`docker run` failed: it printed nothing"),
    ],
)  # fmt: skip
def test_every_failure_is_named_with_the_next_step(argv: str, said: str, fault: DockerFault, words: str) -> None:
    failure = explain(argv.split(), said)
    assert failure.fault is fault
    assert words in failure.message
    assert "secret" not in failure.message


@pytest.mark.parametrize(
    ("up", "image"),
    [
        ("docker run -d --name qwen --gpus all -p 127.0.0.1:1:8000 org/img:latest Qwen/Qwen3-8B", "org/img:latest"),
        ("docker run -dit --rm --ipc=host -e A=b img --port 1", "img"),
        ("docker create --name a img:1", "img:1"),
        ("docker container run --detach img:1 serve", "img:1"),
        ("docker run -d", "IMAGE"),
    ],
)  # fmt: skip
def test_the_image_of_a_docker_run_is_named(up: str, image: str) -> None:
    assert up_command.named_image(up.split()) == image


def test_docker_sees_where_the_daemon_is_and_nothing_secret() -> None:
    ours = {"PATH": "/bin", "DOCKER_HOST": "unix:///x", "OPENAI_API_KEY": "k", "STOKER_KEY": "k"}
    assert environment(ours) == {"PATH": "/bin", "DOCKER_HOST": "unix:///x"}
