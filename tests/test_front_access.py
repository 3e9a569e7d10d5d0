"""Who reaches what: keys and scopes, foreign pages, the upstream list, and what is answered to everybody."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stoker.domain.access import Key, Scope
from stoker.domain.serve import Secret
from stoker.testing.client import Reply, compose
from test_flow_stage import CHAT, Stage, a_serve, ask, story

KEYS = (
    Key("all", Secret("sk-all", "env:A"), Scope.ADMIN),
    Key("some", Secret("sk-some", "env:B"), models=("b",)),
    Key("watch", Secret("sk-watch", "env:C"), Scope.OBSERVE),
)
BOTH = (a_serve("a", engine="llama.cpp"), a_serve("b", served_name="b"))


async def get(stage: Stage, path: str, method: str = "GET", document: object = None, **headers: str) -> Reply:
    client = await stage.client()
    return await client.ask(method, path, document, **headers)


# -- 37, 60 ----------------------------------------------------------------------------------------------------------


@story(keys=KEYS)
async def test_without_a_key_every_path_but_health_is_401(stage: Stage) -> None:
    for path in (
        "/v1/models",
        "/status",
        "/metrics",
        "/readyz",
        "/nowhere",
        "/",
        "/upstream/a/health",
        "/admin/switch",
    ):
        reply = await get(stage, path)
        assert (reply.status, reply.json()["error"]["code"]) == (401, "bad_key"), path
    assert (await get(stage, CHAT, "POST", {"model": "a"}, x_api_key="sk-al")).status == 401
    assert (await get(stage, "/healthz")).json() == {"status": "ok"}
    assert (await get(stage, "/v1/messages", "POST", {})).json()["error"]["type"] == "authentication_error"
    assert stage.lines == []


@story(*BOTH, keys=KEYS)
async def test_a_key_for_some_models_sees_and_reaches_no_others(stage: Stage) -> None:
    listed = await get(stage, "/v1/models", x_api_key="sk-some")
    assert [entry["id"] for entry in listed.json()["data"]] == ["b"]
    assert (listed.json()["first_id"], listed.json()["last_id"]) == ("b", "b")
    for path in ("/v1/models/a", "/upstream/a/health"):
        assert (await get(stage, path, x_api_key="sk-some")).status == 404
    refused = await get(stage, CHAT, "POST", {"model": "a"}, x_api_key="sk-some")
    assert (refused.status, refused.json()["error"]["code"]) == (404, "unknown_model")
    assert "'a'" not in refused.json()["error"]["message"].partition(";")[2]


@story(keys=(Key("none", Secret("sk-0", "env:A"), models=()),))
async def test_a_key_for_no_model_gets_an_empty_list(stage: Stage) -> None:
    found = (await get(stage, "/v1/models", x_api_key="sk-0")).json()
    assert (found["data"], found["first_id"]) == ([], None)


@pytest.mark.parametrize(
    ("key", "path", "status"),
    [("sk-some", "/status", 403), ("sk-watch", "/status", 200),
     ("sk-some", "/metrics", 403), ("sk-watch", "/metrics", 200),
     ("sk-some", "/upstream/b/health", 403), ("sk-some", "/readyz", 200), ("sk-some", "/", 200)],
)  # fmt: skip
def test_what_a_key_may_look_at_is_its_scope(key: str, path: str, status: int) -> None:
    @story(*BOTH, keys=KEYS)
    async def tell(stage: Stage) -> None:
        assert (await get(stage, path, authorization=f"Bearer {key}")).status == status

    tell()


@story(*BOTH, keys=KEYS, upstream_errors="hide")
async def test_neither_key_nor_content_is_in_a_log_an_error_or_a_decision(stage: Stage) -> None:
    heard: list[str] = []
    ear = logging.Handler()
    ear.emit = lambda record: heard.append(record.getMessage() + str(record.exc_info))  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(ear)
    level = root.level
    root.setLevel(logging.DEBUG)
    try:
        client = await stage.client()
        await client.send(ask("b", headers=(("x-api-key", "sk-some"), ("cookie", "marker")), content="marker"))
        talk = await stage.asked()
        assert b"sk-some" not in talk.head
        assert b"marker" not in talk.head
        talk.reply({"error": "marker"}, "500 X", "x-own: marker")
        reply = await client.reply()
        wrong = await get(stage, CHAT, "POST", {"model": "b", "content": "marker"}, x_api_key="marker")
    finally:
        root.setLevel(level)
        root.removeHandler(ear)
    for text in (*heard, str(reply), str(wrong), *map(str, stage.decisions)):
        assert "marker" not in text
        assert "sk-some" not in text


# -- 59 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403), ({}, 200)],
)
def test_a_page_of_another_origin_cannot_post_to_a_keyless_loopback(headers: dict[str, str], status: int) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        for path in ("/admin/unload", CHAT + "/nowhere", "/v1/messages"):
            reply = await get(stage, path, "POST", {}, **headers)
            assert reply.status == (status if status == 403 or "admin" in path else reply.status)
            assert status == 403 or reply.status != 403

    tell()


@story()
async def test_a_foreign_host_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose("GET", "/v1/models", host="evil.example"))
    assert (await client.reply()).json()["error"]["code"] == "foreign_host"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_state_change_wants_json(kind: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(
            b"POST /admin/unload HTTP/1.1\r\nhost: localhost\r\ncontent-type: %b\r\ncontent-length: 2\r\n\r\n{}"
            % kind.encode()
        )
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (415, "content_type")

    tell()


# -- 62 --------------------------------------------------------------------------------------------------------------

HIDDEN = [
    "/upstream/a/%2e%2e/slots/0?action=save", "/upstream/a/../slots/0?action=save", "/upstream/a/slots/0?action=save",
    "/upstream/a//slots/0", "/upstream/a/%2Fslots/0", "/upstream/a%2fslots%2f0", "/upstream/a/health/../slots/0",
    "/upstream/a/completion%00", "/upstream/a/props", "/upstream/a/sleep", "/upstream/a/models/load", "/upstream/a/",
    "/upstream/a", "/upstream/zz/health", "/upstream/a/%252e%252e/slots", "/upstream/a/Completion",
]  # fmt: skip


@pytest.mark.parametrize("path", HIDDEN)
def test_what_is_not_listed_never_reaches_the_engine(path: str) -> None:
    @story(*BOTH)
    async def tell(stage: Stage) -> None:
        reply = await get(stage, path, "POST", {"action": "save"})
        assert reply.status in (400, 404)
        assert stage.lines == []

    tell()


@story(*BOTH)
async def test_what_is_listed_is_passed_on_with_its_query(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose("GET", "/upstream/a/props?x=1"))
    talk = await stage.asked()
    assert talk.head.startswith(b"GET /props?x=1 HTTP/1.1")
    talk.reply({"props": 1})
    reply = await client.reply()
    assert (reply.status, reply.json()["props"]) == (200, 1)
    decision = await stage.sealed()
    assert (decision.serve, decision.outcome) == ("a", "served")


@story(*BOTH, body_limit=10)
async def test_what_is_passed_on_is_bounded_too(stage: Stage) -> None:
    assert (await get(stage, "/upstream/a/completion", "POST", {"prompt": "x" * 20})).status == 413


# -- the rest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 200), ("GET", "/readyz", 200), ("GET", "/status", 200),
     ("GET", "/metrics", 200), ("GET", "/nowhere", 404),
     ("GET", CHAT, 405), ("POST", "/status", 405), ("GET", "/v1/models/zz", 404), ("GET", "/admin/decisions", 200)],
)  # fmt: skip
def test_each_path_has_its_answer(method: str, path: str, status: int) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        reply = await get(stage, path, method)
        assert reply.status == status
        assert reply.header("x-request-id")

    tell()


@story()
async def test_an_admin_body_is_bounded(stage: Stage) -> None:
    client = await stage.client()
    await client.send(b"POST /admin/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048577\r\n\r\n")
    assert (await client.reply()).status == 413


@story()
async def test_a_bug_in_the_admin_is_500_and_in_the_log(stage: Stage) -> None:
    def broken(*asked: Any) -> dict[str, Any]:
        raise ZeroDivisionError("secret words")

    stage.admin.status = broken  # type: ignore[method-assign]
    reply = await get(stage, "/status")
    assert reply.status == 500
    assert "secret" not in reply.body.decode()
    assert reply.header("x-request-id") in reply.json()["error"]["message"]
    assert any("secret words" in text for text in stage.complaints)
    stage.complaints.clear()


@story()
async def test_a_client_that_leaves_within_an_admin_body_is_no_error(stage: Stage) -> None:
    client = await stage.client()
    await client.send(b"POST /admin/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
    await stage.until(lambda: stage.state.tasks)
    await client.close()
    await stage.until(lambda: not stage.state.tasks)
