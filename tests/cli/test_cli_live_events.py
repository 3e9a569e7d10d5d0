"""The events of the running Stoker, as `stoker top` and `stoker decisions --follow` read them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status, status

from stoker.cli.commands.top import statuses
from stoker.cli.console.control import Control, ServerEvent
from stoker.cli.console.errors import NotRunning, RequestRefused
from stoker.cli.console.live_events import live_events


def frame(kind: str, data: Any, id: str = "") -> bytes:
    tail = f"id: {id}\n\n" if id else "\n"
    return f"event: {kind}\ndata: {json.dumps(data)}\n{tail}".encode()


def read(stoker: FakeStoker, streams: list[bytes | None]) -> tuple[list[ServerEvent], list[str]]:
    """The events of these streams, one after the other (None: refused with 503), and what was waited for."""
    waited: list[str] = []

    def pause(seconds: float) -> None:
        if not streams:
            raise KeyboardInterrupt
        stream = streams.pop(0)
        stoker.answer("GET /events?topics=status", stream or b"", code=200)

    pause(0.0)
    events = []
    with suppress(KeyboardInterrupt):
        for event in live_events(Control(stoker.path), "status", waited.append, pause):
            events.append(event)
    return events, waited


def test_comments_and_hints_are_no_events(stoker: FakeStoker) -> None:
    stream = b"retry: 2000\n\n: ping\n\n" + frame("snapshot", {"a": 1}, "3") + b": ping\n\n" + frame("delta", {"b": 2})
    assert read(stoker, [stream])[0] == [ServerEvent("snapshot", {"a": 1}, "3"), ServerEvent("delta", {"b": 2}, "")]


def test_after_a_break_it_goes_on_after_the_last_event(stoker: FakeStoker) -> None:
    events, waited = read(stoker, [frame("snapshot", 1, "8"), frame("delta", 2) + frame("delta", 3, "11"), b""])
    assert [event.data for event in events] == [1, 2, 3]
    assert [headers.get("last-event-id") for headers in stoker.headers] == [None, "8", "11"]
    assert waited == []


def test_without_a_stoker_the_first_event_is_an_error_and_a_later_one_is_waited_for(
    stoker: FakeStoker, tmp_path: Path
) -> None:
    with pytest.raises(NotRunning, match="start it: stoker up"):
        next(live_events(Control(tmp_path / "nobody.sock"), "status"))
    stoker.answer("GET /events?topics=status", frame("snapshot", 1, "1"))
    control = Control(stoker.path)
    waited: list[str] = []
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        control.path = tmp_path / "nobody.sock" if pauses < 4 else stoker.path

    events = live_events(control, "status", waited.append, pause)
    assert next(events).data == 1
    assert next(events).data == 1
    assert len(waited) == 1
    assert pauses == 4


def test_a_stoker_without_events_says_so(stoker: FakeStoker) -> None:
    with pytest.raises(RequestRefused, match="no such path"):
        next(live_events(Control(stoker.path), "status"))


def test_the_status_follows_from_a_snapshot_and_what_changed() -> None:
    begin = status(serve_status("fast", "ready"), serve_status("slow"))
    events = [
        ServerEvent("snapshot", begin, "1"),
        ServerEvent("delta", {"topic": "status", "patch": {"serves": {"slow": {"state": "starting"}}}}, "2"),
        ServerEvent("delta", {"topic": "status", "patch": {"serves": {"fast": {"queued": 3}}}}, "3"),
    ]
    seen = [[(serve.state, serve.queued) for serve in one.serves] for one in statuses(events)]
    assert [len(one) for one in seen] == [2, 2, 2]
    assert [one[1][0] for one in seen] == ["stopped", "starting", "starting"]
    assert seen[-1][0][1] == 3
