"""What a request tells of its session, from its head or body to the decision and the scheduler."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, a_serve, ask, story

from stoker.domain.dialect import Dialect
from stoker.domain.session import Session

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20}


def answer(calls: bool) -> dict[str, Any]:
    message = {"role": "assistant", "content": None if calls else "done", **({"tool_calls": [CALL]} if calls else {})}
    reason = "tool_calls" if calls else "stop"
    return {"id": "x", "object": "chat.completion", "model": "m", "usage": USAGE,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}]}  # fmt: skip


def sessions(stage: Stage) -> list[Session]:
    return stage.upstream_client.sessions.latest(10)


async def turn(stage: Stage, calls: bool, headers: tuple[tuple[str, str], ...] = (), **fields: Any) -> str:
    """Returns the session of its decision."""
    client = await stage.client()
    await client.send(ask(headers=headers, **fields))
    talk = await stage.asked()
    if talk.json().get("stream"):
        talk.begin("content-type: text/event-stream")
        for delta, reason in (({"role": "assistant", "content": "a"}, None), ({}, "tool_calls" if calls else "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            talk.chunk(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        talk.chunk(b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\ndata: [DONE]\n\n")
        talk.end()
    else:
        talk.reply(answer(calls))
    assert (await client.reply()).status == 200
    await stage.quiet()
    return stage.decisions[-1].session


@story()
async def test_a_session_that_is_named_is_followed_from_turn_to_turn(stage: Stage) -> None:
    name = (("session_id", "me"),)
    first = await turn(stage, True, name)
    [session] = sessions(stage)
    assert (first, session.turns, session.tokens, session.in_loop) == (session.id, 1, 120, True)
    assert await turn(stage, False, name) == first
    assert (session.turns, session.in_loop, session.serve) == (2, False, "a")
    assert await turn(stage, True) == ""
    assert sessions(stage) == [session]


@story()
async def test_what_generates_nothing_is_no_turn_of_a_session(stage: Stage) -> None:
    name = (("session_id", "me"),)
    await turn(stage, True, name)
    client = await stage.client()
    await client.send(ask(path="/v1/embeddings", headers=name, messages=None, input="x"))
    (await stage.asked()).reply({"object": "list", "model": "m", "data": [{"index": 0, "embedding": [0.1]}]})
    assert (await client.reply()).status == 200
    await stage.quiet()
    [session] = sessions(stage)
    assert (stage.decisions[-1].session, session.turns, session.in_loop) == ("", 1, True)


@story()
async def test_a_stream_says_by_its_end_whether_it_calls_a_tool(stage: Stage) -> None:
    await turn(stage, True, stream=True, prompt_cache_key="k")
    [session] = sessions(stage)
    assert session.in_loop
    await turn(stage, False, stream=True, prompt_cache_key="k")
    assert (session.in_loop, session.turns, session.source) == (False, 2, "prompt_cache_key")


@story(a_serve(slot="gpu"), a_serve("b", slot="gpu"))
async def test_where_models_share_a_slot_a_session_is_known_by_its_prompts(stage: Stage) -> None:
    history = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    first = await turn(stage, True, messages=history)
    assert first
    later = [*history, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": "it is there"}]
    assert await turn(stage, True, messages=later) == first
    assert await turn(stage, True, messages=[history[0], {"role": "user", "content": "someone else"}]) != first


@pytest.mark.parametrize("engine", [Dialect.CHAT, Dialect.MESSAGES])
@pytest.mark.parametrize("calls", [True, False])
def test_a_translated_answer_says_it_too(engine: Dialect, calls: bool) -> None:
    @story(a_serve(dialects=frozenset({engine})))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        path = "/v1/messages" if engine is Dialect.CHAT else "/v1/chat/completions"
        message = [{"role": "user", "content": "hi"}]
        tools = (
            {"max_tokens": 50, "metadata": {"user_id": "u"}} if engine is Dialect.CHAT else {"prompt_cache_key": "u"}
        )
        await client.send(ask(path=path, messages=message, **tools))
        talk = await stage.asked()
        if engine is Dialect.CHAT:
            talk.reply(answer(calls))
        else:
            block = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
            content = [block if calls else {"type": "text", "text": "done"}]
            talk.reply({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
                        "stop_reason": "tool_use" if calls else "end_turn",
                        "usage": {"input_tokens": 100, "output_tokens": 20}})  # fmt: skip
        assert (await client.reply()).status == 200
        await stage.sealed()
        [session] = sessions(stage)
        assert session.in_loop is calls

    tell()
