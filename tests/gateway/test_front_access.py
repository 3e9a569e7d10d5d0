"""Who reaches what: keys and scopes, foreign pages, the upstream list, and what is answered to everybody."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from tests.gateway.flow_stage import CHAT, Stage, a_serve, ask, story

from stoker.access.refusals import MIN_DELAY, UNDELAYED
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret
from stoker_lab.testing.client import RawReply, compose_request

KEYS = (
    Key("all", Secret("sk-all", "env:A"), Scope.ADMIN),
    Key("some", Secret("sk-some", "env:B"), models=("b",)),
    Key("watch", Secret("sk-watch", "env:C"), Scope.OBSERVE),
)
BOTH = (a_serve("a", engine="llama.cpp"), a_serve("b", served_name="b"))


async def get(stage: Stage, path: str, method: str = "GET", document: object = None, **headers: str) -> RawReply:
    client = await stage.client()
    return await client.ask(method, path, document, **headers)


# -- 37, 60 ----------------------------------------------------------------------------------------------------------


@story(keys=KEYS)
async def test_without_a_key_every_path_but_health_and_readiness_is_401(stage: Stage) -> None:
    for path in (
        "/v1/models",
        "/status",
        "/metrics",
        "/nowhere",
        "/upstream/a/health",
        "/admin/switch",
    ):
        reply = await get(stage, path)
        assert (reply.status, reply.json()["error"]["code"]) == (401, "bad_key"), path
    assert (await get(stage, CHAT, "POST", {"model": "a"}, x_api_key="sk-al")).status == 401
    for path in ("/healthz", "/health", "/readyz"):
        assert (await get(stage, path)).json() == {"status": "ok"}
    assert (await get(stage, "/")).json()["name"] == "stoker"
    probe = await stage.client()
    await probe.send(compose_request("HEAD", "/"))
    assert (await probe.head()).status == 200
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


@pytest.mark.parametrize("upstream_errors", ["show", "hide"])
def test_neither_key_nor_content_is_in_a_log_an_error_or_a_decision(upstream_errors: str) -> None:
    """Only the reply to the client itself may say what the engine said: where that is shown."""

    @story(*BOTH, keys=KEYS, upstream_errors=upstream_errors)
    async def tell(stage: Stage) -> None:
        await neither_key_nor_content_leaks(stage, upstream_errors == "show")

    tell()


async def neither_key_nor_content_leaks(stage: Stage, shows: bool) -> None:
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
    others = (*heard, str(wrong), *map(str, stage.decisions), *stage.notes)
    for text in others:
        assert "marker" not in text
    for text in (*others, str(reply)):
        assert "sk-some" not in text
    assert stage.notes
    assert ("marker" in reply.body.decode()) == shows
    assert "marker" not in str(reply.headers)


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
    await client.send(compose_request("GET", "/v1/models", host="evil.example"))
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
    await client.send(compose_request("GET", "/upstream/a/props?x=1"))
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

    stage.status.document = broken  # type: ignore[method-assign]
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


# -- pages of other origins ------------------------------------------------------------------------------------------

PAGE = "https://chat.example.com"


@pytest.mark.parametrize(
    "path", ["/upstream/a/health", "/upstream/a/v1/models", "/upstream/a/props", "/upstream/a/metrics"]
)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_an_image_on_any_page_loads_no_model(path: str, site: str) -> None:
    @story(*BOTH)
    async def tell(stage: Stage) -> None:
        reply = await get(stage, path, sec_fetch_site=site, sec_fetch_mode="no-cors")
        assert (reply.status, reply.json()["error"]["code"]) == (403, "foreign_page")
        assert stage.lines == []

    tell()


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_an_address_that_a_person_typed_is_answered(site: str) -> None:
    @story(*BOTH)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(compose_request("GET", "/upstream/a/health", None, [("sec-fetch-site", site)]))
        (await stage.asked()).reply({"status": "ok"})
        assert (await client.reply()).status == 200

    tell()


@story(*BOTH)
async def test_a_link_from_another_page_may_be_looked_at(stage: Stage) -> None:
    for path in ("/status", "/v1/models", "/"):
        assert (await get(stage, path, sec_fetch_site="cross-site")).status == 200


@story(*BOTH, keys=KEYS, allowed_origins=(PAGE,))
async def test_an_allowed_page_asks_first_without_a_key(stage: Stage) -> None:
    asks = {"origin": PAGE, "access_control_request_method": "POST",
            "access_control_request_headers": "authorization,content-type"}  # fmt: skip
    for path in (CHAT, "/v1/models", "/nowhere", "/admin/switch"):
        reply = await get(stage, path, "OPTIONS", **asks)
        assert (reply.status, reply.body) == (204, b"")
        assert reply.header("access-control-allow-origin") == PAGE
        assert reply.header("access-control-allow-headers") == "authorization,content-type"
        assert reply.header("content-length") is None
    other = await get(stage, CHAT, "OPTIONS", **{**asks, "origin": "https://evil.example"})
    assert (other.status, other.header("access-control-allow-origin")) == (403, None)
    assert (await get(stage, CHAT, "OPTIONS")).status == 401


@story(*BOTH, keys=KEYS, allowed_origins=(PAGE,))
async def test_every_reply_to_an_allowed_page_can_be_read_by_it(stage: Stage) -> None:
    for path, key, status in (("/v1/models", "sk-all", 200), ("/v1/models", "no", 401), ("/nowhere", "sk-all", 404),
                              ("/status", "sk-some", 403), ("/healthz", "", 200), (CHAT, "sk-all", 405)):  # fmt: skip
        reply = await get(stage, path, x_api_key=key, origin=PAGE, sec_fetch_site="cross-site")
        assert (reply.status, reply.header("access-control-allow-origin")) == (status, PAGE), path
        assert "x-request-id" in (reply.header("access-control-expose-headers") or "")
        assert reply.header("vary") == "Origin"
    plain = await get(stage, "/v1/models", x_api_key="sk-all")
    assert (plain.header("access-control-allow-origin"), plain.header("vary")) == (None, "Origin")


@story(keys=KEYS, allowed_origins=(PAGE,))
async def test_a_stream_to_an_allowed_page_can_be_read_by_it_and_the_serve_has_no_say(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(headers=(("x-api-key", "sk-all"), ("origin", PAGE)), stream=True))
    talk = await stage.asked()
    assert talk.header("origin") is None
    talk.begin("access-control-allow-origin: *", "access-control-expose-headers: x-own")
    talk.say("x")
    talk.end()
    head = await client.head()
    assert [value for name, value in head.headers if name.lower() == "access-control-allow-origin"] == [PAGE]
    assert [value for name, value in head.headers if name.lower() == "access-control-expose-headers"] != ["x-own"]
    await client.body(head)


@story()
async def test_without_allowed_origins_no_reply_says_anything_about_pages(stage: Stage) -> None:
    reply = await get(stage, "/v1/models")
    assert not [name for name, _ in reply.headers if name.startswith("access-control") or name == "vary"]


# -- heads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "content-type", "origin", "sec-fetch-site"])
def test_two_headers_of_a_kind_that_decides_something_are_400(name: str) -> None:
    @story(*BOTH, keys=KEYS)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        given = [("x-api-key", "sk-all"), (name, "a"), (name, "b")]
        await client.send(compose_request("GET", "/v1/models", None, given))
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "repeated_header")

    tell()


@story(*BOTH, keys=KEYS)
async def test_an_empty_bearer_beside_a_valid_key_is_the_valid_key(stage: Stage) -> None:
    for empty in ("Bearer", "Bearer ", "bearer   ", ""):
        assert (await get(stage, "/v1/models", authorization=empty, x_api_key="sk-some")).status == 200


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/nowhere"])
def test_http_1_1_without_host_is_400(path: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "no_host")
        old = await stage.client()
        await old.send(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        assert (await old.head()).status == (200 if path == "/healthz" else 403), (
            "a name of ours is asked for all the same"
        )

    tell()


@pytest.mark.parametrize(("coding", "status"), [("gzip", 415), ("br", 415), ("identity, gzip", 415), ("x", 415)])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/upstream/a/tokenize", "/admin/unload", "/api/show"])
def test_a_compressed_body_is_415(path: str, coding: str, status: int) -> None:
    @story(*BOTH)
    async def tell(stage: Stage) -> None:
        reply = await get(stage, path, "POST", {"model": "a"}, content_encoding=coding)
        assert (reply.status, reply.header("accept-encoding")) == (status, "identity")
        assert stage.lines == []

    tell()


@story()
async def test_a_body_whose_coding_is_none_is_served(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(headers=(("content-encoding", "identity"),)))
    (await stage.asked()).reply({"ok": 1})
    assert (await client.reply()).status == 200


@pytest.mark.parametrize(
    "path", ["/%61dmin/unload", "/admin%2funload", "/admin/%75nload", "/%73tatus", "/v1%2fmessages"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_encoded_path_leads_nowhere(path: str, method: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        assert (await get(stage, path, method, {"serve": "a"})).status in (400, 404)

    tell()


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", CHAT, "POST"), ("DELETE", "/v1/models", "GET, HEAD"), ("POST", "/status", "GET, HEAD"),
     ("PUT", "/v1/messages", "POST"), ("GET", "/api/show", "POST")],
)  # fmt: skip
def test_405_says_what_is_allowed(method: str, path: str, allow: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        reply = await get(stage, path, method)
        assert (reply.status, reply.header("allow")) == (405, allow)

    tell()


# -- keys that are guessed -------------------------------------------------------------------------------------------


@story(*BOTH, keys=KEYS)
async def test_wrong_keys_are_answered_ever_later_and_a_right_one_at_once(stage: Stage) -> None:
    began = time.monotonic()
    for _ in range(UNDELAYED + 2):
        assert (await get(stage, "/v1/models", x_api_key="wrong-key")).status == 401
    slowed = time.monotonic() - began
    assert slowed >= 3 * MIN_DELAY
    guessing = [await stage.client() for _ in range(20)]
    for client in guessing:
        await client.send(compose_request("POST", CHAT, {"model": "a"}, [("x-api-key", "wrong-key")]))
    began = time.monotonic()
    assert (await get(stage, "/v1/models", x_api_key="sk-all")).status == 200
    assert time.monotonic() - began < MIN_DELAY
    assert stage.refused["wrong_key", "loopback"] == UNDELAYED + 2 + 20


@story(*BOTH, keys=KEYS)
async def test_refusals_at_the_door_are_counted_and_are_no_decisions(stage: Stage) -> None:
    for path, headers in (("/v1/models", {}), ("/nowhere", {"x_api_key": "sk-all"}), ("/status", {"origin": "http://e.example"}),
                          ("/upstream/a/health", {"x_api_key": "sk-all", "sec_fetch_site": "cross-site"})):  # fmt: skip
        for _ in range(3):
            await get(stage, path, **headers)
    assert stage.refused == {
        (reason, "loopback"): 3 for reason in ("missing_key", "no_route", "foreign_origin", "foreign_page")
    }
    assert stage.decisions == []


@story()
async def test_what_is_not_offered_is_refused_in_the_shape_of_its_api(stage: Stage) -> None:
    openai = (await get(stage, "/v1/moderations", "POST", {"input": "x"})).json()["error"]
    assert (openai["code"], openai["type"]) == ("not_offered", "not_found_error")
    for path, headers in (("/v1/messages/batches", {}), ("/v1/files", {"anthropic_version": "2023-06-01"})):
        anthropic = (await get(stage, path, **headers)).json()
        assert (anthropic["type"], anthropic["error"]["type"]) == ("error", "not_found_error")
    assert isinstance((await get(stage, "/api/push", "POST", {})).json()["error"], str)
    unknown = (await get(stage, "/v1/models/nothing", anthropic_version="2023-06-01")).json()
    assert unknown["error"]["type"] == "not_found_error"
    assert "request_id" in unknown
