"""An operator in a second shell: the variables and files with Stoker's secrets are not there."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.scenarios.plane import Plane, config, running, serve

CALLER, ENGINE, OPERATOR = "c" * 32, "e" * 32, "o" * 32
DOOR = """keys = [
  { name = "team", value = "env:TEAM_KEY" },
  { name = "operator", value = "file:operator.key", scope = "admin" },
]"""
SECRETS = {"TEAM_KEY": CALLER, "ENGINE_KEY": ENGINE}
TIER = '[[tier]]\nname = "local"\nserve = "a"\n[alias.main]\nserve = "a"\n'


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Stoker runs and has its secrets; who types commands has none of them."""
    command = ["docker", "run", "--name", "contained", "-p", "{port}:{port}", "-e", "KEY={key}", "image"]
    contained = serve(
        "contained", cmd=None, container="contained", up=command, slot=None, port=18999, key="env:ENGINE_KEY"
    )
    tables = (serve("a", key="env:ENGINE_KEY"), contained, TIER)
    with running(*tables, front_door=DOOR, started=False, environment=SECRETS) as plane:
        key = plane.directory / "operator.key"
        key.write_text(OPERATOR)
        key.chmod(0o600)
        plane.start()
        key.rename(key.with_name("elsewhere"))
        for name in SECRETS:
            del plane.environment[name]
        yield plane
        key.with_name("elsewhere").rename(key)


@pytest.mark.parametrize(
    "words",
    [
        "serves status", "serves up a", "serves logs a", "serves up a --dry-run", "serves drain a",
        "serves undrain a", "serves down a --dry-run", "serves down a", "slot list", "slot status",
        "slot switch a --dry-run", "slot switch a", "top --once", "usage", "decisions", "route hello",
        "keys list", "keys create bob", "keys show bob", "keys set bob --set weight=2", "keys disable bob",
        "keys delete bob", "orchestrator list", "client claude-code", "watchdog", "results list", "profile show",
    ],
)  # fmt: skip
def test_a_command_for_the_running_stoker_needs_no_secret(plane: Plane, words: str) -> None:
    done = plane.run(*words.split())
    said = done.stdout + done.stderr
    assert "is not set" not in said
    assert not any(secret in said for secret in (CALLER, ENGINE, OPERATOR))
    assert done.returncode == 0, said


@contextmanager
def key_file(plane: Plane) -> Iterator[None]:
    """The operator's key is where it belongs."""
    elsewhere = plane.directory / "elsewhere"
    elsewhere.rename(plane.directory / "operator.key")
    try:
        yield
    finally:
        (plane.directory / "operator.key").rename(elsewhere)


def test_a_reload_reads_the_secrets_of_the_running_stoker_not_of_the_shell(plane: Plane) -> None:
    with key_file(plane):
        done = plane.run("reload")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dry_run_of_a_container_hides_the_key_that_it_cannot_read(plane: Plane) -> None:
    done = plane.run("serves", "up", "contained", "--dry-run")
    assert "ENGINE_KEY is not set" not in done.stdout + done.stderr


def test_a_start_names_every_secret_that_is_missing(plane: Plane) -> None:
    done = plane.run("up", "--port", "1")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "the environment variable TEAM_KEY is not set or empty" in said
    assert "operator.key does not exist" in said


def test_config_check_warns_of_the_secrets_that_only_the_running_stoker_has(plane: Plane) -> None:
    with key_file(plane):
        done = plane.run("config", "check")
    assert done.returncode == 0
    assert "TEAM_KEY is not set or empty; set it before you start Stoker (the running Stoker has it)" in done.stderr
    assert plane.run("config", "show").returncode == 0


def test_a_file_that_the_running_stoker_would_not_find_either_is_a_problem(plane: Plane) -> None:
    done = plane.run("config", "check")
    assert done.returncode == 2
    assert "operator.key does not exist" in done.stderr


def test_a_command_that_sends_a_key_says_which_variable_to_set(plane: Plane) -> None:
    done = plane.run("eval", "benchmark", "a", "--requests", "1")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "put one with scope `observe` into the variable STOKER_KEY" in said
    assert "make one: export STOKER_KEY=$(stoker keys create NAME --scope observe --" in said
    assert "'operator' (file:operator.key) cannot be read here" in said


# -- reload ------------------------------------------------------------------------------------------------------------


def test_a_reload_names_what_changed_and_a_new_key_counts_at_once() -> None:
    keys = 'keys = [{ name = "team", value = "file:team.key" }]'
    with running(serve("a"), front_door=keys, started=False) as plane:
        key = plane.directory / "team.key"
        key.write_text("1" * 32)
        key.chmod(0o600)
        plane.start()
        key.write_text("2" * 32)
        plane.write(config(serve("a"), front_door=f'{keys}\nallowed_hosts = ["gpu.example"]'))
        done = plane.run("reload")
        assert done.stdout == "setting: front_door.allowed_hosts\nsetting: front_door.keys[team].value\n"
        assert [answered(plane, key) for key in ("1" * 32, "2" * 32)] == [401, 200]
        assert plane.run("reload").stdout == "nothing changed\n"


def test_a_reload_with_another_port_changes_nothing_at_all() -> None:
    with running(serve("a")) as plane:
        plane.write(config(serve("a"), serve("b"), front_door="").replace("PORT", "1"))
        done = plane.run("reload")
        assert done.returncode == 1
        assert "front_door.port takes effect only with a restart: stop Stoker and start it again" in done.stderr
        assert [one["name"] for one in plane.status()["serves"]] == ["a"]
        plane.write(config(serve("a"), serve("b")))
        assert plane.run("reload").stdout == "added: b\n"


def answered(plane: Plane, key: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=30)
    connection.request("GET", "/v1/models", headers={"authorization": f"Bearer {key}"})
    status = connection.getresponse().status
    connection.close()
    return status
