"""A conversation over the whole program: it survives a swap, and is its owner's alone."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.caller import Talk, document, story
from tests.scenarios.plane import PATIENCE, Plane, llama, running, until

from stoker_lab.testing.client import RawClient, RawReply, compose_request

pytestmark = pytest.mark.llama
LONG = "Tell me about the town, the river, the bridge and the mill. " * 6
FEW = 40
KEYS = """keys = [
  { name = "ann", value = "env:ANN", scope = "admin" },
  { name = "bob", value = "env:BOB" },
]"""
VALUES = {"ANN": "sk-ann-" + "1" * 32, "BOB": "sk-bob-" + "2" * 32}


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    kept: dict[str, Any] = {"keep_conversations": True, "parallel": 1, "max_active": 4, "context": 8192}
    with running(llama("spark", **kept), llama("ember", "ember"), front_door=KEYS, environment=VALUES) as plane:
        yield plane


async def say(plane: Plane, key: str, *said: str, model: str = "spark", **fields: Any) -> RawReply:
    """One turn of a conversation; the user begins."""
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": words} for place, words in enumerate(said)]
    body = {"model": model, "messages": messages, "max_tokens": 4, "temperature": 0, **fields}
    bearer = (("authorization", f"Bearer {VALUES[key.upper()]}"),)
    async with RawClient(plane.port, timeout=PATIENCE) as client:
        await client.send(compose_request("POST", "/v1/chat/completions", body, bearer))
        reply = await client.reply()
    assert reply.status == 200, reply.body
    return reply


def read(reply: RawReply) -> int:
    """Tokens of the prompt that the engine worked through."""
    usage = reply.json()["usage"]
    return int(usage["prompt_tokens"]) - int(usage["prompt_tokens_details"]["cached_tokens"])


async def swap_away(plane: Plane) -> None:
    await say(plane, "ann", "Hi", model="ember")


def saved(plane: Plane) -> list[Path]:
    return sorted((plane.state / "conversations").rglob("*.kv"))


@story
async def test_after_a_swap_and_back_only_the_new_turn_is_read(plane: Plane) -> None:
    first = await say(plane, "ann", LONG)
    assert read(first) > 60
    assert "id_slot" in (first.header("x-stoker-translation") or "")
    await swap_away(plane)
    second = await say(plane, "ann", LONG, "Yes.", "And?")
    assert read(second) < FEW
    [file] = saved(plane)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
    assert "town" not in plane.said()


@story
async def test_the_same_words_with_another_key_are_read_as_if_nobody_had_said_them(plane: Plane) -> None:
    await say(plane, "ann", LONG)
    assert read(await say(plane, "bob", LONG)) > 60
    await swap_away(plane)
    assert read(await say(plane, "ann", LONG)) > 60, "bob was the last one in the only sequence"
    await swap_away(plane)
    assert read(await say(plane, "bob", LONG)) < FEW


@story
async def test_a_sequence_that_the_client_asks_for_is_not_the_one_it_gets(plane: Plane) -> None:
    reply = await say(plane, "bob", LONG, id_slot=0)
    changes = (reply.header("x-stoker-translation") or "").split(",")
    assert changes[0] == "dropped:id_slot"
    assert changes[-1] == "id_slot"


@story
async def test_who_comes_past_the_front_door_does_not_reach_what_is_kept(plane: Plane) -> None:
    bearer = (("authorization", f"Bearer {VALUES['BOB']}"),)
    for path in ("completion", "infill", "slots/0"):
        async with RawClient(plane.port, timeout=PATIENCE) as client:
            await client.send(compose_request("POST", f"/upstream/spark/{path}", {"prompt": "x", "id_slot": 0}, bearer))
            assert (await client.reply()).status == 404


@story
async def test_more_requests_than_sequences_are_all_answered(plane: Plane) -> None:
    replies = await asyncio.gather(*(say(plane, key, f"{number}") for number in range(4) for key in ("ann", "bob")))
    assert len(replies) == 8


@story
async def test_who_leaves_in_the_middle_gives_the_sequence_back(plane: Plane) -> None:
    headers = (("authorization", f"Bearer {VALUES['ANN']}"),)
    more = {"stream": True, "max_tokens": 7000, "ignore_eos": True}
    async with Talk(plane, "spark", LONG, headers=headers, **more) as talk:
        await talk.event()
    assert read(await say(plane, "bob", LONG)) > 60


@story
async def test_who_leaves_while_waiting_for_a_sequence_is_gone_at_once(plane: Plane) -> None:
    headers = (("authorization", f"Bearer {VALUES['ANN']}"),)
    more = {"stream": True, "max_tokens": 7000, "ignore_eos": True}
    async with Talk(plane, "spark", LONG, headers=headers, **more) as talk:
        await talk.event()
        async with RawClient(plane.port, timeout=PATIENCE) as client:
            await client.send(compose_request("POST", "/v1/chat/completions", document("spark", "wait"), headers))
            await until(lambda: plane.serve("spark")["in_flight"] == 2, "the second one has its place")
        await until(lambda: plane.serve("spark")["in_flight"] == 1, "it is gone")


@story
async def test_an_unload_by_the_operator_removes_what_was_saved(plane: Plane) -> None:
    await say(plane, "ann", LONG)
    await swap_away(plane)
    await until(lambda: saved(plane), "it is saved")
    status, answer = await asyncio.to_thread(plane.admin, "unload", serve="spark")
    assert status == 200, answer
    assert saved(plane) == []


@story
async def test_it_survives_a_restart_of_stoker(plane: Plane) -> None:
    await say(plane, "ann", LONG)
    plane.signal(15)
    assert plane.exit_code() == 0
    assert saved(plane)
    plane.start()
    assert read(await say(plane, "ann", LONG, "Yes.", "And?")) < FEW
