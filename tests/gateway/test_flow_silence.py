"""Silence, and a stream that was committed without a byte: pings, stalls, and one error event at the end."""

from __future__ import annotations

import json

import pytest
from tests.gateway.flow_stage import Stage, a_serve, ask, story
from tests.gateway.test_flow_streams import MESSAGES, ROLE, assert_one_error, assert_refused, streaming, told

from stoker_lab.testing.client import compose_request


@story(stall_timeout=0.05, keep_alive=0)
async def test_a_stall_before_the_first_token_is_504(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.chunk(ROLE)
    await assert_refused(stage, client, 504, "stalled")
    await talk.gone.wait()
    assert stage.decisions[0].outcome == "stalled"


@story(stall_timeout=0.08, keep_alive=0.02)
async def test_a_stall_in_the_middle_is_pinged_and_then_one_error_event(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.say("x")
    talk.chunk(b'data: {"choi')
    events = await assert_one_error(stage, client, "stalled")
    assert [e.comment for e in events if e.comment][:1] == ["ping"]


@story(commit_after=0.02, keep_alive=0.02)
async def test_a_silent_start_gets_its_200_and_pings_until_it_speaks(stage: Stage) -> None:
    client, talk = await streaming(stage)
    head = await client.head()
    events = client.events(head)
    assert [(await anext(events)).comment for _ in range(4)] == ["ping"] * 4
    assert head.status == 200
    assert head.header("content-type") == "text/event-stream; charset=utf-8"
    talk.begin()
    talk.say("x")
    talk.end()
    rest = [e for e in [e async for e in events] if not e.comment]
    assert (len(rest), rest[-1].data) == (3, "[DONE]")


@story(a_serve(max_active=1), commit_after=0.02, keep_alive=0.02)
async def test_who_waits_in_the_queue_is_pinged_in_its_dialect(stage: Stage) -> None:
    first, talk = await streaming(stage, MESSAGES)
    second = await stage.client()
    await second.send(ask(path=MESSAGES, stream=True))
    events = second.events(await second.head())
    assert [(await anext(events)).name for _ in range(3)] == ["ping"] * 3
    talk.close()
    await told(first)
    talk = await stage.asked()
    talk.begin()
    talk.chunk(b'event: message_start\ndata: {"type":"message_start"}\n\n')
    talk.chunk(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    talk.send(b"0\r\n\r\n")
    assert [e.name for e in [e async for e in events] if e.name != "ping"] == ["message_start", "message_stop"]


@pytest.mark.parametrize(
    ("fault", "code"),
    [("500", "upstream_error"), ("422", "upstream_refused"), ("frame", "upstream_error"), ("json", "upstream_unusable"),
     ("br", "upstream_unusable"), ("close", "upstream_broke"), ("empty", "upstream_empty"),
     ("large", "upstream_unusable")],
)  # fmt: skip
def test_once_committed_every_failure_is_one_error_event(fault: str, code: str) -> None:
    @story(commit_after=0.01)
    async def tell(stage: Stage) -> None:
        client, talk = await streaming(stage)
        await stage.until(lambda: next(iter(stage.flow.active.values())).reply.is_committed)
        match fault:
            case "500" | "422":
                talk.reply({"error": {"message": "inner words"}}, f"{fault} X")
            case "frame":
                talk.begin()
                talk.chunk(b'data: {"error":{"message":"inner words"}}\n\n')
            case "json":
                talk.reply({})
            case "br":
                talk.begin("content-encoding: br")
                talk.chunk(b"compressed")
            case "close":
                talk.close()
            case "empty":
                talk.begin()
                talk.send(b"0\r\n\r\n")
            case "large":
                talk.reply(b"x" * 5_000_000)
        is_told = fault in ("500", "422", "frame")
        events = await assert_one_error(stage, client, code, "upstream" if is_told else "stoker")
        assert ("inner words" in events[-1].data) is is_told

    tell()


# -- raw ------------------------------------------------------------------------------------------------------------


@story()
async def test_a_raw_stream_flows_as_it_comes(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("POST", "/upstream/a/completion?x=1", {"prompt": "p", "stream": True}))
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /completion?x=1 HTTP/1.1")
    talk.begin()
    talk.chunk(b'data: {"content":"x"}\n\n')
    head = await client.head()
    pieces = client.pieces(head)
    assert await anext(pieces) == b'data: {"content":"x"}\n\n'
    talk.chunk(b'data: {"stop":true}\n\n')
    talk.send(b"0\r\n\r\n")
    assert [piece async for piece in pieces] == [b'data: {"stop":true}\n\n']
    assert json.loads(talk.body) == {"prompt": "p", "stream": True}
