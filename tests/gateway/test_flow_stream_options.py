"""What the operator says of `stream_options` stands: Stoker asks for usage only where the operator says nothing."""

from __future__ import annotations

from tests.gateway.flow_stage import Stage, a_serve, ask, story

from stoker.domain.dialect import Dialect
from stoker.domain.request_parameters import RequestParameters
from stoker_lab.testing.client import compose_request

CHAT_ONLY = frozenset((Dialect.CHAT,))
DROPS = a_serve(dialects=CHAT_ONLY, request=RequestParameters(drop=("stream_options",)))
SETS = a_serve(dialects=CHAT_ONLY, request=RequestParameters(set={"stream_options": {"include_usage": False}}))


@story(DROPS)
async def test_dropped_stream_options_are_not_put_in_again(stage: Stage) -> None:
    client = await stage.client()
    for fields in ({}, {"stream_options": {"include_usage": True}}, {"stream_options": None}):
        await client.send(ask(stream=True, **fields))
        talk = await stage.asked()
        assert "stream_options" not in talk.json()
        talk.begin()
        talk.say("x")
        talk.end()
        assert b"[DONE]" in (await client.reply()).body


@story(DROPS)
async def test_nor_are_they_where_the_request_is_translated(stage: Stage) -> None:
    client = await stage.client()
    document = {"model": "a", "max_tokens": 5, "stream": True, "messages": [{"role": "user", "content": "x"}]}
    await client.send(compose_request("POST", "/v1/messages", document))
    talk = await stage.asked()
    assert "stream_options" not in talk.json()
    talk.begin()
    talk.say("x")
    talk.end()
    assert b"message_stop" in (await client.reply()).body


@story(SETS)
async def test_what_the_operator_sets_stays(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(stream=True))
    talk = await stage.asked()
    assert talk.json()["stream_options"] == {"include_usage": False}
    talk.begin()
    talk.say("x")
    talk.end()
    assert (await client.reply()).status == 200
