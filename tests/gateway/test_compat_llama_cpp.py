"""The paths of llama.cpp's router, called as its own web page and Open WebUI call them."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.gateway.compat_stage import CompatStage, compat_story

from stoker.domain.access import CompatPaths
from stoker_lab.testing.client import compose_request


def loaded_in_open_webui(entry: dict[str, Any]) -> bool | None:
    """What Open WebUI shows for a model of a connection of type llama.cpp: whether it is loaded.

    Source: open_webui/routers/openai.py at 0a7c158, which takes a model without a status for a loaded one.
    """
    if "status" not in entry:
        return True
    value = entry["status"]["value"]
    return True if value in ("loaded", "sleeping") else False if value in ("loading", "unloaded") else None


async def listed(stage: CompatStage, path: str = "/v1/models") -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in (await stage.get(path)).json()["data"]}


@compat_story()
async def test_open_webui_lists_loads_and_unloads(stage: CompatStage) -> None:
    """It lists `{base}/models`, where the base ends with /v1, and sends the rest to the base without /v1."""
    assert loaded_in_open_webui((await listed(stage))["a"]) is False
    loaded = await stage.post("/models/load", {"model": "a"})
    assert (loaded.status, loaded.json()) == (200, {"success": True})
    await stage.until(lambda: stage.phase("a") == "ready")
    models = await listed(stage)
    assert (loaded_in_open_webui(models["a"]), loaded_in_open_webui(models["b"])) == (True, False)
    assert loaded_in_open_webui(models["org/alias"]) is True
    unloaded = await stage.post("/models/unload", {"model": "a"})
    assert (unloaded.status, unloaded.json()) == (200, {"success": True})
    await stage.until(lambda: stage.phase("a") == "stopped")
    assert loaded_in_open_webui((await listed(stage))["a"]) is False


@compat_story()
async def test_the_web_page_of_llama_cpp_is_answered_before_the_model_is_there(stage: CompatStage) -> None:
    """Source: tools/ui/src/lib/services/models.service.ts, which then asks for the list until the status changes."""
    stage.fleet.gates["a"] = asyncio.Event()
    assert (await stage.post("/models/load", {"model": "a", "extra_args": ["-c", "1"]})).json() == {"success": True}
    entry = (await listed(stage, "/models"))["a"]
    assert entry["status"] == {"value": "loading", "args": []}
    assert entry["architecture"] == {"input_modalities": ["text"], "output_modalities": ["text"]}
    stage.fleet.gates["a"].set()
    await stage.until(lambda: stage.phase("a") == "ready")
    assert (await listed(stage, "/models"))["a"]["status"]["value"] == "loaded"


@compat_story()
async def test_what_cannot_be_done_is_refused_in_the_words_of_llama_cpp(stage: CompatStage) -> None:
    """Source: tools/server/server-models.cpp, post_router_models_load and post_router_models_unload."""
    stopped = await stage.post("/models/unload", {"model": "a"})
    assert (stopped.status, stopped.json()["error"]["message"]) == (400, "model is not running")
    await stage.conductor.switch("a")
    running = await stage.post("/models/load", {"model": "a"})
    assert (running.status, running.json()["error"]["message"]) == (400, "model is already running")
    assert (await stage.post("/models/load", {"model": "nobody"})).status == 404
    assert (await stage.post("/models/unload", {"model": "far"})).json()["error"]["code"] == "external_serve"
    for body in ({}, {"model": 1}, [], "x"):
        refused = await stage.post("/models/load", body or {"other": 1})
        assert (refused.status, refused.json()["error"]["code"]) == (400, "bad_json")


@compat_story()
async def test_a_load_that_fails_says_so_at_once_or_in_the_status(stage: CompatStage) -> None:
    stage.fleet.broken["a"] = "out of memory"
    refused = await stage.post("/models/load", {"model": "a"})
    assert refused.status == 503
    assert "out of memory" in refused.json()["error"]["message"]
    assert (await listed(stage))["a"]["status"] == {"value": "unloaded", "args": [], "failed": True, "exit_code": 1}


@compat_story()
async def test_events_tell_each_change_of_a_models_status(stage: CompatStage) -> None:
    """Source: tools/server/server-models.cpp, notify_sse and update_status."""
    client = await stage.client()
    await client.send(compose_request("GET", "/models/sse"))
    head = await client.head()
    assert head.header("content-type") == "text/event-stream"
    events = client.events(head)
    stage.fleet.gates["a"] = asyncio.Event()
    stage.fleet.percents["a"] = 40
    assert (await stage.post("/models/load", {"model": "a"})).status == 200
    progress = {"stages": ["text_model"], "current": "text_model", "value": 0.4}
    assert (await anext(events)).json() == {
        "model": "a", "event": "status_change", "data": {"status": "loading", "progress": progress},
    }  # fmt: skip
    stage.fleet.gates["a"].set()
    assert (await anext(events)).json() == {"model": "a", "event": "status_change", "data": {"status": "loaded"}}
    await stage.conductor.unload("a")
    ended = {"status": "unloaded", "exit_code": 0}
    assert (await anext(events)).json() == {"model": "a", "event": "status_change", "data": ended}


@compat_story()
async def test_props_without_a_model_say_that_this_is_a_router(stage: CompatStage) -> None:
    """Source: tools/ui/src/lib/services/props.service.ts; by `role` the page shows load and unload."""
    props = (await stage.get("/props?autoload=false")).json()
    assert (props["role"], props["models_autoload"]) == ("router", True)


@compat_story()
async def test_props_of_a_model_are_its_engines_and_load_it_unless_that_is_declined(stage: CompatStage) -> None:
    declined = await stage.get("/props?model=a&autoload=false")
    assert (declined.status, declined.json()["error"]["message"]) == (400, "model is not loaded")
    assert stage.phase("a") == "stopped"
    client = await stage.client()
    await client.send(compose_request("GET", "/props?model=org%2Falias"))
    talk = await stage.asked()
    assert talk.head.startswith(b"GET /props?")
    talk.reply(b'{"n_ctx":1}')
    assert (await client.reply()).json() == {"n_ctx": 1}


@compat_story()
async def test_completion_and_infill_reach_the_engine_that_their_model_names(stage: CompatStage) -> None:
    for path in ("/completion", "/infill"):
        client = await stage.client()
        await client.send(compose_request("POST", path, {"model": "org/alias", "prompt": "x"}))
        talk = await stage.asked()
        assert talk.head.startswith(f"POST {path} ".encode())
        assert talk.json()["prompt"] == "x"
        talk.reply(b'{"content":"y"}')
        assert (await client.reply()).json() == {"content": "y"}
        assert (await stage.post(path, {"prompt": "x"})).json()["error"]["code"] == "bad_json"


@compat_story(CompatPaths(llama_swap=False, llama_cpp=False))
async def test_switched_off_the_lists_are_as_before_and_the_paths_do_not_exist(stage: CompatStage) -> None:
    assert "status" not in (await listed(stage))["a"]
    for path in ("/models", "/models/sse", "/props"):
        assert (await stage.get(path)).json()["error"]["code"] == "no_route"
    for path in ("/models/load", "/models/unload", "/infill", "/completion"):
        assert (await stage.post(path, {"model": "a"})).json()["error"]["code"] == "no_route"
    assert stage.phase("a") == "stopped"


@compat_story(CompatPaths(llama_swap=False, llama_cpp=True))
async def test_an_engine_that_is_not_llama_cpp_does_not_get_its_paths(stage: CompatStage) -> None:
    for path in ("/completion", "/infill"):
        assert (await stage.post(path, {"model": "far"})).json()["error"]["code"] == "not_listed"
    assert (await stage.get("/props?model=far")).json()["error"]["code"] == "not_listed"
