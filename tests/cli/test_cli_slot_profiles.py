"""`slot list` is a table of what could run, and a switch says what the engine said of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.fake_stoker import Answer, FakeStoker, serve_status

from stoker.cli.main import run

Captured = pytest.CaptureFixture[str]
FACTS = {"kv_tokens": 245760, "full_contexts": 7.5, "load_s": 12.0, "graph_s": 14.0, "build": "x"}


def test_each_serve_is_listed_with_status_modalities_and_purpose(stoker: FakeStoker, capsys: Captured) -> None:
    profile = {"status": "rejected", "reason": "too slow", "modalities": ["text", "image"], "purpose": "reads plans"}
    stoker.status(serve_status("fast", context=8192), serve_status("seer", **profile), serve_status("out", slot=None))
    assert run(["slot", "list"]) == 0
    slots, profiles = capsys.readouterr().out.split("\n\n")
    assert slots.splitlines()[1].split()[0] == "gpu0"
    header, fast, seer = profiles.splitlines()
    assert header.split() == ["SERVE", "SLOT", "STATE", "STATUS", "MODALITIES", "CONTEXT", "PURPOSE"]
    assert fast.split() == ["fast", "gpu0", "stopped", "production", "-", "8192", "-"]
    for word in ("rejected-too slow", "text, image", "reads plans"):
        assert word in seer


def test_a_serve_that_does_not_work_as_it_should_is_named_below_the_slots(stoker: FakeStoker, capsys: Captured) -> None:
    finding = {"assertion": "devices", "ok": False, "detail": "its engine printed that it uses nvidia:0"}
    stoker.status(serve_status("fast", "ready", watchdog={"health": "sick", "findings": [finding]}), serve_status("b"))
    assert run(["slot", "list"]) == 0
    assert capsys.readouterr().out.endswith("\nfast is sick: devices: its engine printed that it uses nvidia:0\n")


@pytest.mark.parametrize("facts", [FACTS, {}])
def test_a_switch_ends_with_what_the_engine_holds_and_where_the_time_went(
    facts: dict[str, Any], stoker: FakeStoker, capsys: Captured
) -> None:
    def switch(body: Any) -> Answer:
        stoker.status(serve_status("slow", "ready", facts=facts))
        return 200, {"serve": "slow", "seconds": 2.5, "phases": {"start": 2.0}}

    stoker.routes["POST /admin/switch"] = switch
    assert run(["slot", "switch", "slow"]) == 0
    ready, *more = capsys.readouterr().out.splitlines()
    assert ready.startswith("slow is ready after 2.5")
    line = "KV cache 245,760 tokens, 7.5 requests of the whole context; weights 12.0 s, graphs 14.0 s"
    assert more == ([line] if facts else [])
    stoker.status(serve_status("fast", "ready"), serve_status("slow"))
    assert run(["slot", "switch", "slow", "--json"]) == 0
    [done] = json.loads(capsys.readouterr().out)["done"]
    assert done.get("facts", {}) == {key: value for key, value in facts.items() if key != "build"}
