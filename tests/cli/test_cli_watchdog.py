"""`stoker watchdog`: what it shows, and when it exits with 1."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status

from stoker.cli.main import run


def watched(health: str = "verified", **more: Any) -> dict[str, Any]:
    ok = {"verified": True, "unknown": None, "sick": False}[health]
    finding = {"assertion": "context", "ok": ok, "detail": "it has 2048 tokens"}
    return {
        "health": health, "verified_at": time.time() - 7, "looked_at": time.time(), "act": None, "restarts": 0,
        "parked": None, "findings": [finding],
    } | more  # fmt: skip


def one(name: str, state: str, seen: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return serve_status(name, state, watchdog=seen if seen is not None else watched(), **more)


def test_all_verified_is_0_and_one_line(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    stoker.status(one("fast", "ready"), one("slow", "stopped", {}))
    assert run(["watchdog", "--once"]) == 0
    assert capsys.readouterr().out == "1 of 1 running serve verified, nothing is wrong\n"


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (one("a", "ready", watched("sick")), "a is sick: context: it has 2048 tokens; `stoker serves logs a`"),
        (one("a", "stopped", watched(parked="it died again")), "a is parked: it died again"),
        (one("a", "stopped", {}, keep_loaded=True), "a should be up, but is not; `stoker serves up a` starts it"),
        (one("a", "backoff", {}, last_error="no room"), "a did not start: no room; `stoker serves up a`"),
        (
            one("a", "ready", min_tokens_per_second=20, totals={"tokens_per_second": 12.34}),
            "a is slow: 12.3 tokens/s in its last streamed reply, and `min_tokens_per_second` is 20; `stoker top`",
        ),
    ],
)
def test_sick_parked_and_down_are_1_each_with_the_next_command(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str], serve: dict[str, Any], said: str
) -> None:
    stoker.status(one("fast", "ready"), serve)
    assert run(["watchdog", "--once"]) == 1
    out = capsys.readouterr().out
    assert said in out
    assert "fast" not in out
    assert run(["watchdog"]) == 0, "looking is no check"


def test_what_is_unknown_is_said_and_is_no_failure(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    stoker.status(one("fast", "ready", watched("unknown")), serve_status("slow", "ready"))
    assert run(["watchdog", "--once"]) == 0
    out = capsys.readouterr().out
    assert "0 of 2 running serves verified" in out
    assert "fast is unknown: context: it has 2048 tokens" in out
    assert "slow is unknown: not checked yet" in out


def test_the_table_says_how_long_ago_it_was_verified_and_nothing_of_what_is_down(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.status(one("fast", "ready", watched(restarts=2)), one("slow", "stopped", {}))
    assert run(["watchdog"]) == 0
    header, fast, slow = capsys.readouterr().out.splitlines()
    assert header.split() == ["SERVE", "STATE", "HEALTH", "VERIFIED", "RESTARTS", "FOUND"]
    assert fast.split()[:3] == ["fast", "ready", "verified"]
    assert "7." in fast
    assert "s ago" in fast
    assert fast.split()[-1] == "2"
    assert slow.split() == ["slow", "stopped", "-", "-", "0"]


def test_the_document_has_the_problems_and_everything_known(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.status(one("fast", "ready"), one("a", "ready", watched("sick", act="restart")))
    assert run(["watchdog", "--once", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert list(document["problems"]) == ["a"]
    assert [(serve["name"], serve["health"], serve["act"]) for serve in document["serves"]] == [
        ("fast", "verified", None),
        ("a", "sick", "restart"),
    ]


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("once", [[], ["--once"]])
def test_without_a_running_stoker_the_first_step_is_to_start_it(
    capsys: pytest.CaptureFixture[str], once: list[str]
) -> None:
    assert run(["watchdog", *once]) == 1
    said = capsys.readouterr().err
    assert "no serve can be checked" in said
    assert "stoker up --config stoker.toml" in said


def test_an_answer_of_another_version_says_what_to_restart(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.status(one("fast", "ready", {"health": 3}))
    assert run(["watchdog"]) == 1
    assert "restart `stoker up`" in capsys.readouterr().err


def test_no_serves_are_said_to_be_none(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    stoker.status()
    assert run(["watchdog"]) == 0
    assert "no serves are configured" in capsys.readouterr().out
