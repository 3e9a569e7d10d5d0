"""What a person does before a model takes traffic: real processes, the real command line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, llama, running


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(llama("ember", "ember", context=2048, parallel=4)) as plane:
        yield plane


@pytest.mark.llama
@story
async def test_preflight_through_the_front_door_passes_and_is_kept(plane: Plane) -> None:
    """Named by its serve; the first run finds it down and says how to start it."""
    gates = "model,prompt-tokens,template,echo,tool-single,json-schema,cancel"
    command = ("eval", "preflight", "ember", "--only", gates)
    down = plane.run(*command)
    if down.returncode == 2:
        assert "start it: stoker serves up ember" in down.stderr
    assert (await ask(plane, "ember", "Who are you?", temperature=0)).status == 200
    done = plane.run(*command, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(done.stdout)
    assert {one["name"]: one["outcome"] for one in run["findings"]} == dict.fromkeys(gates.split(","), "passed")
    assert run["subject"]["route"] == "front-door"
    assert (plane.state / "results" / f"{run['id']}.json").exists()
