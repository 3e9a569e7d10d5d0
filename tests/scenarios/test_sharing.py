"""A team on one machine: keys, limits, shares, defaults, usage."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from tests.scenarios.caller import document, story
from tests.scenarios.plane import Plane, poll, running, serve, until

from stoker_lab.testing.client import RawClient, RawReply
from stoker_lab.testing.script.script import Script

KEYS = {name: f"key-of-{name}-with-16-letters" for name in ("boss", "ann", "bob", "agent", "night", "clerk")}
DOOR = """queue_bytes = "256KiB"
keys = [
  { name = "boss", value = "env:boss", scope = "admin" },
  { name = "ann", value = "env:ann" },
  { name = "bob", value = "env:bob" },
  { name = "agent", value = "env:agent", app = "agents", requests_per_minute = 1000 },
  { name = "night", value = "env:night", priority = "background" },
  { name = "clerk", value = "env:clerk", app = "office" },
]
[app.agents]
tokens_per_day = 5000
max_active = 2
[app.office]
default_model = "fast"
system_prompt = "Be brief."
sampling = { temperature = 0.25 }
max_output = 3
"""
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("fast", Script(tokens=10, prompt_tokens=7), parallel=2, queue=300, queue_timeout="60s"),
        serve("other", Script(tokens=10)),
        front_door=DOOR,
        environment=KEYS,
        keeps_engines=True,
    ) as plane:
        yield plane


async def ask(plane: Plane, key: str, model: str = "fast", path: str = CHAT, **fields: Any) -> RawReply:
    async with RawClient(plane.port, timeout=60) as client:
        dialect = "messages" if "messages" in path else "chat"
        given = document(model, fields.pop("text", "hello"), dialect, **fields)
        return await client.ask("POST", path, given, authorization=f"Bearer {KEYS.get(key, key)}")


def begin(work: Coroutine[Any, Any, RawReply]) -> asyncio.Task[RawReply]:
    """The story awaits it later."""
    return asyncio.get_running_loop().create_task(work)


def made(plane: Plane, name: str, **fields: object) -> str:
    """A key made at run time; its value."""
    status, answer = plane.ask("POST", "/admin/keys", {"name": name, **fields})
    assert status == 200, answer
    return str(answer["key"])


def settings(plane: Plane, key: str, **changes: object) -> Any:
    status, answer = plane.ask("POST", f"/admin/keys/{key}/set", {"settings": changes, "reason": "a test"})
    assert status == 200, answer
    return answer


def reset(plane: Plane, key: str) -> None:
    assert plane.ask("POST", f"/admin/keys/{key}/reset", {})[0] == 200


def usage(plane: Plane, by: str = "key") -> dict[str, dict[str, Any]]:
    """Figures by the value of the dimension."""
    status, answer = plane.ask("GET", f"/v1/usage?by={by}")
    assert status == 200, answer
    return {row[by]: row for row in answer["data"]}


def code_of(reply: RawReply) -> str:
    return str(reply.json()["error"]["code"])


# -- keys that live ---------------------------------------------------------------------------------------------------


@story
async def test_a_key_is_shown_once_works_at_once_and_its_value_is_nowhere_on_disk(plane: Plane) -> None:
    value = made(plane, "guest")
    assert value.startswith("sk-stoker-")
    assert (await ask(plane, value)).status == 200
    status, shown = plane.ask("GET", "/admin/keys/guest")
    assert (status, shown["state"], shown["begins"]) == (200, "valid", value[:14])
    assert value not in json.dumps(plane.ask("GET", "/admin/keys")[1])
    for file in plane.directory.rglob("*"):
        if file.is_file() and not file.is_socket():
            assert value.encode() not in file.read_bytes(), file
    assert plane.ask("POST", "/admin/keys", {"name": "guest"})[1]["error"]["code"] == "key_exists"
    assert plane.ask("POST", "/admin/keys/guest/delete", {})[0] == 200
    assert (await ask(plane, value)).status == 401


@story
async def test_a_key_is_taken_away_now_and_given_back(plane: Plane) -> None:
    value = made(plane, "leaver")
    running_request = begin(ask(plane, value, text="script: gap=0.5", stream=True))
    await asyncio.sleep(0.3)
    status, answer = plane.ask("POST", "/admin/keys/leaver/disable", {"reason": "left the team", "cut": True})
    assert (status, answer["state"], answer["ended_requests"]) == (200, "disabled", 1)
    reply = await ask(plane, value)
    assert (reply.status, code_of(reply)) == (401, "key_disabled")
    await running_request
    assert plane.ask("POST", "/admin/keys/leaver/enable", {})[1]["state"] == "valid"
    assert (await ask(plane, value)).status == 200
    plane.ask("POST", "/admin/keys/leaver/delete", {})


@story
async def test_both_values_work_while_a_rotation_is_under_way_and_then_the_new_one(plane: Plane) -> None:
    old = made(plane, "robot")
    new = plane.ask("POST", "/admin/keys/robot/rotate", {"grace": 60})[1]["key"]
    assert [(await ask(plane, value)).status for value in (old, new)] == [200, 200]
    last = plane.ask("POST", "/admin/keys/robot/rotate", {"grace": 0})[1]["key"]
    assert [(await ask(plane, value)).status for value in (old, new, last)] == [401, 401, 200]
    plane.ask("POST", "/admin/keys/robot/delete", {})


@story
async def test_a_key_expires(plane: Plane) -> None:
    value = made(plane, "visitor", expires_in=0.3)
    assert (await ask(plane, value)).status == 200
    await asyncio.sleep(0.4)
    reply = await ask(plane, value)
    assert (reply.status, code_of(reply)) == (401, "key_expired")
    assert plane.ask("GET", "/admin/keys/visitor")[1]["state"] == "expired"
    plane.ask("POST", "/admin/keys/visitor/delete", {})


def test_what_is_in_the_file_is_changed_there_but_can_be_disabled_here(plane: Plane) -> None:
    status, answer = plane.ask("POST", "/admin/keys/ann/rotate", {})
    assert (status, answer["error"]["code"]) == (409, "configured_key")
    assert plane.ask("POST", "/admin/keys/ann/disable", {})[1]["state"] == "disabled"
    reset(plane, "ann")


@pytest.mark.parametrize(
    ("path", "given", "says"),
    [
        ("/admin/keys", {"name": "a b"}, "is not a valid name"),
        ("/admin/keys", {"name": "x", "app": "nope"}, "there is no application 'nope'"),
        ("/admin/keys", {"name": "x", "settings": {"requests_per_minut": 1}}, "did you mean 'requests_per_minute'"),
        ("/admin/keys", {"name": "x", "settings": {"requests_per_minute": -1}}, "'requests_per_minute' is too small"),
        ("/admin/keys", {"name": "x", "settings": {"cost_per_day": -1}}, "is too small: more than 0"),
        ("/admin/keys", {"name": "x", "settings": {"scope": "root"}}, "use inference, observe or admin"),
        ("/admin/keys", {"name": "x", "expires_in": -5}, "'expires_in' must be above 0"),
        ("/admin/keys/nobody/disable", {}, "there is no key 'nobody'"),
        ("/admin/keys/ann/explode", {}, "there is no verb 'explode'"),
    ],
)
def test_what_cannot_be_done_says_what_and_why(plane: Plane, path: str, given: object, says: str) -> None:
    status, answer = plane.ask("POST", path, given)
    assert status in (400, 404)
    assert says in answer["error"]["message"]


@story
async def test_only_administrators_manage_keys(plane: Plane) -> None:
    async with RawClient(plane.port, timeout=30) as client:
        reply = await client.ask("GET", "/admin/keys", None, authorization=f"Bearer {KEYS['ann']}")
    assert (reply.status, code_of(reply)) == (403, "scope")


# -- limits -----------------------------------------------------------------------------------------------------------


@story
async def test_beyond_a_limit_is_429_that_says_which_and_until_when(plane: Plane) -> None:
    await until(lambda: time.time() % 60 < 55, "no minute ends meanwhile")
    settings(plane, "bob", requests_per_minute=2)
    try:
        replies = [await ask(plane, "bob") for _ in range(3)]
    finally:
        reset(plane, "bob")
    assert [reply.status for reply in replies] == [200, 200, 429]
    error = replies[2].json()["error"]
    assert error["code"] == "rate_limit_exceeded"
    assert "key 'bob' has reached its requests_per_minute: 2 of 2" in error["message"]
    assert 1 <= int(replies[2].header("retry-after") or 0) <= 60
    assert [reply.header("x-ratelimit-remaining-requests") for reply in replies] == ["1", "0", "0"]
    assert 'stoker_key_limited_total{key="bob"} 1.0' in plane.ask("GET", "/metrics")[1]
    assert (await ask(plane, "bob")).status == 200, "the limit is gone"


@story
async def test_a_lowered_context_counts_from_the_next_request_on(plane: Plane) -> None:
    text = "word " * 200
    ask_other = partial(ask, plane, "ann", "other")
    assert (await ask_other(text=text)).status == 200
    settings(plane, "ann", context=100)
    reply = await ask_other(text=text)
    assert (reply.status, code_of(reply)) == (400, "context_length_exceeded")
    assert "key 'ann' (100 tokens)" in reply.json()["error"]["message"]
    assert (await ask_other()).status == 200
    reset(plane, "ann")
    assert (await ask_other(text=text)).status == 200


@story
async def test_an_application_limits_all_its_keys_together_and_tokens_are_those_that_the_engine_counted(
    plane: Plane,
) -> None:
    value = made(plane, "second", app="agents")
    for key in ("agent", value):
        assert (await ask(plane, key, max_tokens=50)).status == 200
    limits = plane.ask("GET", "/admin/keys/second")[1]["limits"]
    [tokens] = [one for one in limits if one["limit"] == "tokens_per_day"]
    assert tokens["owner"] == "application 'agents'"
    assert tokens["used"] == 2 * (7 + 10)
    slow = [begin(ask(plane, key, text="script: first_event_after=1")) for key in ("agent", value)]
    await asyncio.sleep(0.2)
    reply = await ask(plane, "agent")
    assert (reply.status, "application 'agents' already runs 2" in reply.json()["error"]["message"]) == (429, True)
    assert [(await one).status for one in slow] == [200, 200]
    plane.ask("POST", "/admin/keys/second/delete", {})


@story
async def test_what_writes_no_text_reserves_no_output(plane: Plane) -> None:
    """A chat without a ceiling would reserve all that is left, so that the next request had to wait."""
    settings(plane, "bob", output_tokens_per_minute=100)
    assert (await ask(plane, "bob", model="other", max_tokens=5)).status == 200
    plane.scripted("other", first_event_after=0.5)

    async def embed() -> RawReply:
        async with RawClient(plane.port, timeout=30) as client:
            given = {"model": "other", "input": ["one", "two"]}
            return await client.ask("POST", "/v1/embeddings", given, authorization=f"Bearer {KEYS['bob']}")

    both = [begin(embed()), begin(embed())]
    assert [(await one).status for one in both] == [200, 200]
    plane.scripted("other", first_event_after=0.0)
    reset(plane, "bob")


@story
async def test_a_request_that_fails_uses_no_tokens(plane: Plane) -> None:
    settings(plane, "bob", tokens_per_day=1000)
    assert (await ask(plane, "bob", model="nothing")).status == 404
    async with RawClient(plane.port, timeout=30) as client:
        await client.ask("POST", CHAT, None, authorization=f"Bearer {KEYS['bob']}")
    [tokens] = plane.ask("GET", "/admin/keys/bob")[1]["limits"]
    assert tokens["used"] == 0
    reset(plane, "bob")


def test_the_sdks_see_the_headers_and_back_off_by_themselves(plane: Plane) -> None:
    poll(lambda: time.time() % 60 < 50, "the next minute is not so near that the limit frees itself")
    settings(plane, "bob", requests_per_minute=1, tokens_per_minute=100_000)
    base = f"http://127.0.0.1:{plane.port}"
    ask_openai = openai.OpenAI(base_url=f"{base}/v1", api_key=KEYS["bob"], max_retries=0).chat.completions
    ask_anthropic = anthropic.Anthropic(base_url=base, api_key=KEYS["bob"], max_retries=0).messages
    try:
        turns: Any = [{"role": "user", "content": "hi"}]
        raw = ask_openai.with_raw_response.create(model="fast", messages=turns, max_tokens=50)
        assert raw.headers["x-ratelimit-limit-requests"] == "1"
        assert raw.headers["x-ratelimit-remaining-requests"] == "0"
        assert raw.headers["x-ratelimit-remaining-tokens"]
        with pytest.raises(openai.RateLimitError) as refused:
            ask_openai.create(model="fast", messages=turns)
        assert refused.value.code == "rate_limit_exceeded"
        with pytest.raises(anthropic.RateLimitError) as other:
            ask_anthropic.create(model="fast", messages=turns, max_tokens=50)
        headers = other.value.response.headers
        assert headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert headers["anthropic-ratelimit-requests-reset"].endswith("Z")
        assert 1 <= float(headers["retry-after"]) <= 60
    finally:
        reset(plane, "bob")


@story
async def test_an_sdk_waits_as_it_is_told_to_and_then_succeeds(plane: Plane) -> None:
    settings(plane, "bob", max_active=1)
    slow = begin(ask(plane, "bob", text="script: first_event_after=1.5"))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{plane.port}/v1", api_key=KEYS["bob"], max_retries=5
    ) as client:
        turns: Any = [{"role": "user", "content": "hi"}]
        answer = await client.chat.completions.create(model="fast", messages=turns)
    assert answer.choices
    assert time.monotonic() - began >= 1.0
    assert (await slow).status == 200
    reset(plane, "bob")


# -- defaults ---------------------------------------------------------------------------------------------------------


@story
async def test_an_application_has_defaults_and_the_request_wins(plane: Plane) -> None:
    reply = await ask(plane, "clerk", model="gpt-unknown", max_tokens=50)
    assert reply.status == 200, reply.body
    assert reply.json()["usage"]["completion_tokens"] == 3
    changes = (reply.header("x-stoker-translation") or "").split(",")
    assert {"default_model", "max_output", "default:temperature", "system_prompt"} <= set(changes)
    sent = json.loads(plane.received("fast", CHAT)[-1]["body"])
    assert (sent["temperature"], sent["messages"][0]) == (0.25, {"role": "system", "content": "Be brief."})
    await ask(plane, "clerk", temperature=0.9)
    assert json.loads(plane.received("fast", CHAT)[-1]["body"])["temperature"] == 0.9
    reply = await ask(plane, "ann", model="gpt-unknown")
    assert reply.status == 404, "off unless set"


# -- fair shares ------------------------------------------------------------------------------------------------------


@story
async def test_a_key_that_floods_delays_another_one_by_the_places_it_holds_now(plane: Plane) -> None:
    """Each answer takes about 50 ms on one of two places; behind 100 of them, one at a time takes about two answers."""
    assert (await ask(plane, "ann")).status == 200
    flood = [begin(ask(plane, "ann", text="script: first_event_after=0.05")) for _ in range(100)]
    await asyncio.sleep(0.3)
    times = []
    for _ in range(10):
        began = time.monotonic()
        reply = await ask(plane, "bob", text="script: first_event_after=0.05")
        times.append(time.monotonic() - began)
        assert reply.status == 200
    ahead = sum(not one.done() for one in flood)
    assert ahead > 20, "the flood still waits"
    assert {(await one).status for one in flood} == {200}
    assert sorted(times)[5] < 1.5, times


@story
async def test_flex_requests_are_background_requests(plane: Plane) -> None:
    """They never cause a swap while the resident is in use."""
    assert (await ask(plane, "ann")).status == 200
    busy = begin(ask(plane, "ann", text="script: first_event_after=1"))
    await asyncio.sleep(0.1)
    flex = begin(ask(plane, "bob", model="other", service_tier="flex"))
    night = begin(ask(plane, "night", model="other"))
    await asyncio.sleep(0.6)  # `max_wait` is 300 ms: anybody else would have got the slot
    assert plane.serve("fast")["state"] == "ready"
    assert not flex.done()
    assert (await busy).status == 200
    assert {(await flex).status, (await night).status} == {200}


@story
async def test_a_background_request_gives_way_where_its_client_allows_it(plane: Plane) -> None:
    assert (await ask(plane, "ann")).status == 200
    async with RawClient(plane.port, timeout=60) as one, RawClient(plane.port, timeout=60) as two:
        given = document("fast", "script: first_event_after=5", "chat")
        headers = {"authorization": f"Bearer {KEYS['night']}", "x-stoker-preemptible": "true"}
        background = [begin(c.ask("POST", CHAT, given, **headers)) for c in (one, two)]
        await asyncio.sleep(0.3)
        assert (await ask(plane, "bob")).status == 200
        replies = [await each for each in background]
    assert 503 in {reply.status for reply in replies}
    assert all(reply.header("retry-after") for reply in replies if reply.status == 503)


@story
async def test_bodies_of_waiting_requests_have_a_limit_of_their_own(plane: Plane) -> None:
    assert (await ask(plane, "ann")).status == 200
    running_requests = [begin(ask(plane, "ann", text="script: first_event_after=1")) for _ in range(2)]
    await asyncio.sleep(0.3)
    small = begin(ask(plane, "bob"))
    reply = await ask(plane, "bob", text="x" * 300_000)
    assert (reply.status, code_of(reply), reply.header("retry-after")) == (503, "queue_bytes", "5")
    assert plane.status()["frontdoor"]["waiting_bodies"]["refused"] == 1
    assert {(await one).status for one in (*running_requests, small)} == {200}
    assert plane.status()["frontdoor"]["waiting_bodies"]["held"] == 0
    assert (await ask(plane, "bob", text="x" * 300_000)).status == 200, "it need not wait"


# -- usage ------------------------------------------------------------------------------------------------------------


@story
async def test_usage_agrees_with_what_the_engine_counted_to_the_token(plane: Plane) -> None:
    before = usage(plane).get("bob", {"requests": 0, "input_tokens": 0, "output_tokens": 0, "failed": 0})
    for index in range(6):
        path = "/v1/messages" if index % 2 else CHAT
        reply = await ask(plane, "bob", path=path, stream=index >= 3)
        assert reply.status == 200
    assert (await ask(plane, "bob", model="none")).status == 404
    after = usage(plane)["bob"]
    grown = {name: after[name] - before[name] for name in ("requests", "failed", "input_tokens", "output_tokens")}
    assert grown == {"requests": 7, "failed": 0, "input_tokens": 6 * 7, "output_tokens": 6 * 10}
    assert after["accelerator_seconds"] > 0
    assert after["ttft"] > 0


@story
async def test_metrics_have_a_series_for_each_key(plane: Plane) -> None:
    assert (await ask(plane, "bob")).status == 200
    wanted = 'stoker_key_tokens_total{app="",key="bob",kind="output"}'
    poll(lambda: wanted in plane.ask("GET", "/metrics")[1], "the next write of usage")


@story
async def test_a_key_sees_its_own_usage_and_nobody_elses(plane: Plane) -> None:
    await ask(plane, "ann")
    async with RawClient(plane.port, timeout=30) as client:
        reply = await client.ask("GET", "/v1/usage?by=key,model", None, authorization=f"Bearer {KEYS['ann']}")
        assert {row["key"] for row in reply.json()["data"]} == {"ann"}
        reply = await client.ask("GET", "/v1/usage?key=bob", None, authorization=f"Bearer {KEYS['ann']}")
        assert {row["key"] for row in reply.json()["data"]} == {"ann"}
        reply = await client.ask("GET", "/v1/usage?by=key%2Cday", None, authorization=f"Bearer {KEYS['ann']}")
        assert reply.json()["by"] == ["key", "day"]
        reply = await client.ask("GET", "/v1/usage?by=colour", None, authorization=f"Bearer {KEYS['ann']}")
        assert (reply.status, code_of(reply)) == (400, "bad_field")


@story
async def test_seconds_of_swaps_are_those_of_the_key_that_caused_them(plane: Plane) -> None:
    before = usage(plane).get("bob", {}).get("swap_seconds", 0)
    current = "other" if plane.serve("fast")["state"] == "ready" else "fast"
    assert (await ask(plane, "bob", model=current)).status == 200
    poll(lambda: usage(plane)["bob"]["swap_seconds"] > before, "the swap is counted")


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_keys_limits_and_usage_survive_a_kill() -> None:
    with running(
        serve("fast", Script(tokens=10, prompt_tokens=7), slot=None), front_door=DOOR, environment=KEYS
    ) as plane:
        value = made(plane, "guest", settings={"tokens_per_day": 60})
        settings(plane, "ann", context=2048)
        assert [asyncio.run(ask(plane, value, max_tokens=10)).status for _ in range(2)] == [200, 200]
        time.sleep(2.2)  # what is older than a second is on disk
        assert plane.process is not None
        os.kill(plane.process.pid, signal.SIGKILL)
        plane.process.wait()
        plane.start()
        shown = plane.ask("GET", "/admin/keys/guest")[1]
        assert [(one["limit"], one["used"]) for one in shown["limits"]] == [("tokens_per_day", 34)]
        assert plane.ask("GET", "/admin/keys/ann")[1]["override"]["settings"] == {"context": 2048}
        assert usage(plane)["guest"]["output_tokens"] == 20
        assert asyncio.run(ask(plane, value, max_tokens=10)).status == 200
        assert asyncio.run(ask(plane, value, max_tokens=10)).status == 429


def test_after_a_restart_it_says_that_keys_made_meanwhile_are_asked_for() -> None:
    with running(serve("fast", slot=None)) as plane:
        made(plane, "guest")
        plane.signal(signal.SIGTERM)
        assert plane.exit_code() == 0
        assert "see `stoker keys list`" not in plane.said()
        plane.start()
        assert "requests need one of the keys that `stoker keys create` made: see `stoker keys list`" in plane.said()
        listens = plane.said().rindex("listening on")
        assert "see `stoker keys list`" in plane.said()[listens:], "and what to type comes last"
        assert "web page:" in plane.said()[listens:]
