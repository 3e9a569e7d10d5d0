"""The paths of llama-swap: who uses them, and what they answer (llama-swap v250, internal/server)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.gateway.compat_stage import BOTH, SERVES, CompatStage, compat_story
from tests.gateway.flow_stage import ask

from stoker.domain.access import CompatPaths
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret
from stoker.request.decide.names import Names, ServeStates
from stoker_lab.testing.client import compose_request

KEYS = (
    Key("boss", Secret("k-boss", "env:A"), Scope.ADMIN), Key("eye", Secret("k-eye", "env:B"), Scope.OBSERVE),
    Key("user", Secret("k-user", "env:C")),
)  # fmt: skip
BOSS = {"authorization": "Bearer k-boss"}


@compat_story()
async def test_running_names_the_models_that_run_and_unload_stops_them(stage: CompatStage) -> None:
    assert (await stage.get("/running")).json() == {"running": []}
    await stage.conductor.switch("a")
    (entry,) = (await stage.get("/running")).json()["running"]
    assert entry == {
        "model": "a", "state": "ready", "cmd": "", "proxy": f"http://127.0.0.1:{stage.model_port}",
        "ttl": 0, "name": "Model A", "description": "the first",
    }  # fmt: skip
    reply = await stage.get("/unload")
    assert (reply.status, reply.body) == (200, b"OK")
    assert stage.phase("a") == "stopped"


@compat_story()
async def test_the_states_while_a_model_starts_and_stops_are_those_of_llama_swap(stage: CompatStage) -> None:
    stage.fleet.gates["a"] = asyncio.Event()
    await stage.post("/models/load", {"model": "a"})
    assert (await stage.get("/running")).json()["running"][0]["state"] == "starting"
    stage.fleet.gates["a"].set()
    await stage.until(lambda: stage.phase("a") == "ready")
    client = await stage.client()
    await client.send(ask())
    talk = await stage.asked()
    await stage.post("/models/unload", {"model": "a"})
    assert (await stage.get("/running")).json()["running"][0]["state"] == "stopping"
    talk.reply({"ok": 1})
    assert (await client.reply()).status == 200


@compat_story()
async def test_one_model_is_unloaded_by_its_name_or_by_an_alias_with_a_slash(stage: CompatStage) -> None:
    await stage.conductor.switch("a")
    reply = await stage.post("/api/models/unload/org/alias")
    assert (reply.status, reply.body) == (200, b"OK")
    assert stage.phase("a") == "stopped"
    assert (await stage.post("/api/models/unload")).json() == {"msg": "ok"}
    missing = await stage.post("/api/models/unload/nobody")
    assert (missing.status, missing.json()["error"]["code"]) == (404, "unknown_model")
    external = await stage.post("/api/models/unload/far")
    assert (external.status, external.json()["error"]["code"]) == (404, "external_serve")


@compat_story()
async def test_logs_are_the_last_lines_of_stoker_and_of_the_serves(stage: CompatStage) -> None:
    (stage.logs / "stoker.log").write_text("own\n")
    (stage.logs / "a.log").write_text("engine\n")
    reply = await stage.get("/logs")
    assert (reply.status, reply.body) == (200, b"own\nengine\n")


@compat_story()
async def test_a_log_stream_goes_on_with_what_is_appended(stage: CompatStage) -> None:
    log, own = stage.logs / "a.log", stage.logs / "stoker.log"
    log.write_text("before\n")
    own.write_text("not this one\n")
    client = await stage.client()
    await client.send(compose_request("GET", "/logs/stream/org/alias"))
    pieces = client.pieces(await client.head())
    assert await anext(pieces) == b"before\n"
    with log.open("a") as file:
        file.write("after\n")
    assert await anext(pieces) == b"after\n"
    late = await stage.client()
    await late.send(compose_request("GET", "/logs/stream/a?no-history"))
    following = late.pieces(await late.head())
    with log.open("a") as file:
        file.write("only this\n")
    assert await anext(following) == b"only this\n"


@compat_story()
async def test_log_streams_end_when_stoker_does(stage: CompatStage) -> None:
    client = await stage.client()
    await client.send(compose_request("GET", "/logs/stream"))
    head = await client.head()
    await stage.conductor.shut_down(0)
    assert await client.body(head) == b""


@compat_story()
async def test_so_many_streams_may_be_open_and_one_that_a_client_left_gives_its_place_back(stage: CompatStage) -> None:
    clients = [await stage.client() for _ in range(32)]
    for client in clients:
        await client.send(compose_request("GET", "/logs/stream/proxy"))
        await client.head()
    refused = await stage.get("/logs/stream")
    assert (refused.status, refused.json()["error"]["code"]) == (503, "too_many_streams")
    clients[0].abort()
    while (await stage.get("/logs/stream/nobody")).status != 400:
        pass
    await asyncio.sleep(0.3)  # until the stream looks at its client again
    again = await stage.client()
    await again.send(compose_request("GET", "/logs/stream/proxy"))
    assert (await again.head()).status == 200


@compat_story()
async def test_a_log_that_nobody_has_is_refused_as_llama_swap_does(stage: CompatStage) -> None:
    reply = await stage.get("/logs/stream/nobody")
    assert reply.status == 400
    assert (
        reply.json()["error"]["message"] == "no log is named 'nobody': use 'proxy', 'upstream' or the name of a model"
    )


@compat_story()
async def test_every_path_below_upstream_is_passed_on_also_for_a_name_with_a_slash(stage: CompatStage) -> None:
    client = await stage.client()
    await client.send(compose_request("GET", "/upstream/org/alias/some/page/?x=1"))
    talk = await stage.asked()
    assert talk.head.startswith(b"GET /some/page/?x=1 HTTP/1.1")
    talk.reply(b"<html>")
    assert (await client.reply()).body == b"<html>"
    assert stage.decisions[-1].endpoint == "/upstream/a/*"
    redirect = await stage.get("/upstream/a?x=1")
    assert (redirect.status, redirect.header("location")) == (301, "/upstream/a/?x=1")
    assert (await stage.post("/upstream/a")).status == 308


@compat_story(replace(BOTH, upstream_ignore=(r"\.css$",)))
async def test_a_path_that_is_to_be_ignored_loads_no_model(stage: CompatStage) -> None:
    refused = await stage.get("/upstream/a/style.css")
    assert (refused.status, refused.json()["error"]["code"]) == (409, "not_loaded")
    assert stage.phase("a") == "stopped"
    await stage.conductor.switch("a")
    names = Names(SERVES, states=ServeStates(stage.conductor.residency.is_loaded))
    stage.flow.configure(replace(stage.flow.settings, names=names))
    client = await stage.client()
    await client.send(compose_request("GET", "/upstream/a/style.css"))
    (await stage.asked()).reply(b"p {}")
    assert (await client.reply()).body == b"p {}"


@compat_story(CompatPaths(llama_swap=True, llama_cpp=True))
async def test_unlisted_paths_go_upstream_only_where_the_configuration_says_so(stage: CompatStage) -> None:
    assert (await stage.get("/upstream/a/some/page")).json()["error"]["code"] == "not_listed"
    assert (await stage.get("/upstream/a")).status == 404


@compat_story(CompatPaths(llama_swap=False, llama_cpp=True))
async def test_without_it_only_listed_paths_go_upstream_and_the_others_do_not_exist(stage: CompatStage) -> None:
    assert (await stage.get("/upstream/a/some/page")).json()["error"]["code"] == "not_listed"
    for path in ("/running", "/unload", "/logs", "/logs/stream", "/logs/stream/a"):
        reply = await stage.get(path)
        assert (reply.status, reply.json()["error"]["code"]) == (404, "no_route")
        assert "set llama_swap = true under [compat], then `stoker reload`" in reply.json()["error"]["message"]


@compat_story(keys=KEYS)
async def test_what_acts_needs_scope_admin_and_what_looks_needs_observe(stage: CompatStage) -> None:
    await stage.conductor.switch("a")
    scopes = {"/running": "observe", "/models/sse": "observe", "/unload": "admin", "/logs": "admin"}
    for path, needed in {**scopes, "/logs/stream/a": "admin"}.items():
        reply = await stage.get(path, authorization="Bearer k-user")
        assert (reply.status, reply.json()["error"]["code"]) == (403, "scope"), path
        assert f"needs {needed}" in reply.json()["error"]["message"]
    for path in ("/models/load", "/models/unload", "/api/models/unload", "/api/models/unload/a"):
        assert (await stage.post(path, {"model": "a"}, authorization="Bearer k-eye")).status == 403
    assert stage.phase("a") == "ready"
    assert (await stage.get("/running", authorization="Bearer k-eye")).status == 200
    assert (await stage.get("/upstream/a/page", authorization="Bearer k-eye")).status == 404
    assert (await stage.get("/unload", **BOSS)).body == b"OK"


@compat_story()
async def test_another_sites_page_cannot_unload_by_an_image_or_a_link(stage: CompatStage) -> None:
    await stage.conductor.switch("a")
    reply = await stage.get("/unload", **{"sec-fetch-site": "cross-site"})
    assert reply.status == 403
    assert stage.phase("a") == "ready"


@compat_story(CompatPaths(llama_swap=True, llama_cpp=False))
async def test_health_is_llama_swaps_where_only_llama_swap_is_answered(stage: CompatStage) -> None:
    assert (await stage.get("/health")).body == b"OK"
    assert (await stage.get("/healthz")).json() == {"status": "ok"}


@compat_story()
async def test_health_is_llama_cpps_where_both_are(stage: CompatStage) -> None:
    assert (await stage.get("/health")).json() == {"status": "ok"}


@compat_story()
async def test_paths_of_llama_cpp_reach_any_engine_as_with_llama_swap(stage: CompatStage) -> None:
    for method, path in (("POST", "/completion"), ("POST", "/infill"), ("GET", "/props?model=other")):
        client = await stage.client()
        await client.send(compose_request(method, path, {"model": "other"} if method == "POST" else None))
        talk = await stage.asked()
        assert talk.head.startswith(f"{method} {path} ".encode())
        talk.reply({"ok": 1})
        assert (await client.reply()).status == 200
