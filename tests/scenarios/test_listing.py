"""How serves appear in lists of models, and what is loaded at the start."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve, until


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    shown = serve("shown", title="The shown one", description="writes code", metadata={"family": "x", "size": 7})
    with running(
        shown.replace('metadata = { "family"', "metadata = { family").replace('"size"', "size"),
        serve("hidden", listed=False, aliases=["secret"], slot="gpu1"),
        slots="[slots.gpu0]\n[slots.gpu1]",
    ) as plane:
        yield plane


@story
async def test_a_list_says_what_the_configuration_says_for_people(plane: Plane) -> None:
    [entry] = [one for one in plane.ask("GET", "/v1/models")[1]["data"] if one["id"] == "shown"]
    assert (entry["display_name"], entry["description"]) == ("The shown one", "writes code")
    assert entry["stoker"]["metadata"] == {"family": "x", "size": 7}


@story
async def test_a_serve_that_is_not_listed_answers_to_all_its_names(plane: Plane) -> None:
    assert "hidden" not in {one["id"] for one in plane.ask("GET", "/v1/models")[1]["data"]}
    assert "hidden" not in {one["name"].split(":")[0] for one in plane.ask("GET", "/api/tags")[1]["models"]}
    for name in ("hidden", "secret"):
        assert plane.ask("GET", f"/v1/models/{name}")[0] == 200
        assert (await ask(plane, name)).status == 200


@story
async def test_a_preloaded_serve_is_loaded_without_a_request_and_may_be_swapped_out() -> None:
    with running(serve("first", preload=True), serve("second")) as plane:
        await until(lambda: plane.serve("first")["state"] == "ready", "it is loaded")
        assert plane.serve("second")["state"] == "stopped"
        assert (await ask(plane, "second")).status == 200
        assert plane.serve("first")["state"] != "ready"


def test_of_two_preloaded_serves_in_a_slot_for_one_the_check_names_the_one_that_is_loaded() -> None:
    with running(serve("first", preload=True), serve("second", preload=True), started=False) as plane:
        done = plane.run("config", "check")
        assert done.returncode == 0
        assert "of those with preload, only 'first' is loaded at the start" in done.stderr


@story
async def test_a_model_name_may_have_blanks_colons_and_slashes() -> None:
    names = ["Qwen Coder 32B", "org/Qwen:32b q4"]
    variant = {"name": "Qwen Coder 32B (thinking)"}
    moved = '[alias."My coder"]\nserve = "b"'
    with running(serve("a", aliases=names, variant=[variant]), serve("b"), moved) as plane:
        for name, meant in (*((name, "a") for name in (*names, variant["name"])), ("My coder", "b")):
            reply = await ask(plane, name)
            assert (reply.status, reply.header("x-stoker-serve")) == (200, meant)
            assert plane.decision(str(reply.header("x-request-id")))["model"] == name
            assert plane.ask("GET", f"/v1/models/{quote(name, safe='')}")[1]["id"] == name
            assert name in {one["id"] for one in plane.ask("GET", "/v1/models")[1]["data"]}
