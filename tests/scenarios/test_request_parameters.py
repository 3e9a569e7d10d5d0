"""What a serve sets in the bodies of its requests: `[serve.request]`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.scenarios.caller import PATHS, ask, document, story
from tests.scenarios.plane import Plane, config, running, serve, until

KWARGS = {"enable_thinking": False}
REQUEST = {
    "set": {"top_p": 0.5, "chat_template_kwargs": KWARGS},
    "default": {"temperature": 0.25, "max_tokens": 7},
    "drop": ["seed"],
}


def sent(plane: Plane, name: str, path: str) -> dict[str, Any]:
    """The body that the engine got last."""
    return dict(json.loads(plane.received(name, path)[-1]["body"]))


@story
async def test_a_serve_sets_defaults_and_drops_parameters_in_the_engines_dialect() -> None:
    only_chat = serve("b", dialects=["chat"], slot="gpu1", request=REQUEST)
    with running(serve("a", request=REQUEST), only_chat, slots="[slots.gpu0]\n[slots.gpu1]") as plane:
        for dialect, path in PATHS.items():
            given = {"seed": 1, "top_p": 1.0, "temperature": None} if dialect != "messages" else {"top_p": 1.0}
            reply = await ask(plane, "a", dialect=dialect, **given)
            assert reply.status == 200, reply.body
            body = sent(plane, "a", path)
            assert (body["top_p"], body["temperature"], body["chat_template_kwargs"]) == (0.5, 0.25, KWARGS)
            assert "seed" not in body
            assert body["max_tokens"] == (10_000 if dialect == "messages" else 7)
            assert "set:top_p" in (reply.header("x-stoker-translation") or "").split(",")

        body = {"model": "a", "input": "x", "top_p": 1}
        assert plane.ask("POST", "/v1/embeddings", body)[0] == 200
        assert sent(plane, "a", "/v1/embeddings")["top_p"] == 0.5

        reply = await ask(plane, "b", dialect="messages")  # translated: the fields are those of chat
        assert reply.status == 200
        body = sent(plane, "b", PATHS["chat"])
        assert (body["top_p"], body["temperature"], body["chat_template_kwargs"]) == (0.5, 0.25, KWARGS)
        changes = (reply.header("x-stoker-translation") or "").split(",")
        assert {"messages>chat", "set:top_p", "default:temperature"} <= set(changes)


@story
async def test_a_reload_changes_the_parameters_of_a_loaded_serve_without_a_restart() -> None:
    with running(serve("a")) as plane:
        await ask(plane, "a", temperature=1)
        assert sent(plane, "a", PATHS["chat"])["temperature"] == 1
        plane.write(config(serve("a", request={"set": {"temperature": 0}})))
        status, answer = plane.admin("reload")
        assert (status, answer["changed"]) == (200, ["a"]), answer
        await ask(plane, "a", temperature=1)
        assert sent(plane, "a", PATHS["chat"])["temperature"] == 0
        assert plane.starts("a") == 1


@pytest.mark.parametrize("drop", ["stream_options", "max_tokens"])
def test_what_stoker_needs_in_the_body_itself_may_be_dropped(drop: str) -> None:
    with running(serve("a", request={"drop": [drop]})) as plane:
        given = document("a", stream=True, stream_options={"include_usage": False}, max_tokens=3)
        assert plane.ask("POST", PATHS["chat"], given)[0] == 200
        assert plane.decisions()[0]["output_tokens"] > 0


BASE = {"default": {"temperature": 0.25, "top_k": 3}, "drop": ["seed"]}
HIGH = {
    "name": "a:high", "title": "A, thinking", "set": {"seed": 4, "reasoning_effort": "high"},
    "default": {"temperature": 0.75},
}  # fmt: skip
HIDDEN = {"name": "org/a:low", "listed": False, "drop": ["top_k"]}


@story
async def test_a_variant_is_the_same_process_under_another_name_with_other_parameters() -> None:
    with running(serve("a", request=BASE, variant=[HIGH, HIDDEN], description="codes")) as plane:
        found = []
        for name in ("a", "a:high", "org/a:low", "a:high", "a"):
            reply = await ask(plane, name, seed=1)
            assert (reply.status, reply.header("x-stoker-serve")) == (200, "a")
            body = sent(plane, "a", PATHS["chat"])
            assert body["model"] == "a"
            fields = ("temperature", "top_k", "seed", "reasoning_effort")
            found.append(tuple(body.get(field) for field in fields))
            assert plane.decision(str(reply.header("x-request-id")))["model"] == name
        base, high = (0.25, 3, None, None), (0.75, 3, 4, "high")
        assert found == [base, high, (0.25, None, None, None), high, base]
        assert plane.starts("a") == 1
        assert [one["swap"] for one in plane.decisions() if one.get("swap")] == []

        listed = {one["id"]: one for one in plane.ask("GET", "/v1/models")[1]["data"]}
        assert list(listed) == ["a", "a:high"]
        high_entry = listed["a:high"]
        assert (high_entry["display_name"], high_entry["description"]) == ("A, thinking", "codes")
        assert high_entry["stoker"]["serve"] == "a"
        assert plane.ask("GET", "/v1/models/org/a:low")[0] == 200

        plane.write(config(serve("a", variant=[{"name": "a:new"}])))
        assert plane.admin("reload")[0] == 200
        assert (await ask(plane, "a:new")).status == 200
        assert (await ask(plane, "a:high")).status == 404
        assert plane.starts("a") == 1


@story
async def test_a_key_for_a_variant_may_use_its_serve_as_with_an_alias() -> None:
    keys = 'keys = [{ name = "k", value = "env:KEY", models = ["a:high"] }]'
    with running(serve("a", variant=[HIGH]), serve("b"), front_door=keys, environment={"KEY": "x" * 32}) as plane:
        bearer = (("authorization", "Bearer " + "x" * 32),)
        assert (await ask(plane, "a:high", headers=bearer)).status == 200
        assert (await ask(plane, "b", headers=bearer)).status == 404


@story
async def test_other_parameters_make_a_tier_another_model_to_be_measured_again() -> None:
    row = {"slot": None, "model": "./weights", "engine": "llama.cpp", "served_name": "a"}
    tier = '[[tier]]\nname = "t"\nserve = "a"'
    with running(serve("a", **row), tier, started=False) as plane:
        (plane.directory / "weights").mkdir()
        for name in ("model.gguf", "chat_template.jinja"):  # so that its fingerprint can be known
            (plane.directory / "weights" / name).write_text(name)
        plane.start()
        assert plane.admin("switch", serve="a")[0] == 200

        def identity() -> str:
            path = plane.state / "fingerprints.json"
            return str(json.loads(path.read_text())["a"]["identity"]) if path.exists() else ""

        await until(identity, "it is identified")
        first = identity()
        plane.write(config(serve("a", **row, request={"set": {"temperature": 1.5}}), tier))
        assert plane.admin("reload")[0] == 200
        await until(lambda: identity() != first, "it is identified again")
        plane.write(config(serve("a", **row, aliases=["x"]), tier))
        assert plane.admin("reload")[0] == 200
        await until(lambda: identity() == first, "it is what it was")
        assert plane.starts("a") == 1
