"""A first tier that hangs, refuses, breaks or asks for a pause, told with scripted model servers: the next one answers,
and `stoker explain` says what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from email.utils import formatdate
from time import time
from typing import Any

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, free_port, poll, running, serve
from tests.scenarios.test_command_line import stoker

from stoker_lab.testing.script.script import Script

TIERS = """
[router]
breaker_failures = 100
breaker_cool_down = "100ms"
[[tier]]
name = "first"
serve = "a"
first_byte_timeout = "300ms"
[[tier]]
name = "second"
serve = "b"
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(serve("a", Script(), slot=None), serve("b", Script(), slot=None), TIERS) as plane:
        for name in "ab":
            assert plane.admin("switch", serve=name)[0] == 200
        yield plane


@pytest.fixture
def plane(shared: Plane) -> Iterator[Plane]:
    poll(lambda: shared.status()["routing"]["tiers"][0]["circuit"] != "rate-limited", "no pause is left")
    yield shared
    shared.scripted(
        "a", error_status=None, retry_after=None, stall_after=None, die_after=None, die_how="close",
        error_event_after=None, role_first=False,
    )  # fmt: skip


@pytest.mark.parametrize(("dialect", "stream"), [("chat", True), ("chat", False), ("messages", True)])
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"stall_after": -1}, "first_byte_timeout"),
        ({"stall_after": 0, "role_first": True}, "first_byte_timeout"),
        ({"error_status": 401}, "upstream_auth"),
        ({"error_status": 404}, ""),
        ({"error_status": 429}, "upstream_busy"),
        ({"error_status": 500}, "upstream_error"),
        ({"die_after": -1, "die_how": "reset"}, "upstream_broke"),
        ({"die_after": 0, "die_how": "close"}, ""),
        ({"error_event_after": 0}, ""),
    ],
    ids=str,
)
@story
async def test_the_next_tier_answers_and_the_record_says_why(
    plane: Plane, fault: dict[str, Any], code: str, stream: bool, dialect: str
) -> None:
    if not stream and ("error_event_after" in fault or "role_first" in fault):
        return  # what only a stream has
    plane.scripted("a", **fault)
    poll(lambda: _is_tried(plane), "the first tier's circuit lets requests through")
    reply = await ask(plane, "auto", dialect=dialect, stream=stream)
    assert (reply.status, reply.header("x-stoker-tier")) == (200, "second")
    decision = plane.decision(reply.header("x-request-id") or "")
    first, second = decision["routed"]["attempts"]
    assert (first["tier"], second["tier"], second["outcome"]) == ("first", "second", "served")
    assert first["outcome"] == code or (not code and first["outcome"] not in ("", "served", "left"))


def _is_tried(plane: Plane) -> bool:
    """The circuit is not shut: it is closed, or its cool-down of 100 ms is over."""
    found = plane.ask("POST", "/admin/route", {"prompt": "hello", "model": "auto"})[1]
    return bool(found["steps"]) and found["steps"][0]["tier"] == "first"


@pytest.mark.parametrize("form", ["seconds", "date"])
@story
async def test_a_pause_that_a_tier_asks_for_is_kept_and_shown(plane: Plane, form: str) -> None:
    until = "2" if form == "seconds" else formatdate(time() + 2, usegmt=True)
    plane.scripted("a", error_status=429, retry_after=until)
    poll(lambda: _is_tried(plane), "the first tier's circuit lets requests through")
    assert (await ask(plane, "auto")).header("x-stoker-tier") == "second"
    shown = plane.status()["routing"]["tiers"][0]
    assert (shown["circuit"], 0 < shown["retry_in"] <= 2) == ("rate-limited", True)
    before = len(plane.received("a", "/v1/chat/completions"))
    reply = await ask(plane, "auto")
    assert len(plane.received("a", "/v1/chat/completions")) == before, "it is not asked"
    assert reply.header("x-stoker-tier") == "second"
    assert "it asked for a pause (HTTP 429)" in stoker(plane, "explain", reply.header("x-request-id") or "")


@story
async def test_a_refusal_of_the_only_tier_is_not_called_served(plane: Plane) -> None:
    plane.scripted("a", error_status=400)
    poll(lambda: _is_tried(plane), "the first tier's circuit lets requests through")
    reply = await ask(plane, "auto")
    assert reply.status == 400
    told = stoker(plane, "explain", reply.header("x-request-id") or "")
    assert "outcome      refused" in told
    assert "first: upstream_refused" in told or "first: invalid" in told
    assert "served" not in told.partition("tried")[2].partition("candidates")[0]


@story
async def test_a_tier_at_a_base_url_near_by_is_shown_as_running_and_denied_what_it_was_not_measured_at() -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(*Script(id="big").command(port), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    tier = f'[[tier]]\nname = "near"\nbase_url = "http://127.0.0.1:{port}/v1"\nmodel = "big"\n'
    try:
        with running(tier) as plane:
            poll(lambda: plane.serve("near")["state"] == "ready", "it is found without being asked for")
            assert "ready" in stoker(plane, "serves", "status")
            reply = await ask(plane, "auto:planning")
            assert (reply.status, reply.json()["error"]["code"]) == (403, "no_tier")
            assert "stoker eval bootstrap near --class planning" in reply.json()["error"]["message"]
            assert "so this is a local tier" in stoker(plane, "config", "check")
    finally:
        process.terminate()
        await process.communicate()
