"""How serves appear in lists of models, and what is loaded at the start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, config, running, serve, toml, until


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


@story
async def test_an_alias_for_several_serves_means_the_first_or_one_that_is_loaded() -> None:
    aliases = '[alias.any]\nserves = ["a", "b:high"]\npick = "loaded"\n[alias.best]\nserves = ["a", "b"]'
    high = {"name": "b:high", "set": {"top_k": 7}}
    with running(serve("a"), serve("b", variant=[high]), aliases) as plane:

        async def answered_by(name: str) -> str | None:
            reply = await ask(plane, name)
            assert plane.decision(str(reply.header("x-request-id")))["model"] == name
            return reply.header("x-stoker-serve") if reply.status == 200 else reply.json()["error"]["code"]

        assert await answered_by("any") == "a", "nothing is loaded: the first"
        assert await answered_by("b") == "b"
        assert await answered_by("any") == "b", "it is loaded: no swap"
        assert json.loads(plane.received("b", "/v1/chat/completions")[-1]["body"])["top_k"] == 7
        entries = {one["id"]: one["stoker"]["serve"] for one in plane.ask("GET", "/v1/models")[1]["data"]}
        assert entries == {"a": "a", "any": "b", "best": "a", "b": "b", "b:high": "b"}
        rows = {one["alias"]: (one["serve"], one["serves"], one["pick"]) for one in plane.status()["aliases"]}
        assert rows == {"any": ("b", ["a", "b:high"], "loaded"), "best": ("a", ["a", "b"], "first")}
        shown = plane.run("promote").stdout
        assert "b (loaded of a, b:high)" in shown
        assert "a (first of a, b)" in shown
        assert await answered_by("best") == "a", "the first can be used, loaded or not"

        assert plane.admin("drain", serve="a")[0] == 200
        assert await answered_by("best") == "b", "the first is held"
        assert plane.admin("drain", serve="b")[0] == 200
        assert await answered_by("best") == await answered_by("a") == "draining", "none can be used: the first says why"

        status, answer = plane.admin("promote", alias="best", serve="b", force=True, reason="x")
        assert (status, answer["error"]["code"]) == (404, "unknown_alias")
        assert "only the configuration changes it" in answer["error"]["message"]

        moved = aliases.replace('["a", "b"]', '["b", "a"]')
        plane.write(config(serve("a"), serve("b"), moved.replace("b:high", "b")))
        status, answer = plane.admin("reload")
        assert (status, answer["settings"][-2:]) == (200, ["alias.any.serves", "alias.best.serves"]), answer
        assert plane.admin("undrain", serve="b")[0] == 200
        assert await answered_by("best") == "b"


@story
async def test_a_key_may_use_an_alias_for_several_serves_and_so_each_of_them() -> None:
    owners = {"k": ("env:KEY", "best"), "o": ("env:ONE", "b")}
    keys = f"keys = {toml([{'name': k, 'value': v, 'models': [m]} for k, (v, m) in owners.items()])}"
    alias = '[alias.best]\nserves = ["a", "b"]'
    secrets = {"KEY": "x" * 32, "ONE": "y" * 32}
    with running(serve("a"), serve("b"), serve("c"), alias, front_door=keys, environment=secrets) as plane:
        for letter, expected in (("x", "a"), ("y", "b")):
            bearer = (("authorization", "Bearer " + letter * 32),)
            assert (await ask(plane, "best", headers=bearer)).header("x-stoker-serve") == expected
            assert (await ask(plane, "c", headers=bearer)).status == 404


@story
async def test_aliases_may_be_left_out_of_lists_and_are_answered() -> None:
    rows = serve("a", aliases=["one"], variant=[{"name": "a:high"}]), serve("b")
    more = '[alias]\ntwo = "b"\nquick = "auto"\n[alias.any]\nserves = ["a", "b"]\n[[tier]]\nname = "t"\nserve = "b"'
    with running(*rows, more, front_door="list_aliases = false") as plane:

        def listed() -> set[str]:
            tags = {one["name"].removesuffix(":latest") for one in plane.ask("GET", "/api/tags")[1]["models"]}
            found = {one["id"] for one in plane.ask("GET", "/v1/models")[1]["data"]}
            assert found == tags
            return found

        assert listed() == {"a", "a:high", "b", "auto"}
        for name in ("one", "two", "any", "t"):
            assert plane.ask("GET", f"/v1/models/{name}")[0] == 200
            assert (await ask(plane, name)).status == 200
        plane.write(config(*rows, more))
        assert plane.admin("reload")[1]["settings"] == ["front_door.list_aliases"]
        assert listed() == {"a", "a:high", "b", "auto", "one", "two", "quick", "any", "t"}


@story
async def test_a_variant_may_be_the_worker_of_an_orchestrator() -> None:
    high = {"name": "b: high", "set": {"top_k": 7}}
    pair = '[orchestrator.pair]\nworker = "b: high"\ncheck_names = false\npolicy = '
    with running(serve("b", variant=[high]), f'{pair}"block_by_block"') as plane:
        for policy in ("block_by_block", "simple"):
            reply = await ask(plane, "pair", headers=(("x-stoker-policy", policy),))
            assert (reply.status, reply.header("x-stoker-serve")) == (200, "b")
            assert str(reply.header("x-stoker-policy")).startswith(policy)
            assert json.loads(plane.received("b", "/v1/chat/completions")[-1]["body"])["top_k"] == 7
