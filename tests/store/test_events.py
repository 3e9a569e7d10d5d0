"""Recent events: the newest first, and a long text ends with a sign that it goes on."""

from __future__ import annotations

from stoker.store.events import KEPT, LENGTH, RecentEvents


def test_a_long_text_shows_that_it_was_cut() -> None:
    events = RecentEvents(lambda: 1.0)
    for text in ("x" * LENGTH, "y" * (LENGTH + 1)):
        events.note("failed", "a", text)
    cut, whole = (one["text"] for one in events.recent(2))
    assert whole == "x" * LENGTH
    assert cut == "y" * (LENGTH - 1) + "…"


def test_old_events_make_room() -> None:
    events = RecentEvents(lambda: 1.0)
    for number in range(KEPT + 5):
        events.note("ready", "a", str(number))
    assert [one["text"] for one in events.recent(2)] == [str(KEPT + 4), str(KEPT + 3)]
    assert len(events.recent(KEPT + 5)) == KEPT
