"""What is heard of a scripted model: its times, its words, its failures, in each dialect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

DIALECTS = [Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES]
ANSWER = [
    {
        "blocks": [
            {"type": "thinking", "text": "well, well"},
            {"type": "text", "text": "hello there"},
            {"type": "call", "name": "look", "arguments": {"at": "it"}},
        ]
    }
]


def document(dialect: Dialect, text: str = "hi", **fields: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": text}]
    if dialect is Dialect.RESPONSES:
        return {"input": turns, **fields}
    limit = {"max_tokens": 1000} if dialect is Dialect.MESSAGES else {}
    return {"messages": turns, **limit, **fields}


def heard(
    script: Script, ask: Callable[[ModelClient], Awaitable[ModelReply]], dialect: Dialect = Dialect.CHAT
) -> ModelReply:
    async def run() -> ModelReply:
        async with ScriptedServer(script) as server:
            client = ModelClient(Target("127.0.0.1", server.port, "", script.id), dialect)
            try:
                return await ask(client)
            finally:
                client.close()

    return asyncio.run(run())


def streamed(dialect: Dialect, text: str = "hi", **fields: Any) -> Callable[[ModelClient], Awaitable[ModelReply]]:
    options = {"stream_options": {"include_usage": True}} if dialect is Dialect.CHAT else {}
    return lambda client: client.ask(document(dialect, text, stream=True, **options, **fields))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_said_is_heard_streamed_and_not(dialect: Dialect) -> None:
    whole = heard(Script(answers=ANSWER), lambda client: client.ask(document(dialect)), dialect)
    flow = heard(Script(answers=ANSWER), streamed(dialect), dialect)
    for found in (whole, flow):
        assert (found.thinking, found.text, found.timing.stop) == ("well, well", "hello there", "calls")
        assert [(call.name, call.arguments.replace(" ", "")) for call in found.calls] == [("look", '{"at":"it"}')]
        assert (found.timing.status, found.timing.is_ok) == (200, True)
        assert found.timing.tokens.output is not None
    assert (whole.timing.first_token_at, whole.frames) == (None, [])
    assert flow.frames
    assert flow.timing.first_output_at is not None
    assert flow.timing.first_token_at is not None
    assert flow.timing.first_output_at > flow.timing.first_token_at


@pytest.mark.parametrize("dialect", DIALECTS)
def test_times_are_those_of_the_server(dialect: Dialect) -> None:
    script = Script(tokens=11, first_event_after=0.1, gap=0.02, role_first=True)
    timed = heard(script, streamed(dialect), dialect).timing
    assert timed.ttft == pytest.approx(0.1, abs=0.05)
    assert timed.tpot == pytest.approx(0.02, rel=0.2)
    assert (timed.chunks, len(timed.gaps)) == (11, 10)


def test_a_role_only_first_chunk_does_not_stop_the_clock() -> None:
    """Behaviour 54, first half: the role comes at once, the first token later."""
    timed = heard(Script(role_first=True, first_event_after=0.2), streamed(Dialect.CHAT)).timing
    assert timed.ttft is not None
    assert timed.ttft >= 0.2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_frame_after_the_200_is_a_failure(dialect: Dialect) -> None:
    """Behaviour 54, second half."""
    timed = heard(Script(error_event_after=3), streamed(dialect), dialect).timing
    assert (timed.status, timed.is_ok, timed.chunks) == (200, False, 3)


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        (Script(die_after=3), "broke_off"),
        (Script(die_after=-1), "broke_off"),
        (Script(die_after=3, die_how="end"), "broke_off"),
        (Script(error_status=503), "http_503"),
        (Script(stall_after=2), "timeout"),
    ],
)
def test_whatever_goes_wrong_has_a_word(script: Script, failure: str) -> None:
    timed = heard(script, lambda client: client.ask(document(Dialect.CHAT, stream=True), timeout=1.0)).timing
    assert timed.failure == failure
    assert timed.ended >= timed.t0


def test_an_answer_that_is_none_is_a_failure() -> None:
    found = heard(Script(error_status=200, error_body="oh"), lambda client: client.ask(document(Dialect.CHAT)))
    assert (found.timing.failure, found.body) == ("no_answer", "oh")


def test_a_server_that_is_not_there() -> None:
    async def run() -> ModelReply:
        client = ModelClient(Target("127.0.0.1", 1, "", "m"))
        return await client.ask({})

    assert asyncio.run(run()).timing.failure == "unreachable"


def test_hanging_up_is_heard_by_the_server_and_is_no_answer() -> None:
    script = Script(tokens=1000, gap=0.01)
    found = heard(script, lambda client: client.ask(document(Dialect.CHAT, stream=True), drop_after=3))
    assert (found.timing.failure, found.timing.chunks) == ("dropped", 3)


def test_a_request_that_is_sent_late_knows_it() -> None:
    async def late(client: ModelClient) -> ModelReply:
        return await client.ask(document(Dialect.CHAT), scheduled=client.clock() - 1.0)

    assert heard(Script(), late).timing.lag > 1.0
