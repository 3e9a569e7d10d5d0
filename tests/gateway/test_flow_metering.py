"""What a request used counts, however it ended: in every dialect, passed through and translated, whole and streamed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, story

from stoker.access.access_file import USAGE_COLUMNS
from stoker.access.quota import ASSUMED_OUTPUT
from stoker.domain.dialect import Dialect
from stoker.domain.key import Key, UsageLimits
from stoker.domain.serve import Secret
from stoker.domain.tier import Cost
from stoker_lab.testing.client import RawClient, compose_request

SECRET = "key-of-ann-0123456789"
PRICES = Cost(3.0, 15.0, 0.3, 3.75)
LIMITS = UsageLimits(cost_per_day=10.0, output_tokens_per_minute=100_000, input_tokens_per_minute=100_000)
ANN = Key("ann", Secret(SECRET, "env:K"), limits=LIMITS)
MESSAGES = [{"role": "user", "content": "hi"}]
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES}),
    "completions": ("/v1/completions", {"prompt": "hi"}),
    "messages": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 5000}),
    "responses": ("/v1/responses", {"input": "hi"}),
    "ollama": ("/api/chat", {"messages": MESSAGES}),
}
WAYS = [
    ("chat", Dialect.CHAT), ("completions", Dialect.COMPLETIONS), ("messages", Dialect.MESSAGES),
    ("responses", Dialect.RESPONSES), ("chat", Dialect.MESSAGES), ("chat", Dialect.RESPONSES),
    ("messages", Dialect.CHAT), ("messages", Dialect.RESPONSES), ("responses", Dialect.CHAT),
    ("responses", Dialect.MESSAGES), ("ollama", Dialect.CHAT), ("ollama", Dialect.MESSAGES),
]  # fmt: skip
PROMPT = 9
"""Tokens of the prompt, as the serves of Messages say at the beginning."""


def event(payload: dict[str, Any]) -> bytes:
    name = payload.get("type")
    return (f"event: {name}\n" if name else "").encode() + b"data: %b\n\n" % json.dumps(payload).encode()


def opening(dialect: Dialect) -> bytes:
    """What comes before the first piece."""
    match dialect:
        case Dialect.CHAT:
            return event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        case Dialect.MESSAGES:
            usage = {"input_tokens": PROMPT, "output_tokens": 1}
            message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "usage": usage}
            block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
            return event({"type": "message_start", "message": message}) + event(block)
        case Dialect.RESPONSES:
            response = {"id": "r", "object": "response", "status": "in_progress", "output": [], "model": "x"}
            item = {"type": "message", "id": "i", "role": "assistant", "content": [], "status": "in_progress"}
            part = {"type": "output_text", "text": "", "annotations": []}
            return (
                event({"type": "response.created", "sequence_number": 0, "response": response})
                + event({"type": "response.output_item.added", "output_index": 0, "item": item, "sequence_number": 1})
                + event(
                    {"type": "response.content_part.added", "item_id": "i", "output_index": 0, "content_index": 0,
                     "part": part, "sequence_number": 2}
                )
            )  # fmt: skip
    return b""


def piece(dialect: Dialect, text: str) -> bytes:
    match dialect:
        case Dialect.CHAT:
            return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})
        case Dialect.COMPLETIONS:
            return event({"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": None}]})
        case Dialect.MESSAGES:
            delta = {"type": "text_delta", "text": text}
            return event({"type": "content_block_delta", "index": 0, "delta": delta})
    return event(
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": text,
         "sequence_number": 3}
    )  # fmt: skip


def asking(client: str, **fields: Any) -> bytes:
    path, document = PATHS[client]
    document = {"model": "a", **document, **fields}
    return compose_request("POST", path, document, (("authorization", f"Bearer {SECRET}"),))


def used(stage: Stage) -> dict[str, float]:
    """What counts of the key's limits now."""
    (entry,) = stage.door.keyring.entries().values()
    states = {state.rule.setting: state.used for state in entry.caller.limits()}
    return {name: states[f"{name}_tokens_per_minute"] for name in ("input", "output")}


def money(stage: Stage) -> float:
    """What counts of the key's money now."""
    (entry,) = stage.door.keyring.entries().values()
    return next(state.used for state in entry.caller.limits() if state.rule.cost)


async def streaming(
    stage: Stage, client: str, serve: Dialect, pieces: int, text: str = "word "
) -> tuple[RawClient, Talk]:
    """A stream of so many pieces, all of which have arrived."""
    caller = await stage.client()
    await caller.send(asking(client, stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.chunk(opening(serve) or b": ping\n\n")
    for number in range(pieces):
        talk.chunk(piece(serve, text))
        if number % 7 == 0:
            await asyncio.sleep(0.001)  # so that reads hold one piece, or several
    await caller.head()
    (call,) = stage.flow.active.values()
    await stage.until(lambda: call.relay is not None and call.relay.tokens_so_far() >= pieces)
    return caller, talk


@pytest.mark.parametrize("ending", ["the client leaves", "the serve breaks off"])
@pytest.mark.parametrize(("client", "serve"), WAYS, ids=[f"{client}-{serve}" for client, serve in WAYS])
def test_of_a_stream_that_is_cut_counts_what_came(client: str, serve: Dialect, ending: str) -> None:
    @story(a_serve(dialects=frozenset((serve,))), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller, talk = await streaming(stage, client, serve, 78)
        if ending == "the client leaves":
            caller.abort()
        else:
            talk.close()
        decision = await stage.sealed()
        assert decision.outcome == ("client_left" if ending == "the client leaves" else "upstream_failed")
        assert decision.output_tokens == 78
        assert decision.input_tokens == PROMPT if serve is Dialect.MESSAGES else decision.input_tokens in range(8, 80)
        assert decision.tokens_estimated
        assert used(stage) == {"input": decision.input_tokens, "output": 78}

    tell()


@pytest.mark.parametrize("serve", [Dialect.CHAT, Dialect.MESSAGES], ids=str)
def test_pieces_that_are_longer_than_a_token_count_by_their_length(serve: Dialect) -> None:
    @story(a_serve(dialects=frozenset((serve,))), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller, _ = await streaming(stage, "chat", serve, 20, "x" * 80)
        caller.abort()
        assert (await stage.sealed()).output_tokens == 400

    tell()


@story(keys=(ANN,))
async def test_one_long_piece_says_nothing_about_the_others(stage: Stage) -> None:
    """As a call whose arguments come at once."""
    caller, talk = await streaming(stage, "chat", Dialect.CHAT, 100)
    talk.chunk(piece(Dialect.CHAT, "x" * 400))
    (call,) = stage.flow.active.values()
    await stage.until(lambda: call.relay is not None and call.relay.tokens_so_far() > 100)
    caller.abort()
    assert (await stage.sealed()).output_tokens == 200


@pytest.mark.parametrize(("client", "serve"), WAYS, ids=[f"{client}-{serve}" for client, serve in WAYS])
def test_a_serve_that_reports_no_usage_counts(client: str, serve: Dialect) -> None:
    """Whole answers: by their length."""
    text = "w" * 400
    answers: dict[Dialect, dict[str, Any]] = {
        Dialect.CHAT: {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]},
        Dialect.COMPLETIONS: {"choices": [{"text": text, "finish_reason": "stop"}]},
        Dialect.MESSAGES: {
            "id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 0, "output_tokens": 0},
        },
        Dialect.RESPONSES: {
            "id": "r", "object": "response", "status": "completed", "model": "x",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}],
        },
    }  # fmt: skip

    @story(a_serve(dialects=frozenset((serve,))), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller = await stage.client()
        await caller.send(asking(client, stream=False))
        talk = await stage.asked()
        talk.reply(answers[serve])
        assert (await caller.reply()).status == 200
        decision = await stage.sealed()
        assert (decision.outcome, decision.output_tokens, decision.tokens_estimated) == ("served", 100, True)
        assert decision.input_tokens in range(8, 80)
        assert used(stage) == {"input": decision.input_tokens, "output": 100}

    tell()


@story(keys=(ANN,))
async def test_a_whole_stream_without_usage_counts(stage: Stage) -> None:
    _, talk = await streaming(stage, "chat", Dialect.CHAT, 30)
    talk.end()
    decision = await stage.sealed()
    assert (decision.outcome, decision.output_tokens, decision.tokens_estimated) == ("served", 30, True)
    assert used(stage)["output"] == 30


@story(keys=(ANN,))
async def test_what_the_serve_reported_stands(stage: Stage) -> None:
    _, talk = await streaming(stage, "chat", Dialect.CHAT, 30)
    talk.chunk(event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 29}}))
    talk.end()
    decision = await stage.sealed()
    assert (decision.input_tokens, decision.output_tokens, decision.tokens_estimated) == (5, 29, False)
    assert used(stage) == {"input": 5, "output": 29}


@story(keys=(ANN,))
async def test_embeddings_without_usage_count_their_prompt(stage: Stage) -> None:
    caller = await stage.client()
    body = {"model": "a", "input": "x" * 400}
    await caller.send(compose_request("POST", "/v1/embeddings", body, (("authorization", f"Bearer {SECRET}"),)))
    (await stage.asked()).reply({"data": [{"embedding": [1.0], "index": 0}]})
    assert (await caller.reply()).status == 200
    await stage.sealed()
    assert used(stage)["input"] in range(100, 120)
    assert used(stage)["output"] == 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_before_anything_came_pays_for_its_prompt(stream: bool) -> None:
    """And, if the answer was to come whole, for what can have been written."""

    @story(keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller = await stage.client()
        await caller.send(asking("chat", stream=stream, messages=[{"role": "user", "content": "x" * 4000}]))
        await stage.asked()
        await asyncio.sleep(0.05)
        caller.abort()
        decision = await stage.sealed()
        assert decision.outcome == "client_left"
        assert used(stage)["input"] in range(1000, 1100)
        assert used(stage)["output"] == 0 if stream else 0 < used(stage)["output"] < ASSUMED_OUTPUT

    tell()


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error", "429 Too Many Requests"])
def test_a_refused_request_costs_nothing(status: str) -> None:
    @story(keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller = await stage.client()
        await caller.send(asking("chat"))
        (await stage.asked()).reply({"error": {"message": "no"}}, status)
        await caller.reply()
        decision = await stage.sealed()
        assert (decision.input_tokens, decision.output_tokens) == (None, None)
        assert used(stage) == {"input": 0, "output": 0}

    tell()


@pytest.mark.parametrize("body", [b"<html>", b'{"choices": []}', b'{"error": {"message": "no"}}'])
def test_a_reply_that_is_no_answer_costs_nothing(body: bytes) -> None:
    @story(keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller = await stage.client()
        await caller.send(asking("chat"))
        (await stage.asked()).reply(body)
        assert (await caller.reply()).status == 502
        await stage.sealed()
        assert used(stage) == {"input": 0, "output": 0}

    tell()


@story(keys=(ANN,))
async def test_a_serve_that_dies_before_the_answer_costs_nothing(stage: Stage) -> None:
    caller = await stage.client()
    await caller.send(asking("chat", stream=True))
    (await stage.asked()).close()
    await caller.reply()
    await stage.sealed()
    assert used(stage) == {"input": 0, "output": 0}


@story(a_serve(max_active=1), keys=(ANN,))
async def test_a_client_that_leaves_the_queue_pays_nothing(stage: Stage) -> None:
    first, second = await stage.client(), await stage.client()
    await first.send(asking("chat"))
    talk = await stage.asked()
    await second.send(asking("chat", messages=[{"role": "user", "content": "x" * 4000}]))
    await stage.until(lambda: stage.conductor.statistics()["waiting"])
    second.abort()
    await stage.until(lambda: stage.decisions)
    talk.reply({"usage": {"prompt_tokens": 5, "completion_tokens": 1}})
    await first.reply()
    await stage.until(lambda: len(stage.decisions) == 2)
    assert used(stage) == {"input": 5, "output": 1}


@story(keys=(ANN,))
async def test_a_picture_in_the_prompt_does_not_count_as_text(stage: Stage) -> None:
    caller = await stage.client()
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    await caller.send(asking("chat", messages=[{"role": "user", "content": [picture]}], stream=True))
    await stage.asked()
    caller.abort()
    await stage.sealed()
    assert used(stage)["input"] in range(1000, 1200)


# -- engines' own paths ----------------------------------------------------------------------------------------------


def own_path(**fields: Any) -> bytes:
    document = {"prompt": "x" * 388, **fields}
    return compose_request("POST", "/upstream/a/completion", document, (("authorization", f"Bearer {SECRET}"),))


@pytest.mark.parametrize("reports", [True, False])
def test_an_answer_at_an_engines_own_path_counts(reports: bool) -> None:
    @story(a_serve(engine="llama.cpp"), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller = await stage.client()
        await caller.send(own_path())
        counts = {"tokens_evaluated": 90, "tokens_predicted": 7} if reports else {}
        (await stage.asked()).reply({"content": "w" * 40, "output": 0, **counts})
        assert (await caller.reply()).status == 200
        await stage.sealed()
        assert used(stage) == ({"input": 90, "output": 7} if reports else {"input": 100, "output": 10})

    tell()


@pytest.mark.parametrize("leaves", [True, False])
def test_a_stream_at_an_engines_own_path_counts_its_events(leaves: bool) -> None:
    @story(a_serve(engine="llama.cpp"), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller = await stage.client()
        await caller.send(own_path())
        talk = await stage.asked()
        talk.begin()
        for _ in range(30):
            talk.chunk(event({"content": "x"}))
        (call,) = stage.flow.active.values()
        await stage.until(lambda: call.relay is not None and call.relay.tokens_so_far() == 30)
        if leaves:
            caller.abort()
        else:
            talk.send(b"0\r\n\r\n")
        await stage.sealed()
        assert used(stage) == {"input": 100, "output": 30}

    tell()


# -- counting --------------------------------------------------------------------------------------------------------


@story(a_serve(dialects=frozenset((Dialect.CHAT,))), keys=(ANN,))
async def test_counting_by_generating_a_token_counts(stage: Stage) -> None:
    caller = await stage.client()
    headers = (("authorization", f"Bearer {SECRET}"),)
    await caller.send(
        compose_request("POST", "/v1/messages/count_tokens", {"model": "a", "messages": MESSAGES}, headers)
    )
    (await stage.asked()).reply({}, "404 Not Found")
    (await stage.asked()).reply({}, "404 Not Found")
    (await stage.asked()).reply({"usage": {"prompt_tokens": 12, "completion_tokens": 1}})
    assert (await caller.reply()).json() == {"input_tokens": 12}
    await stage.sealed()
    assert used(stage) == {"input": 12, "output": 1}


# -- money -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "serve"), WAYS, ids=[f"{client}-{serve}" for client, serve in WAYS])
def test_a_stream_that_is_cut_costs_what_came(client: str, serve: Dialect) -> None:
    @story(a_serve(dialects=frozenset((serve,))), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        stage.usage.configure({"a": PRICES})
        caller, _ = await streaming(stage, client, serve, 78)
        caller.abort()
        decision = await stage.sealed()
        expected = PRICES.of(decision.input_tokens or 0, 78)
        assert money(stage) == pytest.approx(expected)
        (row,) = stage.usage.take()
        assert dict(zip(USAGE_COLUMNS, row[1], strict=True))["cost"] == pytest.approx(expected)

    tell()


USAGES: dict[Dialect, dict[str, Any]] = {
    Dialect.CHAT: {
        "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
        "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
    },
    Dialect.MESSAGES: {
        "input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 300,
    },
    Dialect.RESPONSES: {
        "input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010,
        "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
    },
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("serve", USAGES, ids=str)
@pytest.mark.parametrize("client", ["chat", "messages", "responses", "ollama"])
def test_cached_tokens_cost_what_they_cost_in_every_dialect(client: str, serve: Dialect, stream: bool) -> None:
    usage = USAGES[serve]
    text = {"type": "text", "text": "hi"}
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]
    response = {"id": "r", "object": "response", "status": "completed", "model": "x", "output": output, "usage": usage}
    wholes: dict[Dialect, dict[str, Any]] = {
        Dialect.CHAT: {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]},
        Dialect.MESSAGES: {
            "id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn",
            "content": [text],
        },
        Dialect.RESPONSES: response,
    }  # fmt: skip
    ends = {
        Dialect.CHAT: event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        + event({"choices": [], "usage": usage})
        + b"data: [DONE]\n\n",
        Dialect.MESSAGES: event({"type": "content_block_stop", "index": 0})
        + event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage})
        + event({"type": "message_stop"}),
        Dialect.RESPONSES: event({"type": "response.completed", "sequence_number": 9, "response": response}),
    }

    @story(a_serve(dialects=frozenset((serve,))), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        stage.usage.configure({"a": PRICES})
        if stream:
            _, talk = await streaming(stage, client, serve, 2)
            talk.chunk(ends[serve])
            talk.send(b"0\r\n\r\n")
        else:
            caller = await stage.client()
            await caller.send(asking(client, stream=False))
            talk = await stage.asked()
            talk.reply({**wholes[serve], "usage": usage})
        decision = await stage.sealed()
        counted = decision.input_tokens, decision.cached_tokens, decision.cache_write_tokens, decision.output_tokens
        assert counted == (1000, 600, 300, 10)
        assert not decision.tokens_estimated
        assert money(stage) == pytest.approx((100 * 3.0 + 600 * 0.3 + 300 * 3.75 + 10 * 15.0) / 1e6)

    tell()


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_what_deepseek_calls_a_cache_hit_is_cached(client: str) -> None:
    @story(a_serve(dialects=frozenset((Dialect.CHAT,))), keys=(ANN,))
    async def tell(stage: Stage) -> None:
        caller = await stage.client()
        await caller.send(asking(client))
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "prompt_cache_hit_tokens": 60}
        (await stage.asked()).reply({"usage": usage})
        await caller.reply()
        decision = await stage.sealed()
        assert (decision.input_tokens, decision.cached_tokens) == (100, 60)

    tell()
