"""Speech, transcriptions and images: nothing is translated, the answer passes as it comes, and it may take its time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, ask, story

from stoker.domain.dialect import Dialect
from stoker.domain.request_parameters import RequestParameters
from stoker.domain.serve import Serve
from stoker.domain.usage import MediaUnits
from stoker_lab.testing.client import RawClient, compose_request

SPEECH, IMAGES = "/v1/audio/speech", "/v1/images/generations"
MEDIA = frozenset((Dialect.SPEECH, Dialect.TRANSCRIPTION, Dialect.IMAGE))
VOICE = Serve("a", served_name="real/voice", dialects=MEDIA, context=16)
TONE = bytes(range(256)) * 64


def begin(talk: Talk, kind: str) -> None:
    """The head of a chunked reply."""
    talk.send(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode())


def finish(talk: Talk) -> None:
    talk.send(b"0\r\n\r\n")


def whole(talk: Talk, kind: str, body: bytes, status: str = "200 OK") -> None:
    talk.send(f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


async def speaking(stage: Stage, path: str = SPEECH, **fields: Any) -> tuple[RawClient, Talk]:
    client = await stage.client()
    given = {"model": "a", "input": "Go forward ten meters. " * 20, "voice": "slt", **fields}
    await client.send(compose_request("POST", path, given))
    return client, await stage.asked()


@story(VOICE)
async def test_speech_flows_from_its_first_byte_and_only_the_models_name_is_changed(stage: Stage) -> None:
    client, talk = await speaking(stage)
    assert talk.head.startswith(b"POST /v1/audio/speech HTTP/1.1")
    sent = {"model": "a", "input": "Go forward ten meters. " * 20, "voice": "slt"}
    assert talk.body == json.dumps(sent).replace('"a"', '"real/voice"').encode()
    begin(talk, "audio/wav")
    talk.chunk(TONE[:100])
    head = await client.head()
    assert (head.status, head.header("content-type")) == (200, "audio/wav")
    assert head.header("x-stoker-translation") == "model"
    pieces = client.pieces(head)
    assert await anext(pieces) == TONE[:100]
    talk.chunk(TONE[100:])
    finish(talk)
    assert b"".join([piece async for piece in pieces]) == TONE[100:]
    decision = await stage.sealed()
    assert (decision.outcome, decision.endpoint, decision.model) == ("served", SPEECH, "a")
    assert decision.ttft is not None
    assert decision.media == MediaUnits(characters=460)


@story(VOICE, commit_after=0.02, keep_alive=0.02, stall_timeout=0.1)
async def test_an_engine_may_be_silent_for_long_before_its_first_byte(stage: Stage) -> None:
    client, talk = await speaking(stage, IMAGES, stream=False)
    await asyncio.sleep(0.3)
    whole(talk, "application/json", b'{"data": [{"b64_json": "eA=="}]}')
    reply = await client.reply()
    assert (reply.status, reply.json()) == (200, {"data": [{"b64_json": "eA=="}]})


@story(VOICE, commit_after=0.02, keep_alive=0.02, stall_timeout=0.1)
async def test_a_requested_stream_is_not_begun_for_a_serve_that_may_not_stream(stage: Stage) -> None:
    client, talk = await speaking(stage, stream=True)
    await asyncio.sleep(0.1)
    whole(talk, "audio/mpeg", TONE)
    reply = await client.reply()
    assert (reply.status, reply.header("content-type"), reply.body) == (200, "audio/mpeg", TONE)


@story(VOICE, stall_timeout=0.1, keep_alive=0.02)
async def test_silence_after_the_first_byte_breaks_the_audio_off_without_a_byte_of_ours_in_it(stage: Stage) -> None:
    client, talk = await speaking(stage)
    begin(talk, "audio/wav")
    talk.chunk(TONE)
    assert (await client.head()).status == 200
    rest = b""
    while piece := await client.read():
        rest += piece
    assert rest == b"%x\r\n%b\r\n" % (len(TONE), TONE)  # no end, no ping
    decision = await stage.sealed()
    assert (decision.outcome, decision.reason) == ("stalled", "stalled")


@story(VOICE)
async def test_a_stream_of_events_passes_whole_frames_whatever_its_end_is_called(stage: Stage) -> None:
    client, talk = await speaking(stage, stream_format="sse")
    talk.begin()
    frames = [b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n', b'data: {"type":"speech.audio.done"}\n\n']
    talk.chunk(frames[0][:20])
    talk.chunk(frames[0][20:] + frames[1])
    finish(talk)
    reply = await client.reply()
    assert (reply.status, reply.body) == (200, b"".join(frames))
    assert (await stage.sealed()).outcome == "served"


@story(VOICE, stall_timeout=0.1, keep_alive=0.02)
async def test_the_head_of_a_stream_is_not_its_first_byte(stage: Stage) -> None:
    client, talk = await speaking(stage, stream_format="sse")
    talk.begin()
    await asyncio.sleep(0.3)
    talk.chunk(b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n')
    finish(talk)
    assert (await client.reply()).body == b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'


@story(VOICE)
async def test_a_stream_of_events_that_fails_ends_with_one_error(stage: Stage) -> None:
    client, talk = await speaking(stage, stream_format="sse")
    talk.begin()
    talk.chunk(b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n')
    talk.chunk(b'data: {"type":"speech.audio.de')
    head = await client.head()
    talk.close()
    *_, last = [event async for event in client.events(head)]
    assert last.json()["error"]["code"] == "upstream_broke"


PAGE = b"<!DOCTYPE html><html><body>It works!</body></html>"


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("text/html; charset=utf-8", b"It works!", "web page"),
        ("application/json", b" \n" + PAGE, "web page"),
        ("application/json", b'{"error": {"message": "no such voice"}}', "no such voice"),
        ("audio/wav", b"", "empty"),
    ],
)
def test_what_is_no_answer_is_a_502_in_the_clients_dialect(kind: str, body: bytes, said: str) -> None:
    @story(VOICE)
    async def tell(stage: Stage) -> None:
        client, talk = await speaking(stage)
        whole(talk, kind, body)
        reply = await client.reply()
        error = reply.json()["error"]
        assert (reply.status, error["code"], error["type"]) == (502, "upstream_unusable", "api_error")
        assert said in error["message"]
        decision = await stage.sealed()
        assert decision.outcome == "upstream_failed"

    tell()


@story(VOICE)
async def test_listings_name_their_model_in_the_query(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("GET", "/v1/audio/voices?lang=en%20gb&model=a&x=%61"))
    talk = await stage.asked()
    assert talk.head.startswith(b"GET /v1/audio/voices?lang=en%20gb&model=real%2Fvoice&x=%61 HTTP/1.1")
    talk.reply({"voices": ["slt"]})
    assert (await client.reply()).json()["voices"] == ["slt"]
    assert (await stage.sealed()).endpoint == "/v1/audio/voices"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/audio/voices", 400, "bad_model"),
        ("/v1/audio/voices?model=", 400, "bad_model"),
        ("/sdapi/v1/loras?model=a&model=b", 400, "duplicate_field"),
        ("/sdapi/v1/loras?model=a&mod%65l=b", 400, "duplicate_field"),
        ("/sdapi/v1/options?model=nobody", 404, "unknown_model"),
        ("/v1/audio/voices?model=nobody", 404, "unknown_model"),
    ],
)
def test_a_listing_without_exactly_one_known_model_is_refused(path: str, status: int, code: str) -> None:
    @story(VOICE)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        reply = await client.ask("GET", path)
        assert (reply.status, reply.json()["error"]["code"]) == (status, code)

    tell()


@story(a_serve("a"), Serve("b", dialects=MEDIA))
async def test_a_serve_is_only_asked_in_the_dialects_that_it_has(stage: Stage) -> None:
    for given in (ask("a", SPEECH), ask("b")):
        client = await stage.client()
        await client.send(given)
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "dialect_not_spoken")


@story(VOICE, body_limit=200)
async def test_listings_take_no_body(stage: Stage) -> None:
    client = await stage.client()
    await client.send(b"GET /sdapi/v1/options?model=a HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 3\r\n\r\nabc")
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (400, "unexpected_body")


@pytest.mark.parametrize("body", [b"{}", b' { "prompt": "x"}', b'{"model": null, "prompt": "x"}'])
def test_a_client_of_the_webui_names_no_model_and_gets_the_only_one_that_draws(body: bytes) -> None:
    @story(VOICE, a_serve("b"))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        head = b"POST /sdapi/v1/txt2img HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body)
        await client.send(head + body)
        talk = await stage.asked()
        assert talk.json() == {**json.loads(body), "model": "real/voice"}
        talk.reply({"images": []})
        assert (await client.reply()).header("x-stoker-translation") == "default_model,model"
        await client.send(compose_request("GET", "/sdapi/v1/options"))
        talk = await stage.asked()
        assert talk.head.startswith(b"GET /sdapi/v1/options HTTP/1.1")
        talk.reply({})
        await client.reply()

    tell()


@story(VOICE, Serve("c", dialects=MEDIA))
async def test_with_two_that_draw_it_has_to_name_one(stage: Stage) -> None:
    client = await stage.client()
    for method, body in (("POST", {"prompt": "x"}), ("GET", None)):
        path = "/sdapi/v1/txt2img" if body else "/sdapi/v1/loras"
        await client.send(compose_request(method, path, body))
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "bad_model")
        assert "2 serves have the dialect image: a, c" in reply.json()["error"]["message"]
        client = await stage.client()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"sd_model_checkpoint": "a"}, 200),
        ({"sd_model_checkpoint": "real/voice", "CLIP_stop_at_last_layers": 1}, 200),
        ({"sd_model_checkpoint": "b"}, 400),
        ({"sd_model_checkpoint": "v1-5.safetensors [6ce0161689]"}, 400),
        ({"CLIP_stop_at_last_layers": 2}, 400),
    ],
)
def test_a_client_of_the_webui_may_choose_the_model_that_answers_anyway(body: dict[str, Any], status: int) -> None:
    @story(VOICE, a_serve("b"))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        reply = await client.ask("POST", "/sdapi/v1/options", body)
        assert reply.status == status
        if status == 200:
            assert reply.json() is None
        else:
            error = reply.json()["error"]
            assert (error["code"], error["param"]) == ("options_not_kept", "sd_model_checkpoint")
            assert error["message"].endswith("the models for images are: a")
        assert (await (await stage.client()).ask("PUT", "/sdapi/v1/options", body)).status == 405

    tell()


@story(VOICE, Serve("c", dialects=MEDIA))
async def test_of_two_that_draw_none_can_be_chosen_for_later_requests(stage: Stage) -> None:
    client = await stage.client()
    reply = await client.ask("POST", "/sdapi/v1/options", {"sd_model_checkpoint": "a"})
    assert (reply.status, reply.json()["error"]["code"]) == (400, "options_not_kept")


@story(replace(VOICE, request=RequestParameters(set={"speed": 0.5})))
async def test_a_serves_parameters_are_set_in_json(stage: Stage) -> None:
    client, talk = await speaking(stage)
    assert talk.json() == {
        "model": "real/voice", "input": "Go forward ten meters. " * 20, "voice": "slt", "speed": 0.5,
    }  # fmt: skip
    whole(talk, "audio/wav", TONE)
    assert (await client.reply()).header("x-stoker-translation") == "set:speed,model"
