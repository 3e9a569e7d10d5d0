"""The imitations of vLLM and SGLang have the originals' paths, and their traps."""

from __future__ import annotations

from typing import Any

import pytest

from stoker_lab.testing.client import RawClient, compose_request
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

ASK = {"prompt": "One, two", "max_tokens": 2}


async def call(server: ScriptedServer, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with RawClient(server.port) as client:
        reply = await client.ask(method, path, body)
        return reply.status, reply.json() if reply.body else None


async def song(server: ScriptedServer) -> str | int:
    status, reply = await call(server, "POST", "/v1/completions", ASK)
    return str(reply["choices"][0]["text"]) if status == 200 else status


@pytest.mark.parametrize(
    ("engine", "prefix", "others"),
    [("vllm", b"vllm:num_requests_running{", "/props"), ("sglang", b"sglang:num_running_reqs{", "/is_sleeping")],
)
async def test_each_engine_lists_its_model_and_counts_in_its_own_way(engine: str, prefix: bytes, others: str) -> None:
    async with ScriptedServer(Script(engine=engine, id="big", context=512)) as server:
        _, models = await call(server, "GET", "/v1/models")
        assert models["data"][0] | {"created": 0} == {
            "id": "big", "object": "model", "created": 0, "owned_by": engine, "max_model_len": 512,
        }  # fmt: skip
        async with RawClient(server.port) as client:
            text = (await client.ask("GET", "/metrics")).body
        assert prefix in text
        assert b"llamacpp" not in text
        assert (await call(server, "GET", others))[0] == 404


async def test_metrics_go_missing_and_are_renamed_on_command() -> None:
    script = Script(
        engine="vllm", hide_metrics="vllm:num_requests_running,vllm:nothing",
        rename_metrics="vllm:kv_cache_usage_perc=vllm:gpu_cache_usage_perc",
    )  # fmt: skip
    async with ScriptedServer(script) as server, RawClient(server.port) as client:
        text = (await client.ask("GET", "/metrics")).body
        assert b"vllm:num_requests_running" not in text
        assert b"vllm:num_requests_waiting{" in text
        assert b'\nvllm:gpu_cache_usage_perc{engine="0",model_name="scripted"} 0.0\n' in text
        assert b"vllm:kv_cache_usage_perc" not in text


@pytest.mark.parametrize(("engine", "open_path"), [("vllm", "/metrics"), ("sglang", "/metrics"), ("vllm", "/version")])
async def test_each_engine_guards_what_the_original_guards(engine: str, open_path: str) -> None:
    async with ScriptedServer(Script(engine=engine, api_key="sesame")) as server:
        assert (await call(server, "GET", "/v1/models"))[0] == 401
        async with RawClient(server.port) as client:
            assert (await client.ask("GET", open_path)).status == 200
    async with ScriptedServer(Script(engine="sglang", api_key="sesame")) as server:
        assert (await call(server, "POST", "/release_memory_occupation", {}))[0] == 401


async def test_a_vllm_that_slept_lightly_sings_the_same_song() -> None:
    async with ScriptedServer(Script(engine="vllm", memory_mb=3)) as server:
        before = await song(server)
        assert (await call(server, "POST", "/sleep?level=1", {}))[0] == 200
        assert (await call(server, "GET", "/is_sleeping"))[1] == {"is_sleeping": True}
        assert server.ballast.megabytes == 0
        assert await song(server) == 503
        assert (await call(server, "POST", "/wake_up", {}))[0] == 200
        assert server.ballast.megabytes == 3
        assert await song(server) == before


async def test_a_vllm_woken_from_level_2_without_its_weights_sings_gibberish() -> None:
    async with ScriptedServer(Script(engine="vllm")) as server:
        before = await song(server)
        await call(server, "POST", "/sleep?level=2", {})
        await call(server, "POST", "/wake_up", {})
        assert await song(server) not in (before, 503)
        reload = {"method": "reload_weights"}
        await call(server, "POST", "/collective_rpc", reload)
        assert await song(server) == before
        await call(server, "POST", "/sleep?level=2", {})
        assert (await call(server, "POST", "/collective_rpc", reload))[0] == 500, "the weights have no memory yet"
        await call(server, "POST", "/wake_up?tags=weights", {})
        assert (await call(server, "GET", "/is_sleeping"))[1] == {"is_sleeping": True}
        await call(server, "POST", "/collective_rpc", reload)
        await call(server, "POST", "/wake_up?tags=kv_cache", {})
        assert await song(server) == before


async def test_a_sleep_may_free_nothing_and_a_wake_may_bring_back_gibberish() -> None:
    async with ScriptedServer(Script(engine="vllm", memory_mb=3, sleep_frees=False, wake_restores=False)) as server:
        before = await song(server)
        assert (await call(server, "POST", "/sleep?level=1", {}))[0] == 200
        assert server.ballast.megabytes == 3
        await call(server, "POST", "/wake_up", {})
        assert await song(server) not in (before, 503)


async def test_an_engine_without_the_verbs_says_404() -> None:
    for engine, path in (("vllm", "/sleep?level=1"), ("sglang", "/release_memory_occupation")):
        async with ScriptedServer(Script(engine=engine, can_sleep=False)) as server:
            assert (await call(server, "POST", path, {}))[0] == 404


async def test_sglang_releases_its_memory_only_while_it_is_idle() -> None:
    async with ScriptedServer(Script(engine="sglang", memory_mb=3, stall_after=-1)) as server:
        async with RawClient(server.port) as client:
            await client.send(compose_request("POST", "/v1/completions", ASK))
            await server.until(lambda counters: counters.in_flight == 1)
            assert (await call(server, "GET", "/health"))[0] == 200, "healthy, while requests hang"
            assert (await call(server, "POST", "/release_memory_occupation", {}))[0] == 500
            assert (await call(server, "POST", "/abort_request", {"abort_all": True}))[0] == 200
            assert await client.read() == b"", "it ends without an answer"
        assert (await call(server, "POST", "/release_memory_occupation", {}))[0] == 200
        assert server.ballast.megabytes == 0
        assert (await call(server, "POST", "/resume_memory_occupation", {"tags": ["weights", "kv_cache"]}))[0] == 200
        assert server.ballast.megabytes == 3


async def test_both_count_tokens_of_texts_and_of_messages() -> None:
    for engine in ("vllm", "sglang"):
        async with ScriptedServer(Script(engine=engine, context=99)) as server:
            _, found = await call(server, "POST", "/tokenize", {"messages": [{"role": "user", "content": "a b c"}]})
            assert (found["count"], found["max_model_len"]) == (3, 99)
            assert (await call(server, "POST", "/tokenize", {"prompt": "a b"}))[1]["count"] == 2
            assert (await call(server, "POST", "/v1/chat/completions/input_tokens", {"messages": []}))[0] == 404
            _, found = await call(server, "POST", "/v1/messages/count_tokens", {"messages": [{"content": "a b c"}]})
            assert found == {"input_tokens": 3}


async def test_sglang_tells_about_itself_under_both_spellings() -> None:
    async with ScriptedServer(Script(engine="sglang", id="big", context=99)) as server:
        for path in ("/server_info", "/get_server_info"):
            assert (await call(server, "GET", path))[1]["context_length"] == 99
        assert (await call(server, "GET", "/model_info"))[1]["model_path"] == "big"


async def test_a_path_is_absent_on_command() -> None:
    async with ScriptedServer(Script(absent="/health,/v1/models")) as server:
        assert [(await call(server, "GET", path))[0] for path in ("/health", "/v1/models", "/props")] == [404, 404, 200]
