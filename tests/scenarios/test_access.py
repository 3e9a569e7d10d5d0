"""Who may do what: keys, scopes, hosts, origins, paths, and where a secret may not turn up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import PATHS, STREAMING, ask, document, story
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.client import RawClient, RawReply, compose_request

KEYS = {
    "K_ADMIN": "key-admin-1-of-16",
    "K_LOOK": "key-observe-2-of-16",
    "K_ASK": "key-inference-3-of-16",
    "K_FEW": "key-few-4-of-16-letters",
}
DOOR = """keys = [
  { name = "boss", value = "env:K_ADMIN", scope = "admin" },
  { name = "eye", value = "env:K_LOOK", scope = "observe" },
  { name = "app", value = "env:K_ASK" },
  { name = "few", value = "env:K_FEW", models = ["a"] },
]"""
PATHS_WITHOUT_KEY = ["/v1/models", "/status", "/metrics", "/nothing", "/admin/decisions",
                     "/upstream/a/health", "/events", "/v1/models/a"]  # fmt: skip
TRICKS = [
    "/upstream/open/%2e%2e/slots/0?action=save",
    "/upstream/open/../slots/0?action=save",
    "/upstream/open/v1/../slots/0?action=save",
    "/upstream/open/%252e%252e/slots/0?action=save",
    "/upstream/open/v1%2f..%2fslots/0",
    "/upstream/open//slots/0?action=save",
    "/upstream/open/./slots/0",
    "/upstream/open/..%5cslots",
    "/upstream/open/slots/0?action=save",
    "/upstream/open/SLOTS/0",
    "/upstream/open/props",
    "/upstream/open/v1/chat/completions/../../../slots/0",
    "/upstream/open/tokenize%00",
    "/upstream/open/tokenize/../slots",
    "/upstream/open/health;/../slots",
    "/upstream/%2e%2e/slots/0",
    "/upstream/open/lora-adapters",
    "/upstream/open/models/unload",
    "/upstream/open/control",
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Plane]:
    with running(serve("a", slot=None), serve("b", slot=None), front_door=DOOR, environment=KEYS) as plane:
        yield plane


@pytest.fixture(scope="module")
def unguarded() -> Iterator[Plane]:
    """Without keys, on loopback."""
    with running(serve("open", slot=None), front_door='allowed_hosts = ["llm.example"]') as plane:
        yield plane


@pytest.fixture(autouse=True)
def settled(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"guarded", "unguarded"} & set(request.fixturenames):
        request.getfixturevalue(name).rest()


async def fetch(plane: Plane, method: str, path: str, given: object = None, **headers: str) -> RawReply:
    async with RawClient(plane.port, timeout=30) as client:
        return await client.ask(method, path, given, **headers)


@pytest.mark.parametrize("path", PATHS_WITHOUT_KEY)
@story
async def test_every_path_but_liveness_and_the_page_wants_a_key(guarded: Plane, path: str) -> None:
    """Behaviour 37."""
    for headers in ({}, {"authorization": "Bearer key-wrong"}, {"x_api_key": "key-admin-"}):
        reply = await fetch(guarded, "GET", path, **headers)
        assert (reply.status, reply.json()["error"]["code"]) == (401, "bad_key")
        assert reply.header("www-authenticate") is not None
    for public in ("/", "/healthz", "/readyz", "/ui/"):
        assert (await fetch(guarded, "GET", public)).status == 200


@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_a_wrong_key_is_told_in_the_callers_dialect_before_the_body_is_read(guarded: Plane, dialect: str) -> None:
    """Behaviours 37 and 40."""
    async with RawClient(guarded.port, timeout=30) as client:
        await client.send(
            f"POST {PATHS[dialect]} HTTP/1.1\r\nhost: localhost\r\nx-api-key: no\r\ncontent-length: 99\r\n\r\n".encode()
        )
        reply = await client.reply()
    error = reply.json()["error"]
    assert (reply.status, error["type"], error["source"]) == (401, "authentication_error", "stoker")
    assert (reply.json().get("type") == "error") == (dialect == "messages")


@story
async def test_the_callers_key_never_reaches_the_serve(guarded: Plane) -> None:
    """Behaviour 37."""
    await ask(guarded, "a", headers=(("authorization", f"Bearer {KEYS['K_ASK']}"), ("x-other", "kept")))
    await ask(guarded, "a", headers=(("x-api-key", KEYS["K_ASK"]), ("cookie", "session=1")))
    for request in guarded.received("a", PATHS["chat"]):
        assert not any("key-" in value for _, value in request["headers"]), request["headers"]
        assert "cookie" not in [name for name, _ in request["headers"]]


@story
async def test_scopes_are_kept_apart(guarded: Plane) -> None:
    """Behaviour 60."""
    table = {  # path: the scope it wants
        "GET /v1/models": 1, "GET /status": 2, "GET /metrics": 2, "GET /admin/decisions": 2,
        "POST /admin/unload": 3, "POST /admin/switch": 3, "POST /admin/drain": 3, "POST /admin/reload": 3,
        "POST /admin/cancel": 3,
    }  # fmt: skip
    for line, wanted in table.items():
        method, path = line.split()
        for scope, key in ((1, "K_ASK"), (2, "K_LOOK"), (3, "K_ADMIN")):
            given = None if method == "GET" else {"serve": "a"} if path != "/admin/cancel" else {"request_id": "x"}
            reply = await fetch(guarded, method, path, given, authorization=f"Bearer {KEYS[key]}")
            assert (reply.status == 403) == (scope < wanted), (line, key, reply)
            if scope < wanted:
                assert reply.json()["error"]["code"] == "scope"
    guarded.admin("undrain", serve="a")


@story
async def test_a_key_for_some_models_gets_404_for_the_others_and_does_not_see_them(guarded: Plane) -> None:
    """Behaviour 60."""
    few = {"authorization": f"Bearer {KEYS['K_FEW']}"}
    assert (await fetch(guarded, "POST", PATHS["chat"], document("a"), **few)).status == 200
    refused = await fetch(guarded, "POST", PATHS["chat"], document("b"), **few)
    unknown = await fetch(guarded, "POST", PATHS["chat"], document("bb"), **few)
    assert (refused.status, refused.json()["error"]["code"]) == (404, "unknown_model")
    assert unknown.json()["error"]["message"].replace("bb", "b") == refused.json()["error"]["message"]
    listed = await fetch(guarded, "GET", "/v1/models", **few)
    assert [model["id"] for model in listed.json()["data"]] == ["a"]
    assert (await fetch(guarded, "GET", "/v1/models/b", **few)).status == 404
    assert (await fetch(guarded, "POST", "/upstream/b/tokenize", {"content": "x"}, **few)).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "llm.example.evil"},
    ],
    ids=str,
)
@story
async def test_a_foreign_page_or_host_is_refused_on_a_keyless_loopback(
    unguarded: Plane, headers: dict[str, str]
) -> None:
    """Behaviour 59."""
    host = headers.pop("host", f"127.0.0.1:{unguarded.port}")
    for path, given in (("/admin/unload", {"serve": "open"}), (PATHS["chat"], document("open")), ("/v1/models", None)):
        async with RawClient(unguarded.port, timeout=30) as client:
            await client.send(compose_request("GET" if given is None else "POST", path, given, headers.items(), host))
            reply = await client.reply()
        assert reply.status == 403, (path, reply)
        assert reply.json()["error"]["code"] in ("foreign_host", "foreign_origin")


@story
async def test_state_changes_want_json_and_own_pages_are_let_in(unguarded: Plane) -> None:
    """Behaviour 59: no form of a foreign page can send this type without asking first."""
    body = b'{"serve": "open"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        async with RawClient(unguarded.port, timeout=30) as client:
            await client.send(
                b"POST /admin/drain HTTP/1.1\r\nhost: localhost\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
                % (kind.encode(), len(body), body)
            )
            reply = await client.reply()
            assert (reply.status, reply.json()["error"]["code"]) == (415, "content_type")
    assert unguarded.serve("open")["state"] == "stopped", "it is held"
    own = f"http://localhost:{unguarded.port}"
    for host in (f"localhost:{unguarded.port}", "llm.example", "[::1]:9"):
        async with RawClient(unguarded.port, timeout=30) as client:
            origin = [("origin", own)] if host.startswith("localhost") else []
            await client.send(compose_request("GET", "/v1/models", None, origin, host))
            assert (await client.reply()).status == 200, host


@pytest.mark.parametrize("field", ["model", "stream", "max_tokens"])
@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_two_fields_of_one_name_are_400(unguarded: Plane, dialect: str, field: str) -> None:
    """Behaviour 61."""
    value = {"model": '"open"', "stream": "false", "max_tokens": "5"}[field]
    plain = json.dumps(document("open", dialect=dialect) | {field: json.loads(value)})
    for double in (
        plain[:-1] + f', "{field}": {value}}}',
        plain[:-1] + f', "{field[0]}\\u{ord(field[1]):04x}{field[2:]}": {value}}}',
    ):
        async with RawClient(unguarded.port, timeout=30) as client:
            head = f"POST {PATHS[dialect]} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(double)}\r\n\r\n"
            await client.send((head + double).encode())
            reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "duplicate_field"), double
    assert unguarded.starts("open") == 0 or unguarded.serve("open")["state"] == "stopped"


@story
async def test_json_nested_ten_thousand_deep_is_400_in_linear_time(unguarded: Plane) -> None:
    """Behaviour 61."""
    times = []
    async with RawClient(unguarded.port, timeout=30) as client:
        for depth in (66, 10_000, 1_000_000):
            for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
                middle = b"1" if left == b'{"a":' else b""
                body = b'{"model":"open","messages":' + left * depth + middle + right * depth + b"}"
                began = time.monotonic()
                await client.send(
                    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
                )
                await client.send(body)
                reply = await client.reply()
                times.append(time.monotonic() - began)
                expected = (400, "too_deep") if depth <= 10_000 else (413, "too_many_values")
                assert (reply.status, reply.json()["error"]["code"]) == expected
                client = await _again(client, unguarded) if reply.header("connection") == "close" else client
        await client.close()
    assert max(times) < 3.0, times


async def _again(client: RawClient, plane: Plane) -> RawClient:
    await client.close()
    fresh = RawClient(plane.port, timeout=30)
    await fresh.connect()
    return fresh


@pytest.mark.parametrize("path", TRICKS)
@story
async def test_no_variant_of_a_path_reaches_what_is_not_listed(unguarded: Plane, path: str) -> None:
    """Behaviour 62."""
    await ask(unguarded, "open")
    before = unguarded.scripted("open")["started"]
    for method in ("POST", "GET"):
        if (method, path) == ("GET", "/upstream/open/props"):
            continue  # reading is listed for llama.cpp; not for this engine, see below
        reply = await fetch(unguarded, method, path, {} if method == "POST" else None)
        assert reply.status in (400, 404), (method, path, reply)
        assert reply.json()["error"]["source"] == "stoker"
    assert unguarded.scripted("open")["started"] == before
    seen = [one for part in ("slots", "props", "control", "lora", "unload")
            for one in unguarded.received("open", f"/{part}")]  # fmt: skip
    assert seen == []


@story
async def test_what_is_listed_passes_through_upstream(unguarded: Plane) -> None:
    """The neighbour of behaviour 62: it is loaded for it."""
    reply = await fetch(unguarded, "POST", "/upstream/open/tokenize", {"content": "three small words"})
    assert reply.json() == {"tokens": [0, 1, 2]}
    assert (await fetch(unguarded, "GET", "/upstream/open/v1/models")).json()["data"][0]["id"] == "open"


SECRET = "marker-5ecret-zebra"


@story
async def test_a_marker_secret_turns_up_in_no_log_metric_decision_or_file() -> None:
    """Behaviour 50's second half: prompt, reply, key, headers, tool arguments; served, refused, broken."""
    with running(
        serve("a", slot=None, key="env:SERVE_KEY"),
        serve("dies", slot=None, cmd=["sh", "-c", "echo trying; exit 3; : {port}"]),
        front_door='keys = [{ name = "app", value = "env:THE_KEY", scope = "admin" }]',
        environment={"THE_KEY": f"{SECRET}-key", "SERVE_KEY": f"{SECRET}-serve"},
    ) as plane:
        headers = (("authorization", f"Bearer {SECRET}-key"), ("x-custom", SECRET), ("cookie", f"c={SECRET}"))
        call = {"type": "function", "id": "c1", "function": {"name": "f", "arguments": json.dumps({"arg": SECRET})}}
        tools = [{"type": "function", "function": {"name": "f", "description": SECRET, "parameters": {}}}]
        turns = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": SECRET},
            {"role": "user", "content": SECRET},
        ]
        statuses = []
        for model in ("a", "dies", f"unknown-{SECRET[:3]}"):
            for extra in ({"stream": True}, {"max_tokens": SECRET, "user": SECRET})[: 1 if model == "dies" else 2]:
                reply = await ask(plane, model, headers=headers, messages=turns, tools=tools, **extra)
                statuses.append(reply.status)
        for script in ("die_after=2", "error_status=500 error_body=" + SECRET, f"text={SECRET}", "error_event_after=1"):
            for streamed in (True, False):
                turn = [{"role": "user", "content": f"script: {script}"}]
                reply = await ask(plane, "a", headers=headers, messages=turn, stream=streamed)
                statuses.append(reply.status)
        statuses.append((await ask(plane, "a", headers=(("x-api-key", f"{SECRET}-wrong"),))).status)
        statuses.append(
            (await fetch(plane, "GET", f"/upstream/a/{SECRET}", authorization=f"Bearer {SECRET}-key")).status
        )
        assert {200, 401, 404, 503, 502} <= set(statuses), statuses
        shown = json.dumps([plane.status(), plane.decisions(), plane.ask("GET", "/metrics")[1]]) + plane.said()
        assert SECRET not in shown
        await asyncio.to_thread(plane.finish)
        told = [file for file in plane.directory.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
        assert told == []
        assert (plane.state / "decisions.db").stat().st_size > 0
        loose = [file for file in plane.state.iterdir() if file.is_file() and file.stat().st_mode & 0o077]
        assert loose == [], "files that others may read"
