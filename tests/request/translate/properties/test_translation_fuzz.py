"""Whatever comes in, only a client's fault is told, and a serve's answer is never a reason to break.

The short runs of what `python -m bench.translation_fuzz` does for as long as it is let; what that found stands below.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest
from bench.translation_fuzz import SEEDS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.request.translate.capable import capabilities_of
from tests.request.translate.properties.going_through import CLIENTS, SIGNER, through, translator
from tests.request.translate.properties.stream_grammars import GRAMMARS
from tests.request.translate.properties.translation_worlds import SEEDS as DRAWN
from tests.request.translate.properties.translation_worlds import UPSTREAMS, World, cut, worlds

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError, UpstreamError
from stoker.request.translate.neutral.json_text import loose
from stoker.request.translate.translate import read_prompt, write_prompt

PAIRS = [(upstream, client) for upstream in UPSTREAMS for client in CLIENTS]
SERVES = [
    capabilities_of(engine, dialect, cloud) for dialect in UPSTREAMS for engine, cloud in (("vllm", False), ("", True))
]
SOME = settings(
    max_examples=examples(200, 20), derandomize=True, deadline=None, database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
FEW = settings(SOME, max_examples=examples(25))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from((None, True, False, 0, -1, 2**64, 10**40, 1e300, "", "x", "text", "user", "\udc80", "stoker1."))
    | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(("type", "role", "content", "text", "id", "name", "input", "function", "url", "data", "x")),
        inner, max_size=4,
    ),
    max_leaves=6,
)  # fmt: skip


def ask(dialect: Dialect, body: bytes) -> None:
    """Read, and written for every kind of serve; nothing but a 400 may be raised."""
    refused: list[ClientError] = []
    try:
        prompt, losses = read_prompt(dialect, body)
        for serve in SERVES:
            try:
                assert isinstance(loose(write_prompt(prompt, losses, serve, SIGNER).body), dict)
            except ClientError as error:
                refused.append(error)
    except ClientError as error:
        refused.append(error)
    assert all(error.status == 400 for error in refused)


def changed(document: Any, rng: Random, value: Any) -> Any:
    """One place of the document is another value, or gone, or there twice."""
    if isinstance(document, dict) and document and rng.random() < 0.85:
        name = rng.choice(list(document))
        if rng.random() < 0.08:
            return {key: inner for key, inner in document.items() if key != name}
        return {**document, name: changed(document[name], rng, value)}
    if isinstance(document, list) and document and rng.random() < 0.85:
        at = rng.randrange(len(document))
        if rng.random() < 0.1:
            return [*document, document[at]]
        return [*document[:at], changed(document[at], rng, value), *document[at + 1 :]]
    return value


def garbled(data: bytes, rng: Random) -> bytes:
    """Bytes lost, told twice, and changed."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(4):
            case 0:
                out[at : at + 1] = bytes((rng.randrange(256),))
            case 1:
                del out[at : at + rng.choice((1, 5, 50))]
            case 2:
                out[at:at] = rng.choice((b"\xff", b"\\ud800", b"\x00", b'"', b"{", b"[[[[", b"1e999", b"\n\n", b"null"))
            case _:
                start = rng.randrange(len(out) + 1)
                out[at:at] = out[start : start + 20]
    return bytes(out)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_changed_request_is_read_or_refused(client: Dialect) -> None:
    @SOME
    @given(seed=DRAWN, values=st.lists(VALUES, min_size=1, max_size=3))
    def holds(seed: str, values: list[Any]) -> None:
        rng = Random(seed)
        document = json.loads(rng.choice(SEEDS[f"prompt-{client.value}"]))
        for value in values:
            document = changed(document, rng, value)
        ask(client, json.dumps(document).encode())

    holds()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_garbled_request_is_read_or_refused(client: Dialect) -> None:
    @SOME
    @given(seed=DRAWN)
    def holds(seed: str) -> None:
        rng = Random(seed)
        ask(client, garbled(rng.choice(SEEDS[f"prompt-{client.value}"]).encode("latin-1"), rng))

    holds()


@pytest.mark.parametrize("client", CLIENTS)
def test_any_bytes_are_read_or_refused(client: Dialect) -> None:
    @FEW
    @given(body=st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
    def holds(body: bytes) -> None:
        ask(client, body)

    holds()


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_changed_payloads_give_a_stream_in_order(upstream: Dialect) -> None:
    """Any payload of an answer has any value in any place."""

    @FEW
    @given(world=worlds(upstream), seed=DRAWN, value=VALUES)
    def holds(world: World, seed: str, value: Any) -> None:
        for client in CLIENTS:
            rng = Random(seed)
            frames = []
            for frame in world.frames:
                _, _, data = frame.replace(b"\r\n", b"\n").rstrip(b"\n").rpartition(b"data:")
                payload = loose(data.strip())
                if isinstance(payload, dict) and rng.random() < 0.3:
                    frame = b"data: %b\n\n" % json.dumps(changed(payload, rng, value)).encode()
                frames.append(frame)
            told = GRAMMARS[client](through(client, translator(upstream, client), frames))
            assert told.end in ("end", "error"), client

    holds()


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_garbled_stream_gives_a_stream_in_order(upstream: Dialect) -> None:
    @FEW
    @given(world=worlds(upstream), seed=DRAWN)
    def holds(world: World, seed: str) -> None:
        for client in CLIENTS:
            rng = Random(seed)
            raw = garbled(b"".join(world.frames), rng)
            told = GRAMMARS[client](through(client, translator(upstream, client), cut(raw, rng)))
            assert told.end in ("end", "error"), client

    holds()


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_changed_whole_answer_is_written_or_told_to_be_none(upstream: Dialect) -> None:
    @FEW
    @given(world=worlds(upstream), seed=DRAWN, values=st.lists(VALUES, max_size=3))
    def holds(world: World, seed: str, values: list[Any]) -> None:
        for client in CLIENTS:
            rng = Random(seed)
            document = json.loads(world.whole)
            for value in values:
                document = changed(document, rng, value)
            body = json.dumps(document).encode()
            with contextlib.suppress(UpstreamError):
                told = translator(upstream, client).translate_whole(garbled(body, rng) if rng.random() < 0.2 else body)
                assert isinstance(loose(told), dict)

    holds()


@pytest.mark.parametrize("depth", [900, 1010, 20_000])
@pytest.mark.parametrize(("upstream", "client"), PAIRS)
def test_a_deep_answer_is_read_or_left_out(upstream: Dialect, client: Dialect, depth: int) -> None:
    """As an argument, as a whole answer, as anything at all: nobody runs out of stack."""
    deep = '{"a":' * depth + "1" + "}" * depth
    chunks = {
        Dialect.CHAT: (
            '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":%s}}]}}]}',
            '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
        ),
        Dialect.MESSAGES: (
            '{"type":"message_start","message":{}}',
            '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":%s}}',
            '{"type":"message_delta","delta":{"stop_reason":"tool_use"}}', '{"type":"message_stop"}',
        ),
        Dialect.RESPONSES: (
            '{"type":"response.created","response":{}}',
            '{"type":"response.output_item.done","item":{"type":"function_call","call_id":"a","name":"f","arguments":%s}}',
            '{"type":"response.completed","response":{}}',
        ),
    }  # fmt: skip
    wholes = {
        Dialect.CHAT: '{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":%s}}]}}]}',
        Dialect.MESSAGES: '{"content":[{"type":"tool_use","id":"a","name":"f","input":%s}]}',
        Dialect.RESPONSES: '{"output":[{"type":"function_call","call_id":"a","name":"f","arguments":%s}]}',
    }
    for given_ in (deep, json.dumps(deep), json.dumps(json.dumps(deep))):
        frames = [b"data: %b\n\n" % chunk.replace("%s", given_).encode() for chunk in chunks[upstream]]
        out = through(client, translator(upstream, client), frames)
        assert out.endswith(b"\n")
        try:
            told = translator(upstream, client).translate_whole(wholes[upstream].replace("%s", given_).encode())
        except UpstreamError:
            continue
        assert told.startswith(b"{")


@pytest.mark.parametrize("depth", [900, 1010, 20_000])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_deep_request_is_read_or_refused(client: Dialect, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    for seed in SEEDS[f"prompt-{client.value}"]:
        document = json.loads(seed)
        for name in document:
            body = json.dumps({**document, name: "HERE"}).replace('"HERE"', deep)
            ask(client, body.encode())
        for part in ('"x": 1', '{"type": "object"}', '"schema": {}', '"parameters": {}', '"input_schema": {}'):
            text = json.dumps(document)
            ask(client, text.replace(part, part[: part.rindex(":") + 1] + deep, 1).encode() if ":" in part else b"")


# -- work ----------------------------------------------------------------------------------------------------------


def _calls(work: Callable[[], object]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def _many(client: Dialect, times: int) -> bytes:
    """The dialect's own request, its lists so many times as long."""
    document = json.loads(SEEDS[f"prompt-{client.value}"][0])
    longer = {name: value * times for name, value in document.items() if isinstance(value, list)}
    return json.dumps({**document, **longer}).encode()


@pytest.mark.parametrize("client", CLIENTS)
def test_twice_the_request_is_twice_the_work(client: Dialect) -> None:
    half, full = _many(client, 100), _many(client, 200)
    assert _calls(lambda: ask(client, full)) < 2.1 * _calls(lambda: ask(client, half)) + 1000


# -- found ---------------------------------------------------------------------------------------------------------

_NOT_UTF8 = {
    Dialect.CHAT: b'{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f",'
    b'"arguments":{"x":"\xf8"}}}]}]}',
    Dialect.MESSAGES: b'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use",'
    b'"id":"a","name":"f","input":{"x":"\xf8"}}]}]}',
    Dialect.RESPONSES: b'{"model":"m","input":[{"type":"function_call","call_id":"a","name":"f","arguments":'
    b'{"x":"\xf8"}}]}',
    Dialect.OLLAMA_CHAT: b'{"model":"m","messages":[],"tools":[{"function":{"name":"f","parameters":{"x":"\xf8"}}}]}',
    Dialect.OLLAMA_GENERATE: b'{"model":"m","prompt":"p","format":{"x":"\xf8"}}',
    Dialect.COMPLETIONS: b'{"model":"m","prompt":"p","x":"\xf8"}',
}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_only_passed_on_has_to_be_utf8_too(client: Dialect) -> None:
    with pytest.raises(ClientError, match="not valid JSON") as caught:
        read_prompt(client, _NOT_UTF8[client])
    assert caught.value.code == "bad_json"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_failed_response_is_an_error_of_the_stream(client: Dialect) -> None:
    """It has no `error` of its own on top: whoever relays it must not take the answer for complete."""
    failed = {"type": "response.failed", "response": {"status": "failed", "error": {"code": "x", "message": "no"}}}
    one = translator(Dialect.RESPONSES, client)
    out = one.feed(b"data: %b\n\n" % json.dumps(failed).encode())
    assert one.error is not None
    assert one.error.upstream_message == "no"
    assert GRAMMARS[client](out).end == "error"
