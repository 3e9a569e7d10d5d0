"""Streams: how soon, how they break, who leaves, who is slow."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import STREAMING, Talk, ask, closing_errors, errors, is_complete, story, words
from tests.scenarios.plane import Plane, running, serve, until

from stoker_lab.testing.client import FramingError, RawClient
from stoker_lab.testing.script.script import Script

ENDLESS = "script: gap=0.02 tokens=100000"


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("a"),
        serve("b"),
        serve("one", slot=None, max_active=1),
        serve("slow", Script(listen_after=0.6), slot=None),
        front_door='commit_after = "30s"',
        keeps_engines=True,
    ) as plane:
        yield plane


@pytest.mark.parametrize("dialect", ["chat", "messages"])
@story
async def test_each_delta_reaches_the_client_as_it_comes(plane: Plane, dialect: str) -> None:
    """Behaviour 30: deltas every 50 ms are not collected. Some come alone even where this machine is very busy."""
    await ask(plane, "a")
    async with Talk(plane, "a", "script: gap=0.05 tokens=20", dialect, stream=True) as stream:
        times = [event.at for event in await stream.rest() if "tok" in event.data and "completed" not in event.name]
    deltas = times[:20]
    assert len(deltas) == 20
    alone = sum(later - earlier > 0.02 for earlier, later in itertools.pairwise(deltas))
    assert alone >= 3, deltas


@pytest.mark.parametrize(("dialect", "streamed"), [("chat", True), ("messages", False), ("responses", True)])
@story
async def test_a_client_that_leaves_ends_the_upstream_call(plane: Plane, dialect: str, streamed: bool) -> None:
    """Behaviour 31: in mid-stream, or while a reply that is not streamed is being made."""
    await ask(plane, "a")
    before = plane.scripted("a")["disconnected"]
    text = ENDLESS if streamed else "script: first_event_after=60"
    async with Talk(plane, "a", text, dialect, headers=(("x-request-id", f"l-{dialect}"),), stream=streamed) as talk:
        if streamed:
            await talk.event()
        await until(lambda: plane.scripted("a")["in_flight"] == 1, "it is in the engine")
        talk.abort()
        await until(lambda: plane.scripted("a")["disconnected"] == before + 1, "the engine notices", 3.0)
    await until(lambda: plane.serve("a")["in_flight"] == 0, "the lease is free")
    assert plane.decision(f"l-{dialect}")["outcome"] == "client_left"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@story
async def test_a_client_that_leaves_before_the_first_token_ends_the_upstream_call(plane: Plane, streamed: bool) -> None:
    """Behaviour 31."""
    await ask(plane, "a")
    before = plane.scripted("a")["disconnected"]
    text = "script: role_first=yes first_event_after=60"
    async with Talk(plane, "a", text, headers=(("x-request-id", f"f-{streamed}"),), stream=streamed) as talk:
        await until(lambda: plane.scripted("a")["in_flight"] == 1, "it is in the engine")
        await talk.close()
        await until(lambda: plane.scripted("a")["disconnected"] == before + 1, "the engine notices", 3.0)
    assert plane.decision(f"f-{streamed}")["outcome"] == "client_left"
    assert plane.decision(f"f-{streamed}")["status"] == 0, "something was sent"


@story
async def test_a_client_that_leaves_while_queued_gives_its_place_back(plane: Plane) -> None:
    """Behaviour 31."""
    async with Talk(plane, "one", ENDLESS, stream=True) as holder:
        await holder.event()
        before = plane.scripted("one")["started"] - 1
        async with Talk(plane, "one", headers=(("x-request-id", "queued-left"),), stream=True) as waiting:
            await until(lambda: plane.serve("one")["queued"] == 1, "it waits")
            waiting.abort()
            await until(lambda: plane.serve("one")["queued"] == 0, "its place is free", 3.0)
        decision = plane.decision("queued-left")
        assert (decision["outcome"], decision["attempts"]) == ("client_left", 0)
        assert plane.scripted("one")["started"] == before + 1
        holder.abort()


@story
async def test_a_client_that_leaves_while_its_model_loads_is_not_called_for(plane: Plane) -> None:
    """Behaviour 31: the load itself goes on, since nobody else needs the place."""
    plane.unload("slow")
    async with Talk(plane, "slow", headers=(("x-request-id", "load-left"),), stream=True) as waiting:
        await until(lambda: plane.serve("slow")["state"] == "starting", "it loads")
        waiting.abort()
        await until(lambda: plane.serve("slow")["queued"] == 0, "its place is free", 3.0)
    decision = plane.decision("load-left")
    assert (decision["outcome"], decision["attempts"]) == ("client_left", 0)
    await until(lambda: plane.serve("slow")["state"] == "ready", "the load ends")
    assert plane.scripted("slow")["started"] == 0


@pytest.mark.parametrize(("dialect", "how"), list(zip(STREAMING, ["close", "reset", "end", "close"], strict=True)))
@story
async def test_an_upstream_that_ends_in_mid_stream_gives_one_error_and_no_normal_end(
    plane: Plane, dialect: str, how: str
) -> None:
    """Behaviour 32."""
    async with Talk(plane, "a", f"script: die_after=3 die_how={how} gap=0.01", dialect, stream=True) as stream:
        head = await stream.opened()
        events = await stream.rest()
        assert head.status == 200
        assert await stream.read() == b"", "the connection is still open"
    found = errors(events, dialect)
    assert len(found) == 1
    assert closing_errors(events, dialect) == found, "something came after the error"
    assert found[0]["code"] == "upstream_broke"
    assert not is_complete(events, dialect)
    assert not any("stop" in event.data and "stop_reason" not in event.data for event in events[:-1])
    decision = plane.decision(head.header("x-request-id") or "")
    assert (decision["outcome"], decision["reason"]) == ("upstream_failed", "upstream_broke")


@pytest.mark.parametrize(("dialect", "streamed"), list(zip(STREAMING, [True, False] * 2, strict=True)))
@story
async def test_a_failure_before_the_first_byte_is_a_real_status(plane: Plane, dialect: str, streamed: bool) -> None:
    """Behaviours 33 and 40."""
    for script, status, code in (
        ("die_after=-1", 502, "upstream_broke"),
        ("role_first=yes die_after=0 gap=0.01", 502, "upstream_broke"),
        ("error_status=500", 502, "upstream_error"),
        ("error_status=503 retry_after=7", 503, "upstream_busy"),
    ):
        reply = await ask(plane, "a", f"script: {script}", dialect, stream=streamed)
        assert reply.status == status, (script, reply)
        assert reply.header("content-type") == "application/json"
        document = reply.json()
        is_told = "scripted error" in document["error"]["message"]
        assert (document["error"]["code"], document["error"]["source"]) == (code, "upstream" if is_told else "stoker")
        assert ("type" in document) == (dialect == "messages")
        assert reply.header("retry-after") == ("7" if status == 503 else None)


@story
async def test_a_slow_reader_pauses_the_serve_and_memory_stays_bounded(plane: Plane) -> None:
    """Behaviour 38."""
    await ask(plane, "a")
    before = plane.memory()
    async with Talk(plane, "a", "script: endless_mb=150", stream=True, receive_buffer=16_384) as talk:
        await talk.opened()
        await until(lambda: plane.scripted("a")["in_flight"] == 1, "it flows")
        peak = 0
        for _ in range(25):
            peak = max(peak, plane.memory())
            await asyncio.sleep(0.02)  # nothing is read meanwhile: that is the subject
        assert plane.scripted("a")["in_flight"] == 1, "the engine could send all of it"
        assert peak - before < 24 * 2**20
        talk.abort()


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@story
async def test_a_gzip_upstream_is_read_and_only_a_whole_answer_passes_unchanged(plane: Plane, streamed: bool) -> None:
    """Behaviour 39."""
    ours = (("accept-encoding", "gzip"),)
    text = "script: gzip=yes gap=0.005 prompt_tokens=17 cached_tokens=5"
    async with Talk(plane, "a", text, headers=ours, stream=streamed, stream_options={"include_usage": True}) as talk:
        reply = await talk.reply()
    assert reply.header("content-encoding") == (None if streamed else "gzip")
    assert b"tok19" in (reply.body if streamed else gzip.decompress(reply.body))
    decision = plane.decision(reply.header("x-request-id") or "")
    figures = (decision["input_tokens"], decision["cached_tokens"], decision["output_tokens"])
    assert figures == (17, 5, 20)


@story
async def test_usage_is_the_serves_own_and_its_extra_chunk_is_taken_out_again(plane: Plane) -> None:
    """A stream is asked for usage; a client that had not asked does not see it."""
    async with Talk(plane, "a", "script: prompt_tokens=11 completion_tokens=99", stream=True) as stream:
        events = await stream.rest()
        head = await stream.opened()
    assert not any('"usage"' in event.data and '"prompt_tokens"' in event.data for event in events)
    decision = plane.decision(head.header("x-request-id") or "")
    assert (decision["input_tokens"], decision["output_tokens"]) == (11, 99)
    assert "include_usage" in decision["translation"]
    async with Talk(plane, "a", "script: prompt_tokens=11", stream=True, stream_options={"include_usage": True}) as own:
        assert any('"prompt_tokens":11' in event.data for event in await own.rest())
    async with Talk(plane, "a", "script: usage=no", stream=True) as silent:
        await silent.rest()
        unknown = plane.decision((await silent.opened()).header("x-request-id") or "")
    assert (unknown["input_tokens"], unknown["output_tokens"]) == (33, 20), "estimated"
    assert unknown["tokens_estimated"]


@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_a_long_silence_is_bridged_by_pings_and_then_ended(dialect: str) -> None:
    """Commit after silence, pings, the stall watchdog: each in the caller's dialect."""
    door = 'commit_after = "300ms"\nkeep_alive = "100ms"\nstall_timeout = "500ms"'
    with running(serve("late", Script(listen_after=0.6)), front_door=door) as plane:
        async with Talk(plane, "late", "script: stall_after=2", dialect, stream=True) as stream:
            first = await stream.event()
            assert first.comment == "ping" or first.name == "ping", "the 200 came with the load under way"
            events = await stream.rest()
        found = errors(events, dialect)
        assert [error["code"] for error in found] == ["stalled"]
        assert closing_errors(events, dialect) == found
        spoken = max(place for place, event in enumerate(events) if "tok1" in event.data)
        later = [event for event in events[spoken:] if event.comment == "ping" or event.name == "ping"]
        assert len(later) > 1, "no pings in the silence after the second token"


@story
async def test_a_hundred_random_disconnects_leave_nothing_behind(plane: Plane) -> None:
    """Seeded: queued, loading, before the first token, in mid-stream, not streamed; in every dialect."""
    chance = random.Random(20260)
    faults = ("", "first_event_after=0.2", "gap=0.02 tokens=100", "role_first=yes first_event_after=0.3", "tokens=2")

    async def one(number: int) -> None:
        model = chance.choice(("a", "b", "one", "slow"))
        script = f"script: {chance.choice(faults)}"
        dialect, streamed, abort = chance.choice(STREAMING), chance.random() < 0.7, chance.random() < 0.5
        leave = chance.random() * 0.6
        talk = Talk(plane, model, script, dialect, headers=(("x-request-id", f"gone-{number}"),), stream=streamed)
        try:
            await talk.connect()
            async with asyncio.timeout(leave):
                while await talk.read():
                    pass
        except (TimeoutError, ConnectionError, FramingError):
            pass  # the moment to leave has come
        finally:
            if abort:
                talk.abort()
            await talk.close()

    waiting = [one(number) for number in range(100)]
    while waiting:
        batch = [waiting.pop() for _ in range(min(len(waiting), chance.randint(20, 30)))]
        await asyncio.gather(*batch)
    await until(plane.is_settled, lambda: f"nothing is under way: {plane.status()}")
    await until(lambda: len({d["id"] for d in plane.decisions() if d["id"].startswith("gone-")}) == 100, "all sealed")
    outcomes = {d["outcome"] for d in plane.decisions() if d["id"].startswith("gone-")}
    assert outcomes <= {"client_left", "served", "cut", "refused"}, outcomes
    assert "client_left" in outcomes
    assert (await ask(plane, "a")).json()["choices"][0]["message"]["content"] == words(20), "it still serves"


@story
async def test_a_kept_connection_serves_many_requests_in_order(plane: Plane) -> None:
    """Keep-alive on both sides: no reply is mixed up with another."""
    await ask(plane, "a")
    async with RawClient(plane.port, timeout=30) as client:
        for count in (1, 7, 3):
            for streamed in (True, False):
                text = {"role": "user", "content": f"script: tokens={count}"}
                reply = await client.ask(
                    "POST", "/v1/chat/completions", {"model": "a", "stream": streamed, "messages": [text]}
                )
                assert reply.status == 200
                assert f"tok{count - 1}" in reply.body.decode()
                assert f"tok{count}" not in reply.body.decode()
