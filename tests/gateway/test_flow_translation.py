"""A request whose serve speaks another dialect: written for it on the way there, and for the client on the way back.

The codecs have tests of their own (tests/request/translate); these hold what the way of a request adds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, a_serve, delta, story

from stoker.domain.access import ListenSettings, Media
from stoker.domain.dialect import Dialect
from stoker.domain.serve import Translation
from stoker.request.relay import public_fetcher as site
from stoker.request.relay.image_fetcher import ImageFetcher
from stoker_lab.testing.client import RawClient, SseEvent, compose_request

MESSAGES = "/v1/messages"
CHAT_ONLY = a_serve(dialects=frozenset((Dialect.CHAT,)))
MESSAGES_ONLY = a_serve(dialects=frozenset((Dialect.MESSAGES,)))
RESPONSES_ONLY = a_serve(dialects=frozenset((Dialect.RESPONSES,)))
WHOLE = {
    "id": "chatcmpl-1",
    "model": "engine",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
}


def messages(**fields: Any) -> bytes:
    document = {"model": "a", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], **fields}
    return compose_request(
        "POST", MESSAGES, document, (("anthropic-version", "2023-06-01"), ("x-stainless-lang", "python"))
    )


async def told(client: RawClient) -> list[SseEvent]:
    head = await client.head()
    assert head.status == 200
    return [event async for event in client.events(head)]


@story(CHAT_ONLY)
async def test_a_messages_request_reaches_a_chat_serve_as_chat_and_its_answer_comes_back_as_a_message(
    stage: Stage,
) -> None:
    client = await stage.client()
    await client.send(messages(system="be brief", thinking={"type": "disabled"}, top_k=3))
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/chat/completions ")
    assert (talk.header("anthropic-version"), talk.header("x-stainless-lang")) == (None, None)
    assert talk.json()["model"] == "engine"
    assert talk.json()["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
    ]
    talk.reply(WHOLE)
    reply = await client.reply()
    assert reply.json()["content"] == [{"type": "text", "text": "hello"}]
    assert (reply.json()["usage"]["input_tokens"], reply.json()["usage"]["cache_read_input_tokens"]) == (5, 4)
    assert reply.header("x-stoker-translation") == "messages>chat,model"
    decision = await stage.sealed()
    assert (decision.input_tokens, decision.cached_tokens, decision.output_tokens) == (9, 4, 2)
    assert decision.translation == "messages>chat,model"


@story(MESSAGES_ONLY)
async def test_a_chat_request_reaches_a_messages_serve_with_its_version_and_a_limit(stage: Stage) -> None:
    client = await stage.client()
    await client.send(
        compose_request("POST", "/v1/chat/completions", {"model": "a", "messages": [], "logit_bias": {"1": 2}})
    )
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/messages ")
    assert (talk.header("anthropic-version"), talk.json()["max_tokens"]) == ("2023-06-01", 4096)
    talk.reply({"id": "msg_1", "model": "engine", "content": [{"type": "text", "text": "x"}], "stop_reason": "refusal",
                "stop_details": {"type": "refusal"}, "usage": {"input_tokens": 3, "output_tokens": 1}})  # fmt: skip
    reply = await client.reply()
    assert reply.json()["choices"][0]["finish_reason"] == "content_filter"
    assert reply.header("x-stoker-translation") == "chat>messages,lossy:logit_bias,model,lossy:stop_details"
    assert (await stage.sealed()).translation == reply.header("x-stoker-translation")


@story(CHAT_ONLY)
async def test_a_stream_is_translated_event_by_event(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages(stream=True))
    talk = await stage.asked()
    assert talk.json()["stream_options"] == {"include_usage": True}
    talk.begin()
    talk.say("he")
    talk.say("llo")
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    talk.chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n')
    talk.chunk(b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(usage).encode())
    talk.send(b"0\r\n\r\n")
    events = await told(client)
    assert [event.name for event in events] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert events[-2].json()["delta"]["stop_reason"] == "max_tokens"
    assert events[-2].json()["usage"]["input_tokens"] == 3
    assert (await stage.sealed()).output_tokens == 2


@story(CHAT_ONLY)
async def test_the_200_is_held_until_something_is_said_so_that_a_failure_before_has_its_status(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages(stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.chunk(b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n')
    talk.chunk(b'data: {"error":{"code":500,"message":"secret prompt"}}\n\n')
    reply = await client.reply()
    assert (reply.status, reply.json()["type"], reply.json()["error"]["type"]) == (502, "error", "api_error")
    assert reply.json()["error"]["source"] == "upstream"


@story(CHAT_ONLY)
async def test_a_stream_that_breaks_off_ends_with_one_error_event_of_the_client(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages(stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.say("he")
    await stage.until(lambda: stage.flow.load_of("a")[1] > 0)
    talk.close()
    events = await told(client)
    assert [event.name for event in events].count("error") == 1
    assert events[-1].name == "error"
    assert "message_stop" not in [event.name for event in events]
    assert (await stage.sealed()).reason == "upstream_broke"


@story(CHAT_ONLY)
async def test_a_client_that_hangs_up_at_the_end_it_was_told_was_served(stage: Stage) -> None:
    """Codex does so at `response.completed`, before the serve has closed its stream."""
    client = await stage.client()
    await client.send(compose_request("POST", "/v1/responses", {"model": "a", "input": "hi", "stream": True}))
    talk = await stage.asked()
    talk.begin()
    talk.say("he")
    talk.chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    head = await client.head()
    async for event in client.events(head):
        if event.name == "response.completed":
            break
    await client.close()
    assert (await stage.sealed()).outcome == "served"


@story(CHAT_ONLY)
async def test_an_error_event_of_a_responses_stream_has_the_next_number(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("POST", "/v1/responses", {"model": "a", "input": "hi", "stream": True}))
    talk = await stage.asked()
    talk.begin()
    talk.say("he")
    await stage.until(lambda: stage.flow.load_of("a")[1] > 0)
    talk.close()
    events = [event.json() for event in await told(client)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]


@story(RESPONSES_ONLY)
async def test_so_has_one_of_a_stream_that_passes_through(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("POST", "/v1/responses", {"model": "a", "input": "hi", "stream": True}))
    talk = await stage.asked()
    talk.begin()
    event = {"type": "response.output_text.delta", "delta": "x", "sequence_number": 7}
    talk.chunk(b"event: response.output_text.delta\ndata: %b\n\n" % json.dumps(event).encode())
    await stage.until(lambda: stage.flow.load_of("a")[1] > 0)
    talk.close()
    assert [event.json()["sequence_number"] for event in (await told(client))[-2:]] == [8, 9]


@story(CHAT_ONLY)
async def test_a_refusal_of_the_serve_keeps_its_words_in_the_clients_dialect(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages())
    talk = await stage.asked()
    talk.reply({"error": {"message": "too long", "code": "context_length_exceeded"}}, "400 Bad Request")
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert reply.json()["error"]["message"] == "prompt is too long: too long"
    assert reply.json()["error"]["code"] == "context_length_exceeded"
    assert reply.header("x-should-retry") == "false"


async def failed(stage: Stage, status: str, *headers: str) -> tuple[int, str | None, str | None]:
    """How a request fails that the serve answers with this status: the status, whether to try again, and when."""
    client = await stage.client()
    await client.send(messages())
    talk = await stage.asked()
    talk.reply({"error": {"message": "boom"}}, status, *headers)
    reply = await client.reply()
    return reply.status, reply.header("x-should-retry"), reply.header("retry-after")


@story(MESSAGES_ONLY)
async def test_a_failing_serve_may_be_asked_again_and_soon_as_it_says(stage: Stage) -> None:
    """Claude Code ends its run at an error that says that a retry is of no use."""
    assert await failed(stage, "500 Internal Server Error") == (502, "true", None)
    assert await failed(stage, "500 Internal Server Error", "retry-after: 7") == (502, "true", "7")
    assert await failed(stage, "401 Unauthorized") == (502, "false", None)


@story(CHAT_ONLY)
async def test_so_may_one_that_refuses_for_now(stage: Stage) -> None:
    assert await failed(stage, "408 Request Timeout") == (408, "true", None)
    assert await failed(stage, "409 Conflict", "retry-after: 3") == (409, "true", "3")
    assert await failed(stage, "402 Payment Required") == (402, "false", None)


@story(a_serve(dialects=frozenset((Dialect.CHAT,)), translation=Translation(strict=True)))
async def test_a_strict_serve_refuses_what_would_be_lost_and_is_not_asked(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages(tools=[{"type": "web_search_20250305", "name": "web_search"}]))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (400, "would_lose")
    assert "server_tools" in reply.json()["error"]["message"]
    assert stage.lines == []
    assert [(c.serve, c.dropped) for c in (await stage.sealed()).candidates] == [("a", "would_lose")]


@story(a_serve(dialects=frozenset((Dialect.CHAT, Dialect.MESSAGES)), translation=Translation(always=frozenset(
    (Dialect.MESSAGES,)))))  # fmt: skip
async def test_a_dialect_that_the_serve_speaks_badly_is_translated_by_configuration(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages())
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/chat/completions ")
    talk.reply(WHOLE)
    assert (await client.reply()).json()["type"] == "message"


@story()
async def test_what_passes_through_to_a_local_model_is_without_the_billing_block(stage: Stage) -> None:
    client = await stage.client()
    system = [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"}, {"type": "text", "text": "be  brief"}]
    await client.send(messages(system=system))
    talk = await stage.asked()
    assert talk.json()["system"] == system[1:]
    talk.reply({"content": [], "usage": {}})
    reply = await client.reply()
    assert reply.header("x-stoker-translation") == "dropped:billing_header,model"


@story()
async def test_the_address_of_an_image_is_refused_for_a_local_model(stage: Stage) -> None:
    client = await stage.client()
    part = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}}
    body = {"model": "a", "messages": [{"role": "user", "content": [part]}]}
    await client.send(compose_request("POST", "/v1/chat/completions", body))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (400, "image_url_refused")
    text = reply.json()["error"]["message"]
    assert "send the content itself, as a data: URL (data:image/png;base64,...)" in text, "what the client can do"
    assert "the operator can allow it with `fetch = true` in [media] of the configuration" in text
    assert "169.254" not in text
    assert stage.lines == []


async def _pictures(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A site with one picture, and one that never comes."""
    with contextlib.suppress(asyncio.IncompleteReadError):  # who leaves at once has asked for nothing
        if b"/never" in await reader.readuntil(b"\r\n\r\n"):
            await reader.read()
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n\x89PNG\r\n\x1a\n" + bytes(40))
    writer.close()


def looking_at(url: str) -> bytes:
    part = {"type": "image_url", "image_url": {"url": url}}
    return compose_request(
        "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": [part]}], "model": "a"}
    )


@story()
async def test_where_it_is_allowed_an_image_is_fetched_before_the_lease_and_put_in_its_addresss_place(
    stage: Stage,
) -> None:
    server = await asyncio.start_server(_pictures, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "PORTS", {*site.PORTS, port})
        image_fetcher = ImageFetcher(Media(fetch=True), is_allowed_address=lambda address: True)
        stage.flow.configure(replace(stage.flow.settings, image_fetcher=image_fetcher))
        client = await stage.client()
        await client.send(looking_at(f"http://127.0.0.1:{port}/"))
        talk = await stage.asked()
        assert talk.json()["model"] == "engine"
        assert talk.json()["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
        talk.reply({"ok": 1})
        assert (await client.reply()).status == 200
        leaver = await stage.client()
        await leaver.send(looking_at(f"http://127.0.0.1:{port}/never"))
        await stage.until(lambda: any(call.subtask for call in stage.flow.active.values()), "it is fetched")
        await leaver.close()
        await stage.until(lambda: len(stage.decisions) == 2)
        assert stage.decisions[-1].outcome == "client_left"
    server.close()


@story()
async def test_an_address_inside_is_refused_also_where_fetching_is_allowed(stage: Stage) -> None:
    stage.flow.configure(replace(stage.flow.settings, image_fetcher=ImageFetcher(Media(fetch=True))))
    client = await stage.client()
    await client.send(looking_at("http://10.0.0.1/latest/meta-data"))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (400, "image_url_refused")
    assert [(c.serve, c.dropped) for c in (await stage.sealed()).candidates] == [("a", "image_url_refused")]


# -- counting ----------------------------------------------------------------------------------------------------------


@story(CHAT_ONLY)
async def test_tokens_are_counted_by_the_engines_own_counter(stage: Stage) -> None:
    client = await stage.client()
    body = {"model": "a", "messages": [{"role": "user", "content": "hi"}]}
    await client.send(compose_request("POST", MESSAGES + "/count_tokens", body))
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/chat/completions/input_tokens ")
    talk.reply({"input_tokens": 12})
    reply = await client.reply()
    assert (reply.json(), reply.header("x-stoker-token-count")) == ({"input_tokens": 12}, "engine")


@story(CHAT_ONLY)
async def test_without_a_counter_they_are_counted_by_one_token_of_answer(stage: Stage) -> None:
    client = await stage.client()
    body = {"model": "a", "messages": [{"role": "user", "content": "hi"}]}
    await client.send(compose_request("POST", MESSAGES + "/count_tokens", body))
    for _ in range(2):
        (await stage.asked()).reply({}, "404 Not Found")
    talk = await stage.asked()
    assert (talk.json()["max_tokens"], talk.json().get("stream")) == (1, None)
    talk.reply(WHOLE)
    reply = await client.reply()
    assert (reply.json(), reply.header("x-stoker-token-count")) == ({"input_tokens": 9}, "generation")


@story(CHAT_ONLY)
async def test_what_nobody_counts_is_no_number(stage: Stage) -> None:
    client = await stage.client()
    body = {"model": "a", "messages": [{"role": "user", "content": "hi"}]}
    await client.send(compose_request("POST", MESSAGES + "/count_tokens", body))
    for _ in range(2):
        (await stage.asked()).reply({}, "404 Not Found")
    (await stage.asked()).reply({})
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (501, "not_counted")


# -- Ollama ------------------------------------------------------------------------------------------------------------


@story(CHAT_ONLY)
async def test_an_ollama_client_streams_unasked_in_lines_of_json(stage: Stage) -> None:
    client = await stage.client()
    await client.send(
        compose_request("POST", "/api/chat", {"model": "a", "messages": [{"role": "user", "content": "hi"}]})
    )
    talk = await stage.asked()
    assert talk.json()["stream"] is True
    talk.begin()
    talk.chunk(delta("hel"))
    talk.end()
    reply = await client.reply()
    assert reply.header("content-type") == "application/x-ndjson"
    lines = [json.loads(line) for line in reply.body.splitlines()]
    assert [line["done"] for line in lines] == [False, True]
    assert lines[0]["message"]["content"] == "hel"


@story(CHAT_ONLY)
async def test_an_ollama_request_without_messages_loads_the_model_and_says_so(stage: Stage) -> None:
    client = await stage.client()
    reply = await client.ask("POST", "/api/generate", {"model": "a"})
    assert (reply.status, reply.json()["done_reason"]) == (200, "load")
    assert stage.lines == []
    assert stage.fleet.journal == ["start a", "ready a"]


@story(CHAT_ONLY, ollama_api="refuse")
async def test_where_the_older_api_is_refused_the_answer_says_what_to_use(stage: Stage) -> None:
    client = await stage.client()
    reply = await client.ask("POST", "/api/chat", {"model": "a", "messages": []})
    assert reply.status == 410
    assert "POST /v1/chat/completions" in reply.json()["error"]
    assert (await (await stage.client()).ask("GET", "/api/tags")).status == 410


@story(CHAT_ONLY, ollama_api="refuse")
async def test_a_reload_decides_again_whether_the_older_api_is_answered(stage: Stage) -> None:
    stage.flow.configure(replace(stage.flow.settings, front_door=ListenSettings(ollama_api="answer")))
    assert (await (await stage.client()).ask("GET", "/api/tags")).status == 200


EMBEDS = a_serve("a", dialects=frozenset((Dialect.EMBEDDINGS,)), served_name="org/vectors")
VECTORS = {
    "object": "list", "model": "org/vectors", "usage": {"prompt_tokens": 7, "total_tokens": 7},
    "data": [{"index": 1, "embedding": [0.5, 1.0]}, {"index": 0, "embedding": [0.25, 2.0]}],
}  # fmt: skip


@story(EMBEDS)
async def test_ollamas_embeddings_come_from_the_serves_own(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("POST", "/api/embed", {"model": "a", "input": ["x", "y"], "dimensions": 2}))
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/embeddings ")
    assert talk.json() == {"model": "org/vectors", "input": ["x", "y"], "dimensions": 2}
    talk.reply(VECTORS)
    answer = (await client.reply()).json()
    assert answer.pop("total_duration") > 0
    assert answer == {
        "model": "a", "embeddings": [[0.25, 2.0], [0.5, 1.0]], "load_duration": 0, "prompt_eval_count": 7,
    }  # fmt: skip
    assert (await stage.sealed()).input_tokens == 7


@story(EMBEDS)
async def test_the_older_path_takes_a_prompt_and_gives_one_embedding(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("POST", "/api/embeddings", {"model": "a", "prompt": "x", "keep_alive": "5m"}))
    talk = await stage.asked()
    assert talk.json()["input"] == "x"
    talk.reply({"data": [{"index": 0, "embedding": [0.5]}]})
    reply = await client.reply()
    assert reply.json() == {"embedding": [0.5]}
    assert reply.header("x-stoker-translation") == "ollama-embed>embeddings,lossy:keep_alive,model"


@story(EMBEDS)
async def test_nothing_to_embed_loads_the_model(stage: Stage) -> None:
    client = await stage.client()
    assert (await client.ask("POST", "/api/embed", {"model": "a", "input": []})).json() == {
        "model": "a", "embeddings": [],
    }  # fmt: skip
    assert (await client.ask("POST", "/api/embeddings", {"model": "a", "prompt": ""})).json() == {"embedding": []}
    assert stage.fleet.journal == ["start a", "ready a"]


@story(EMBEDS, replace(CHAT_ONLY, name="b"))
async def test_what_cannot_be_embedded_is_refused_as_ollama_does(stage: Stage) -> None:
    client = await stage.client()
    reply = await client.ask("POST", "/api/embed", {"model": "b", "input": "x"})
    assert reply.status == 400
    assert "does not speak ollama-embed" in reply.json()["error"]
    assert (await client.ask("POST", "/api/embed", {"model": "a", "input": {"x": 1}})).status == 400
    await client.send(compose_request("POST", "/api/embed", {"model": "a", "input": "x"}))
    (await stage.asked()).reply({"error": {"message": "too long", "type": "invalid_request_error"}}, "400 Bad Request")
    reply = await client.reply()
    assert (reply.status, reply.json()) == (400, {"error": "too long"})
    await client.send(compose_request("POST", "/api/embed", {"model": "a", "input": "x"}))
    (await stage.asked()).reply({"data": "nothing"})
    assert (await client.reply()).status == 502


@story(CHAT_ONLY)
async def test_a_model_that_is_there_is_pulled_and_another_one_is_for_the_operator(stage: Stage) -> None:
    client = await stage.client()
    reply = await client.ask("POST", "/api/pull", {"model": "a"})
    assert reply.header("content-type") == "application/x-ndjson"
    lines = [json.loads(line) for line in reply.body.splitlines()]
    assert lines == [{"status": "pulling manifest"}, {"status": "success"}]
    assert (await client.ask("POST", "/api/pull", {"name": "a", "stream": False})).json() == {"status": "success"}
    for stream in (True, False):
        reply = await (await stage.client()).ask("POST", "/api/pull", {"model": "llama3.2", "stream": stream})
        assert reply.status == 404
        assert "stoker stage" in reply.json()["error"]
    assert stage.fleet.journal == []
