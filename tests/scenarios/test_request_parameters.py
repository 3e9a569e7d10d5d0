"""What a serve sets in the bodies of its requests: `[serve.request]`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.scenarios.caller import PATHS, ask, document, story
from tests.scenarios.plane import Plane, config, running, serve

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
