"""How often a validator is wrong is measured through the front door, and the check of the configuration knows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.plane import Plane, running, serve

VALIDATED = '[orchestrator.{name}]\nworker = "works"\nvalidator = "{validator}"\n'
ALONE = '[orchestrator.alone]\nworker = "works"\n'


def coder(name: str, directory: Path, **script: object) -> str:
    path = directory / f"{name}.json"
    path.write_text(json.dumps(script))
    command = [
        sys.executable,
        "-m",
        "stoker_lab.testing.coder",
        "--port",
        "{port}",
        "--id",
        name,
        "--script",
        str(path),
    ]
    return serve(name, cmd=command, slot=None, dialects=["chat"])


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    here = tmp_path_factory.mktemp("coders")
    perfect = ["[PASS]", "[FAIL: it is wrong]"] * 60
    with running(
        coder("works", here),
        coder("perfect", here, verdicts=perfect),
        coder("asleep", here, verdicts=["I am not sure."] * 120),
        coder("yes", here),
        *(VALIDATED.format(name=f"with-{name}", validator=name) for name in ("perfect", "asleep", "yes")),
        ALONE,
    ) as plane:
        yield plane


def measured(plane: Plane, name: str) -> Any:
    done = plane.run("eval", "validator", name, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def warnings(plane: Plane) -> list[str]:
    done = plane.run("config", "check", "--json")
    return [one for one in json.loads(done.stdout)["warnings"] if "validator" in one]


def test_a_validator_is_measured_once_and_the_configuration_check_knows(plane: Plane) -> None:
    assert [one.split("'")[1] for one in warnings(plane) if "nobody measured" in one] == [
        "with-perfect", "with-asleep", "with-yes",
    ]  # fmt: skip
    found = {name: measured(plane, name) for name in ("with-perfect", "asleep", "yes")}
    rates = {name: (one["false_alarms"]["rate"], one["misses"]["rate"]) for name, one in found.items()}
    assert rates == {"with-perfect": (0.0, 0.0), "asleep": (1.0, 0.0), "yes": (0.0, 1.0)}
    assert [one["better_than_chance"] for one in found.values()] == [True, False, False]
    assert measured(plane, "perfect")["misses"]["rate"] == 0.0, "nothing is asked twice: it has no verdicts left"
    left = warnings(plane)
    assert [one.split("'")[1] for one in left] == ["with-asleep", "with-yes"]
    assert all("is decoration" in one for one in left)


def test_rates_of_another_model_than_the_configured_one_do_not_count(tmp_path: Path) -> None:
    perfect = ["[PASS]", "[FAIL: it is wrong]"] * 60
    pair = VALIDATED.format(name="pair", validator="judge")
    tables = (coder("works", tmp_path), coder("judge", tmp_path, verdicts=perfect), pair)
    with running(*tables) as plane:
        assert measured(plane, "pair")["better_than_chance"]
        assert warnings(plane) == []
        before = plane.config.read_text()
        plane.config.write_text(before.replace('"--id", "judge"', '"--id", "another"'))
        assert plane.config.read_text() != before
        assert [one for one in warnings(plane) if "another model when it was measured" in one]
        plane.config.write_text(before)
        assert warnings(plane) == []


def test_who_has_no_validator_cannot_be_measured(plane: Plane) -> None:
    done = plane.run("eval", "validator", "alone")
    assert done.returncode == 2
    assert "orchestrator 'alone' has no validator" in done.stderr


def test_a_judge_that_does_not_exist_is_said_before_anything_else(plane: Plane) -> None:
    done = plane.run("eval", "validator", "nobody", "--class", "chat")
    assert (done.returncode, "there is no serve 'nobody'" in done.stderr) == (2, True), done.stderr
