"""Who may do what: keys, scopes, hosts, origins, paths, and where a secret may not turn up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import PATHS, ask, story
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.client import RawClient, RawReply

KEYS = {
    "K_ADMIN": "key-admin-1-of-16",
    "K_LOOK": "key-observe-2-of-16",
    "K_ASK": "key-inference-3-of-16",
}
DOOR = """keys = [
  { name = "boss", value = "env:K_ADMIN", scope = "admin" },
  { name = "eye", value = "env:K_LOOK", scope = "observe" },
  { name = "app", value = "env:K_ASK" },
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
    with running(serve("open", slot=None)) as plane:
        yield plane


@pytest.fixture(autouse=True)
def settled(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"guarded", "unguarded"} & set(request.fixturenames):
        request.getfixturevalue(name).rest()


async def fetch(plane: Plane, method: str, path: str, given: object = None, **headers: str) -> RawReply:
    async with RawClient(plane.port, timeout=30) as client:
        return await client.ask(method, path, given, **headers)


@story
async def test_every_path_but_liveness_and_the_page_wants_a_key(guarded: Plane) -> None:
    """Behaviour 37."""
    for path in PATHS_WITHOUT_KEY:
        for headers in ({}, {"authorization": "Bearer key-wrong"}, {"x_api_key": "key-admin-"}):
            reply = await fetch(guarded, "GET", path, **headers)
            assert (reply.status, reply.json()["error"]["code"]) == (401, "bad_key"), path
            assert reply.header("www-authenticate") is not None
    for public in ("/", "/healthz", "/readyz", "/ui/"):
        assert (await fetch(guarded, "GET", public)).status == 200


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
async def test_no_variant_of_a_path_reaches_what_is_not_listed(unguarded: Plane) -> None:
    """Behaviour 62."""
    await ask(unguarded, "open")
    before = unguarded.scripted("open")["started"]
    for path in TRICKS:
        for method in ("POST", "GET"):
            if (method, path) == ("GET", "/upstream/open/props"):
                continue  # reading is listed
            reply = await fetch(unguarded, method, path, {} if method == "POST" else None)
            assert reply.status in (400, 404), (method, path, reply)
            assert reply.json()["error"]["source"] == "stoker"
    assert unguarded.scripted("open")["started"] == before
    seen = [one for part in ("slots", "props", "control", "lora", "unload")
            for one in unguarded.received("open", f"/{part}")]  # fmt: skip
    assert seen == []


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
