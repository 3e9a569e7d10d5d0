"""What the last requests said, as an administrator sees it: in memory only, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.scenarios.caller import Talk, ask, story
from tests.scenarios.plane import Plane, running, serve

SECRET_WORDS = "a-prompt-that-nobody-may-find"
OBSERVE, ADMIN, USER = "key-that-may-look", "key-that-may-act", "key-that-may-ask"
KEYS = """
keys = [{ name = "looker", value = "env:OBSERVE", scope = "observe" },
  { name = "boss", value = "env:ADMIN", scope = "admin" }, { name = "user", value = "env:USER" }]
"""
MEMORY = '[capture]\nmemory = "2MiB"'
OTHER_TABLES = """
[edge.gpu]
static = "10.0.0.7"
port = 8000
model = "m"
key = "env:WORKER"
[clusters.lab]
address = "http://10.0.0.7:8265"
token = "env:CLUSTER"
"""
TABLE_SECRETS = {"WORKER": "key-of-the-worker", "CLUSTER": "token-of-the-cluster"}
AS_USER = (("authorization", f"Bearer {USER}"),)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    environment = {"OBSERVE": OBSERVE, "ADMIN": ADMIN, "USER": USER, **TABLE_SECRETS}
    with running(
        serve("a", dialects=["chat"]), MEMORY + OTHER_TABLES, front_door=KEYS, environment=environment
    ) as found:
        yield found


def captures(plane: Plane) -> list[dict[str, Any]]:
    status, document = plane.ask("GET", "/admin/captures")
    assert status == 200
    found = document["captures"]
    assert isinstance(found, list)
    return found


def newest(plane: Plane) -> dict[str, Any]:
    status, document = plane.ask("GET", f"/admin/captures/{captures(plane)[0]['request']}")
    assert status == 200
    assert isinstance(document, dict)
    return document


@story
async def test_a_translated_stream_is_shown_as_it_came_was_sent_answered_and_got(plane: Plane) -> None:
    async with Talk(plane, "a", f"{SECRET_WORDS} script: tokens=3", "messages", stream=True, headers=AS_USER) as talk:
        events = await talk.rest()
    shown = newest(plane)
    assert (shown["endpoint"], shown["model"], shown["serve"], shown["key"]) == ("/v1/messages", "a", "a", "user")
    client, (call,) = shown["client"], shown["calls"]
    assert client["request"]["line"] == "POST /v1/messages"
    assert SECRET_WORDS in client["request"]["body"]
    assert "max_tokens" in client["request"]["body"]
    assert call["request"]["line"] == "POST /v1/chat/completions"
    assert json.loads(call["request"]["body"])["stream_options"] == {"include_usage": True}
    assert "chat.completion.chunk" in call["answer"]["body"]
    assert "[DONE]" in call["answer"]["body"]
    assert (call["answer"]["line"], client["answer"]["line"]) == ("200", "200")
    assert all(event.data in client["answer"]["body"] for event in events)
    assert "message_stop" in client["answer"]["body"]


@story
async def test_no_key_is_shown(plane: Plane) -> None:
    given = (*AS_USER, ("x-my-token", "hidden-token"))
    tools = {"metadata": {"api_key": "hidden-field"}, "user": f"pasted {ADMIN} {' '.join(TABLE_SECRETS.values())}"}
    await ask(plane, "a", headers=given, **tools)
    text = json.dumps(newest(plane))
    assert not [
        secret for secret in (USER, ADMIN, "hidden-token", "hidden-field", *TABLE_SECRETS.values()) if secret in text
    ]
    assert ["authorization", "[redacted]"] in newest(plane)["client"]["request"]["headers"]


@story
async def test_a_refusal_is_shown_too(plane: Plane) -> None:
    reply = await ask(plane, "no-such-model", headers=AS_USER)
    shown = newest(plane)
    assert shown["client"]["answer"]["line"] == str(reply.status)
    assert shown["calls"] == []
    assert json.loads(shown["client"]["answer"]["body"]) == reply.json()


def test_only_an_administrator_may_see_it(plane: Plane) -> None:
    base = f"http://127.0.0.1:{plane.port}/admin/captures"
    for path in ("", "/any"):
        statuses = [
            httpx.get(base + path, headers={"authorization": f"Bearer {key}"}).status_code
            for key in (USER, OBSERVE, "nobody")
        ]
        assert statuses == [403, 403, 401]
    assert httpx.get(base, headers={"authorization": f"Bearer {ADMIN}"}).status_code == 200


@story
async def test_content_is_in_no_file_and_in_no_other_answer(plane: Plane) -> None:
    await ask(plane, "a", SECRET_WORDS, headers=AS_USER)
    request = captures(plane)[0]["request"]
    assert SECRET_WORDS in json.dumps(newest(plane))
    seen = [plane.ask("GET", path)[1] for path in ("/status", f"/admin/decisions/{request}", "/admin/captures")]
    assert SECRET_WORDS not in json.dumps(seen)
    assert SECRET_WORDS not in plane.run("metrics").stdout
    files = [file for file in plane.directory.rglob("*") if file.is_file()]
    assert len(files) > 5
    assert not [file for file in files if SECRET_WORDS.encode() in file.read_bytes()]


def test_status_and_the_checks_say_that_content_is_kept(plane: Plane) -> None:
    assert plane.status()["capture"]["memory"] == 2 * 2**20
    for words in (("config", "check"), ("serves", "status"), ("top", "--once")):
        done = plane.run(*words)
        assert "capture" in done.stdout + done.stderr, words


@story
async def test_a_reload_switches_it_off_and_all_is_gone(plane: Plane) -> None:
    await ask(plane, "a", SECRET_WORDS, headers=AS_USER)
    before = plane.config.read_text()
    assert captures(plane)
    try:
        plane.config.write_text(before.replace(MEMORY, ""))
        assert plane.admin("reload")[0] == 200
        await ask(plane, "a", SECRET_WORDS, headers=AS_USER)
        assert plane.status()["capture"] is None
        assert plane.ask("GET", "/admin/captures")[1] == {"memory": 0, "used": 0, "captures": []}
        assert plane.ask("GET", "/admin/captures/any")[0] == 404
    finally:
        plane.config.write_text(before)
        assert plane.admin("reload")[0] == 200
    assert captures(plane) == []
