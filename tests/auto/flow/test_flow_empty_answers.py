"""A tier whose answer says nothing has failed: the next one answers, whole and streamed, whatever is checked."""

from __future__ import annotations

from typing import Any

import pytest
from tests.auto.flow.test_flow_failing_tiers import outcomes, route
from tests.auto.flow.test_flow_routing import LARGE, SMALL, piece, told, whole
from tests.gateway.flow_stage import Stage, Talk, ask, story

from stoker.domain.tier import Verify

MESSAGES = "/v1/messages"
RESULT = [
    {"role": "user", "content": "look"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "done"},
]


def say_nothing(talk: Talk, stream: bool) -> None:
    if stream:
        talk.begin()
        talk.chunk(piece(role="assistant", content=""))
        talk.end()
    else:
        talk.reply(whole(""))


@pytest.mark.parametrize("path", ["/v1/chat/completions", MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("verify", [Verify.OFF, Verify.OBSERVE])
def test_after_an_empty_answer_the_next_tier_answers(verify: Verify, stream: bool, path: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        router = route(stage, verify)
        client = await stage.client()
        await client.send(ask(model="auto", path=path, stream=stream, max_tokens=900))
        say_nothing(await stage.asked(), stream)
        talk = await stage.asked()
        assert talk.json()["model"] == "large-1"
        if stream:
            talk.begin()
            talk.say("from the second")
            talk.end()
            assert any("from the second" in event.data for event in await told(client))
        else:
            talk.reply(whole("from the second"))
            assert b"from the second" in (await client.reply()).body
        decision, tried = await outcomes(stage)
        assert (decision.outcome, tried) == ("served", [("cheap", "empty_answer"), ("dear", "served")])
        assert decision.routed is not None
        assert decision.routed.attempts[0].findings == ([] if verify is Verify.OFF else ["empty"])
        assert router.health.state("cheap") == "closed"

    tell()


@pytest.mark.parametrize("stream", [False, True])
def test_if_no_tier_is_left_the_client_is_told(stream: bool) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage)
        client = await stage.client()
        await client.send(ask(model="auto", stream=stream))
        for _ in range(2):
            say_nothing(await stage.asked(), stream)
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (502, "empty_answer")
        decision, tried = await outcomes(stage)
        assert (decision.outcome, decision.reason) == ("upstream_failed", "empty_answer")
        assert [outcome for _, outcome in tried] == ["empty_answer"] * 2
        assert decision.output_tokens == (100 if not stream else decision.output_tokens), "they were paid for"

    tell()


@pytest.mark.parametrize(
    "asked",
    [{"max_tokens": 1}, {"stop": ["x"]}, {"messages": RESULT}, {"model": "small"}],
    ids=["one token", "stop sequences", "results of tools", "no task"],
)
def test_an_answer_that_may_be_empty_is_served(asked: dict[str, Any]) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        route(stage)
        for stream in (False, True):
            client = await stage.client()
            await client.send(ask(**{"model": "auto", "stream": stream, **asked}))
            say_nothing(await stage.asked(), stream)
            if stream:
                await told(client)
            else:
                assert (await client.reply()).status == 200
            assert (await stage.sealed()).outcome == "served"
            stage.decisions.clear()

    tell()
