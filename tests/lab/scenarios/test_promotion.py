"""An alias moves by evidence and comes back by itself: real processes, the real program."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, poll, running, serve

from stoker.domain.run import Finding, Outcome, Run, RunKind, Subject
from stoker_lab.testing.script.script import Script

GATE = '[gate.default]\nconditions = ["preflight"]'
ALIAS = '[alias.coder]\nserve = "old"\ngate = "default"\nwatch = "20s"\ncheck_every = "200ms"'


@pytest.fixture
def shared() -> Iterator[Plane]:
    with running(
        serve("old", Script(text="old"), slot=None),
        serve("new", Script(text="new"), slot=None),
        GATE,
        ALIAS,
    ) as plane:
        yield plane


def evidence(plane: Plane, outcome: Outcome = Outcome.PASSED) -> str:
    """A gate's result, as `stoker gate` leaves it."""
    id = "20260101T000000Z-gate-new-0000"
    run = Run(id, RunKind.GATE, 1.0, 1.0, Subject("new", "new", ""), outcome, [Finding("preflight", outcome)],
              settings={"gate": msgspec.Raw(b'"default"'), "conditions": msgspec.Raw(b'["preflight"]')})  # fmt: skip
    path = Path(plane.state) / "results" / f"{id}.json"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(msgspec.json.encode(run))
    return id


async def said(plane: Plane) -> str:
    reply = await ask(plane, "coder")
    return str(reply.json()["choices"][0]["message"]["content"])[:3]


def aliases(plane: Plane) -> list[dict[str, object]]:
    return plane.ask("GET", "/status")[1]["aliases"]  # type: ignore[no-any-return]


@story
async def test_a_promoted_model_that_fails_later_is_taken_back(plane: Plane) -> None:
    assert await said(plane) == "old"
    assert (await ask(plane, "new")).status == 200  # it is loaded
    id = evidence(plane)
    status, done = plane.ask("POST", "/admin/promote", {"alias": "coder", "serve": "new", "evidence": id})
    assert (status, done["previous"]) == (200, "old")
    assert await said(plane) == "new"
    (shown,) = aliases(plane)
    assert (shown["serve"], shown["evidence"]) == ("new", id)
    time.sleep(1.0)  # the canary has looked by now
    target = plane.ask("GET", "/status")[1]["serves"]
    port = next(one["port"] for one in target if one["name"] == "new")
    _tell(port, {"text": "odd"})
    poll(lambda: aliases(plane)[0]["serve"] == "old", "it is taken back")
    assert await said(plane) == "old"
    told = [event for event in plane.ask("GET", "/status")[1]["events"] if event["kind"] == "rolled back"]
    assert "new failed its canary" in told[0]["text"]
    poll(lambda: list((plane.state / "results").glob("*-promotion-new-*.json")), "its result is kept")
    (kept,) = (plane.state / "results").glob("*-promotion-new-*.json")
    run = json.loads(kept.read_bytes())
    assert (run["outcome"], run["findings"][0]["name"]) == ("failed", "canary")


@story
async def test_a_failed_gate_moves_nothing_and_names_the_condition(plane: Plane) -> None:
    """Behaviour 58."""
    id = evidence(plane, Outcome.FAILED)
    status, refused = plane.ask("POST", "/admin/promote", {"alias": "coder", "serve": "new", "evidence": id})
    assert (status, refused["error"]["code"]) == (409, "no_evidence")
    assert "failed: preflight" in refused["error"]["message"]
    assert await said(plane) == "old"


def _tell(port: int, changes: dict[str, object]) -> None:
    import urllib.request

    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/control", json.dumps(changes).encode(), {"content-type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=10).close()


def test_a_reload_without_the_promoted_serve_says_that_the_promotion_has_ended() -> None:
    with running(serve("old"), serve("new"), '[alias.coder]\nserve = "old"\n') as plane:
        assert plane.admin("promote", alias="coder", serve="new", force=True, reason="x")[0] == 200
        whole = plane.config.read_text()
        plane.write(whole.replace(serve("new"), ""))
        preview = plane.run("reload", "--dry-run").stderr
        assert "the promotion of coder to new would end, because new is no longer configured" in preview
        assert aliases(plane)[0]["promoted_at"] is not None
        assert "the promotion of coder to new has ended" in plane.run("reload").stderr
        assert [aliases(plane)[0][key] for key in ("serve", "promoted_at", "watched_for")] == ["old", None, None]
        plane.write(whole)
        assert plane.run("reload").returncode == 0
        assert "as configured" in plane.run("promote").stdout
